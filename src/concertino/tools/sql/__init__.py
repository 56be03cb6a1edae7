"""Queries of a model over a SQLite database: read-only, limited, without files or network."""

from .sqlite_tables import SqliteTables

__all__ = ["SqliteTables"]
