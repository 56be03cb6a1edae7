"""The store on PostgreSQL."""

from ...extras import extra

with extra("postgres", "the store on PostgreSQL"):
    import psycopg  # noqa: F401

from .notifications import Notifications
from .store import PostgresStore

__all__ = ["Notifications", "PostgresStore"]
