"""The suite that the package ships for stores, with the store on PostgreSQL."""

from concertino.testing.store_suite import *
