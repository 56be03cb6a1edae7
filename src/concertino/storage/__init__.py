"""Stores for runs, conversations and usage: the ports, their values, and the SQLite adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .accounts import organization_account, run_account, user_account
from .base import Memories, Store
from .types import (
    Account,
    Budget,
    Claim,
    Command,
    Due,
    Entry,
    Erased,
    Head,
    Memory,
    RunEnd,
    RunStart,
    StoredEntry,
    StoredJournal,
    StoredMessage,
    StoredRun,
    UsageSum,
)

if TYPE_CHECKING:
    from .sqlite import MemoryStore, SqliteStore

__all__ = [
    "Account",
    "Budget",
    "Claim",
    "Command",
    "Due",
    "Entry",
    "Erased",
    "Head",
    "Memories",
    "Memory",
    "MemoryStore",
    "RunEnd",
    "RunStart",
    "SqliteStore",
    "Store",
    "StoredEntry",
    "StoredJournal",
    "StoredMessage",
    "StoredRun",
    "UsageSum",
    "organization_account",
    "run_account",
    "user_account",
]


def __getattr__(name: str) -> Any:
    # Importing `sqlite3` takes milliseconds, which a program without a store should not pay.
    if name in ("MemoryStore", "SqliteStore"):
        from . import sqlite  # noqa: PLC0415

        return getattr(sqlite, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
