"""The rules of stores on SQL databases, written once: the package of a database has its connection and dialect."""

from .store import SqlStore

__all__ = ["SqlStore"]
