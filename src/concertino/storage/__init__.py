"""Stores for runs, conversations and usage: the ports, their values, and the SQLite adapter."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..quotas import QuotaDemand, QuotaGrant
from .base import ApprovalRules, Memories, Store
from .call_store import Consumer
from .codec import decode_message, encode_message
from .process import process_owner
from .types import (
    Account,
    AccountKind,
    ApprovalRule,
    Budget,
    Caller,
    Claim,
    ClaimedCall,
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
    TurnStart,
    UsageSum,
)

if TYPE_CHECKING:
    from .conversation_types import (
        DueTurn,
        Feedback,
        QueuedTurn,
        StoredConversation,
        StoredHistory,
        StoredTurn,
        TurnState,
    )
    from .keys import KeyStore
    from .postgres import PostgresStore
    from .postgres.key_database import KeyDatabase
    from .schedule_types import Schedule
    from .sqlite import MemoryStore, SqliteStore
    from .sqlite.key_file import KeyFile
    from .vault import Vault

_OF_KEYS = {"KeyDatabase": ".postgres.key_database", "KeyFile": ".sqlite.key_file", "KeyStore": ".keys"}
_OF_CONVERSATIONS = (
    "DueTurn",
    "Feedback",
    "QueuedTurn",
    "StoredConversation",
    "StoredHistory",
    "StoredTurn",
    "TurnState",
)

__all__ = [
    "Account",
    "AccountKind",
    "ApprovalRule",
    "ApprovalRules",
    "Budget",
    "Caller",
    "Claim",
    "ClaimedCall",
    "Command",
    "CommandKind",
    "Consumer",
    "Due",
    "DueTurn",
    "Entry",
    "EntryKind",
    "EntryMessage",
    "Erased",
    "EventBatch",
    "EventPage",
    "EventRow",
    "Feedback",
    "Head",
    "KeyDatabase",
    "KeyFile",
    "KeyStore",
    "Memories",
    "Memory",
    "MemoryStore",
    "PostgresStore",
    "QueuedTurn",
    "QuotaDemand",
    "QuotaGrant",
    "Reservation",
    "RunEnd",
    "RunStart",
    "Schedule",
    "Settlement",
    "SqliteStore",
    "Store",
    "StoredConversation",
    "StoredEntry",
    "StoredEvents",
    "StoredHistory",
    "StoredJournal",
    "StoredMessage",
    "StoredRun",
    "StoredText",
    "StoredTurn",
    "TurnStart",
    "TurnState",
    "UsageSum",
    "Vault",
    "decode_message",
    "encode_message",
    "process_owner",
]


def __getattr__(name: str) -> Any:
    # Importing `sqlite3` takes milliseconds, which a program without a store should not pay.
    if name in ("MemoryStore", "SqliteStore"):
        from . import sqlite  # noqa: PLC0415

        return getattr(sqlite, name)
    if name == "PostgresStore":
        from . import postgres  # noqa: PLC0415 - its driver is an extra

        return postgres.PostgresStore
    if name in _OF_KEYS:
        return getattr(importlib.import_module(_OF_KEYS[name], __name__), name)  # encryption is an extra
    if name == "Schedule":
        from .schedule_types import Schedule  # noqa: PLC0415

        return Schedule
    if name == "Vault":
        from . import vault  # noqa: PLC0415 - it needs the extra `encryption`

        return vault.Vault
    if name in _OF_CONVERSATIONS:
        from . import conversation_types  # noqa: PLC0415

        return getattr(conversation_types, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
