"""The suite that the package ships for stores, with encrypted content on PostgreSQL."""

from concertino.testing.store_suite import *
