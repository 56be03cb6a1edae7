"""Rows of the tables from the values of the port, and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from ...errors import StorageError
from ...usage import Tokens, UsageRecord
from ..codec import (
    decode_json,
    decode_message,
    decode_progress,
    encode_json,
    encode_message,
    encode_progress,
    storable,
)
from ..port import Memory, RunEnd, RunStart, StoredMessage, StoredRun


def start_row(start: RunStart) -> tuple[Any, ...]:
    """The parameters of `begin`."""
    return (
        start.run_id,
        start.root_id,
        start.parent_id,
        start.parent_call,
        start.agent,
        start.agent_path,
        start.conversation_id,
        start.user_id,
        start.organization_id,
        storable(start.task),
        start.started,
    )


def end_row(end: RunEnd, run_id: str) -> tuple[Any, ...]:
    """The parameters of `end`."""
    error = None if end.error is None else storable(end.error)
    return (end.status, storable(end.answer), error, end.ended, run_id)


def message_row(stored: StoredMessage) -> tuple[Any, ...]:
    """The parameters of `add_message` after the place. StorageError: it cannot be stored."""
    body = encode_message(stored.message)
    return (stored.message.role, stored.tokens, encode_progress(stored.progress), body)


def usage_row(record: UsageRecord, root_id: str, booked: float) -> tuple[Any, ...]:
    """The parameters of `add_usage`."""
    tokens = record.tokens
    return (
        record.id,
        record.run_id,
        root_id,
        record.agent_path,
        record.provider,
        record.model,
        tokens.prompt,
        tokens.completion,
        tokens.cached,
        tokens.cache_write,
        tokens.reasoning,
        record.source,
        storable(record.how),
        None if record.cost is None else str(record.cost),
        record.price_version,
        encode_json(list(record.tools)),
        booked,
    )


def to_run(row: sqlite3.Row) -> StoredRun:
    """A run from its row."""
    start = RunStart(
        run_id=row["run_id"],
        root_id=row["root_id"],
        parent_id=row["parent_id"],
        parent_call=row["parent_call"],
        agent=row["agent"],
        agent_path=row["agent_path"],
        conversation_id=row["conversation_id"],
        user_id=row["user_id"],
        organization_id=row["organization_id"],
        task=row["task"],
        started=row["started"],
    )
    if row["status"] is None:
        return StoredRun(start=start, end=None)
    end = RunEnd(status=row["status"], answer=row["answer"], error=row["error"], ended=row["ended"])
    return StoredRun(start=start, end=end)


def to_message(row: Sequence[Any]) -> StoredMessage:
    """A message from `body, tokens, progress`. StorageError: it is damaged."""
    body, tokens, progress = row
    return StoredMessage(message=decode_message(body), tokens=tokens, progress=decode_progress(progress))


def to_usage(row: sqlite3.Row) -> UsageRecord:
    """A usage record from its row. StorageError: it is damaged."""
    names = ("prompt", "completion", "cached", "cache_write", "reasoning")
    try:
        cost = None if row["cost"] is None else Decimal(row["cost"])
    except (InvalidOperation, TypeError, ValueError) as error:
        raise StorageError(f"the cost of usage record {row['id']!r} is damaged: {row['cost']!r}") from error
    return UsageRecord(
        id=row["id"],
        run_id=row["run_id"],
        agent_path=row["agent_path"],
        provider=row["provider"],
        model=row["model"],
        tokens=Tokens(**{name: row[name] for name in names}),
        source=row["source"],
        how=row["how"],
        cost=cost,
        price_version=row["price_version"],
        tools=tuple(decode_json(row["tools"], list)),
    )


def to_memory(row: Sequence[Any]) -> Memory:
    """A memory from `id, text, created, metadata`. StorageError: it is damaged."""
    key, text, created, metadata = row
    return Memory(id=key, text=text, created=created, metadata=decode_json(metadata, dict))
