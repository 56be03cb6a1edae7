"""Stores on SQLite: `SqliteStore.open(path)` in a file, `MemoryStore()` in memory."""

from .store import MemoryStore, SqliteStore

__all__ = ["MemoryStore", "SqliteStore"]
