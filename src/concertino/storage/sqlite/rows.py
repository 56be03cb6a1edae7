"""Rows of the tables from the values of the port, and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from ...errors import StorageError
from ...usage import Tokens, UsageRecord
from ...waits import Resolution, Wait
from ..codec import decode_json, decode_message, decode_progress, encode_json, encode_message, encode_progress, storable
from ..types import HeldMessage, Memory, RunEnd, RunStart, StoredMessage, StoredRun
from .schema import hash_key


def start_row(start: RunStart) -> dict[str, Any]:
    """The parameters of `begin_run`, without the root's number."""
    return {
        "run_id": start.run_id,
        "parent_id": start.parent_id,
        "parent_call": start.parent_call,
        "agent": start.agent,
        "agent_path": start.agent_path,
        "conversation_key": hash_key(start.conversation_id),
        "conversation_id": start.conversation_id,
        "user_key": hash_key(start.user_id),
        "user_id": start.user_id,
        "organization_id": start.organization_id,
        "task": storable(start.task),
        "started": start.started,
        "forked_from": start.forked_from,
    }


def message_row(held: HeldMessage) -> tuple[Any, ...]:
    """The parameters of `add_message` after the entry. StorageError: it cannot be stored."""
    body = encode_message(held.message)
    kept = None
    if held.keep is not held.message:
        kept = "" if held.keep is None else encode_message(held.keep)
    progress = encode_progress(held.progress)
    kept = None if kept == body else kept
    later = None if held.later is None else encode_message(held.later)
    return (held.message.role, held.tokens, held.seconds, held.keep_progress, progress, body, kept, later)


def usage_row(record: UsageRecord, booked: float) -> tuple[Any, ...]:
    """The parameters of `add_usage` after the entry."""
    tokens = record.tokens
    return (
        record.id,
        record.agent_path,
        record.provider,
        record.model,
        tokens.prompt,
        tokens.completion,
        tokens.cached,
        tokens.cache_write,
        tokens.reasoning,
        tokens.cache_write_1h,
        record.source,
        storable(record.how),
        None if record.cost is None else str(record.cost),
        record.price_version,
        encode_json(list(record.tools)),
        booked,
    )


def wait_row(wait: Wait, now: float) -> dict[str, Any]:
    """The parameters of `open_wait`, without the run's number."""
    return {
        "key": wait.key,
        "agent_path": wait.agent_path,
        "call_id": storable(wait.call_id),
        "tool": storable(wait.tool),
        "kind": wait.kind,
        "arguments": storable(wait.arguments),
        "arguments_hash": wait.arguments_hash,
        "who": encode_json(list(wait.who)),
        "note": storable(wait.note),
        "opened": now,
        "expires": None if wait.expires is None else now + wait.expires,
    }


def answer_row(key: str, run: int, resolution: Resolution, now: float) -> tuple[Any, ...]:
    """The parameters of `answer`."""
    arguments = None if resolution.arguments is None else storable(resolution.arguments)
    return (key, run, resolution.id, resolution.verdict, now, resolution.by, storable(resolution.content), arguments)


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
        forked_from=row["forked_from"],
    )
    end = None
    if row["ended"] is not None:
        end = RunEnd(status=row["state"], answer=row["answer"], error=row["error"], ended=row["ended"])
    return StoredRun(
        start=start,
        end=end,
        state=row["state"],
        entries=row["entries"],
        epoch=row["epoch"],
        owner=row["owner"],
        tries=row["tries"],
        stop=bool(row["stop"]),
    )


def to_message(row: Sequence[Any]) -> StoredMessage:
    """A message from `body, tokens, progress`. StorageError: it is damaged."""
    body, tokens, progress = row
    return StoredMessage(message=decode_message(body), tokens=tokens, progress=decode_progress(progress))


def to_usage(row: sqlite3.Row) -> UsageRecord:
    """A usage record from its row. StorageError: it is damaged."""
    names = ("prompt", "completion", "cached", "cache_write", "reasoning", "cache_write_1h")
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


def to_wait(row: sqlite3.Row) -> Wait:
    """A wait from its row. StorageError: it is damaged."""
    resolution = None
    if row["verdict"] is not None:
        resolution = Resolution(
            verdict=row["verdict"],
            id=row["token"],
            content=row["content"],
            arguments=row["other_arguments"],
            by=row["by"],
            at=row["at"],
        )
    return Wait(
        key=row["key"],
        run_id=row["run_id"],
        root_id=row["root_id"],
        agent_path=row["agent_path"],
        call_id=row["call_id"],
        tool=row["tool"],
        kind=row["kind"],
        arguments=row["arguments"],
        arguments_hash=row["arguments_hash"],
        who=tuple(decode_json(row["who"], list)),
        note=row["note"],
        opened=row["opened"],
        expires=row["expires"],
        resolution=resolution,
    )


def to_memory(row: Sequence[Any]) -> Memory:
    """A memory from `id, text, created, metadata`. StorageError: it is damaged."""
    key, text, created, metadata = row
    return Memory(id=key, text=text, created=created, metadata=decode_json(metadata, dict))
