"""A store in one SQLite file: `SqliteStore.open(path)`."""

from .store import SqliteStore

__all__ = ["SqliteStore"]
