"""Stores for runs, conversations and usage: the ports, their values, and the SQLite adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Memories, Store
from .codec import decode_message, encode_message
from .process import process_owner
from .types import (
    Account,
    AccountKind,
    Budget,
    Claim,
    Command,
    CommandKind,
    Due,
    Entry,
    EntryKind,
    EntryMessage,
    Erased,
    EventBatch,
    EventPage,
    EventRow,
    Head,
    Memory,
    Reservation,
    RunEnd,
    RunStart,
    Settlement,
    StoredEntry,
    StoredEvents,
    StoredJournal,
    StoredMessage,
    StoredRun,
    StoredText,
    UsageSum,
)

if TYPE_CHECKING:
    from .sqlite import MemoryStore, SqliteStore

__all__ = [
    "Account",
    "AccountKind",
    "Budget",
    "Claim",
    "Command",
    "CommandKind",
    "Due",
    "Entry",
    "EntryKind",
    "EntryMessage",
    "Erased",
    "EventBatch",
    "EventPage",
    "EventRow",
    "Head",
    "Memories",
    "Memory",
    "MemoryStore",
    "Reservation",
    "RunEnd",
    "RunStart",
    "Settlement",
    "SqliteStore",
    "Store",
    "StoredEntry",
    "StoredEvents",
    "StoredJournal",
    "StoredMessage",
    "StoredRun",
    "StoredText",
    "UsageSum",
    "decode_message",
    "encode_message",
    "process_owner",
]


def __getattr__(name: str) -> Any:
    # Importing `sqlite3` takes milliseconds, which a program without a store should not pay.
    if name in ("MemoryStore", "SqliteStore"):
        from . import sqlite  # noqa: PLC0415

        return getattr(sqlite, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
