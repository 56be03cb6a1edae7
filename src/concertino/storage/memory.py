"""A store that lives as long as its object: for tests, and for products that keep nothing."""

from .sqlite import MemoryStore

__all__ = ["MemoryStore"]
