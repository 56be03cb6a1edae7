"""The suite that the package ships for stores, with the package's own stores."""

from concertino.testing.store_suite import *
