"""Rows of the tables from the values of the port, and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from ...errors import DamagedDataError
from ...operations import Operation
from ...scope import Scope
from ...usage import Tokens, UsageRecord
from ...waits import Resolution, Wait
from ..codec import decode_json, decode_message, decode_progress, encode_json, encode_message, encode_progress, storable
from ..types import EntryMessage, Memory, RunEnd, RunStart, StoredMessage, StoredRun
from .statements import hash_key, scope_key


def start_row(start: RunStart) -> dict[str, Any]:
    """Return the parameters of `begin_run`, without the root's number."""
    return {
        "run_id": start.run_id,
        "scope_key": scope_key(start.scope),
        "parent_id": start.parent_id,
        "parent_call": start.parent_call,
        "agent": start.agent,
        "agent_path": start.agent_path,
        "conversation_key": hash_key(start.conversation_id),
        "conversation_id": start.conversation_id,
        "user_key": hash_key(start.scope.user),
        "user_id": start.scope.user,
        "organization_id": start.scope.tenant,
        "task": storable(start.task),
        "started": start.started,
        "forked_from": start.forked_from,
    }


def message_row(entry: EntryMessage) -> tuple[Any, ...]:
    """Return the parameters of `add_message` after the entry. Raises `StorageError` if it cannot be encoded."""
    body = encode_message(entry.message)
    kept = None
    if entry.keep is not entry.message:
        kept = "" if entry.keep is None else encode_message(entry.keep)
    progress = encode_progress(entry.progress)
    kept = None if kept == body else kept
    later = None if entry.later is None else encode_message(entry.later)
    return (entry.message.role, entry.tokens, entry.keep_seconds, entry.keep_progress, progress, body, kept, later)


def usage_row(record: UsageRecord) -> tuple[Any, ...]:
    """Return the parameters of `add_usage` between the entry and the time of booking."""
    return (
        record.id,
        record.agent_path,
        *bill_row(record),
        encode_json(list(record.tools)),
    )


def bill_row(record: UsageRecord) -> tuple[Any, ...]:
    """Return the columns of a usage record that a provider's bill determines."""
    tokens = record.tokens
    return (
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
    )


def operation_row(operation: Operation) -> tuple[Any, ...]:
    """Return the parameters of `put_operation` between the key and the outcome."""
    return (
        operation.kind,
        operation.state,
        operation.step,
        operation.index,
        storable(operation.name),
        storable(operation.call_id),
        operation.effect,
        operation.remote,
        operation.waits_for,
        operation.tokens,
        None if operation.money is None else str(operation.money),
        operation.prompt,
    )


def wait_row(wait: Wait, now: float) -> dict[str, Any]:
    """Return the parameters of `open_wait`, without the run's number."""
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


def answer_row(key: str, kind: str, run: int, resolution: Resolution, now: float) -> tuple[Any, ...]:
    """Return the parameters of `answer`."""
    arguments = None if resolution.arguments is None else storable(resolution.arguments)
    content = storable(resolution.content)
    return (key, kind, run, resolution.id, resolution.verdict, now, resolution.by, content, arguments)


def to_run(row: sqlite3.Row) -> StoredRun:
    """Return a run from its row."""
    start = RunStart(
        run_id=row["run_id"],
        root_id=row["root_id"],
        parent_id=row["parent_id"],
        parent_call=row["parent_call"],
        agent=row["agent"],
        agent_path=row["agent_path"],
        conversation_id=row["conversation_id"],
        scope=Scope(row["organization_id"], row["user_id"]),
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
        reason=row["reason"],
        ready_at=row["ready_at"],
    )


def to_message(row: Sequence[Any]) -> StoredMessage:
    """Return a message from `body, tokens, progress`. Raises `DamagedDataError` if it is corrupt."""
    body, tokens, progress = row
    return StoredMessage(message=decode_message(body), tokens=tokens, progress=decode_progress(progress))


def to_usage(row: sqlite3.Row) -> UsageRecord:
    """Return a usage record from its row. Raises `DamagedDataError` if it is corrupt."""
    names = ("prompt", "completion", "cached", "cache_write", "reasoning", "cache_write_1h")
    return UsageRecord(
        id=row["id"],
        run_id=row["run_id"],
        agent_path=row["agent_path"],
        provider=row["provider"],
        model=row["model"],
        tokens=Tokens(**{name: row[name] for name in names}),
        source=row["source"],
        how=row["how"],
        cost=_decimal(row["cost"], f"cost of usage record {row['id']!r}"),
        price_version=row["price_version"],
        tools=tuple(decode_json(row["tools"], list)),
    )


def to_operation(row: sqlite3.Row) -> Operation:
    """Return an operation from its row. Raises `DamagedDataError` if it is corrupt."""
    return Operation(
        key=row["key"],
        scope=Scope(row["organization_id"], row["user_id"]),
        run_id=row["run_id"],
        kind=row["kind"],
        state=row["state"],
        step=row["step"],
        name=row["name"],
        index=row["call_index"],
        call_id=row["call_id"],
        effect=row["effect"],
        remote=bool(row["remote"]),
        waits_for=row["waits_for"] if row["state"] == "waiting" else None,
        tokens=row["tokens"],
        money=_decimal(row["money"], f"reservation of operation {row['key']!r}"),
        prompt=row["prompt"],
        outcome=decode_json(row["content"], dict) if row["content"] else None,
    )


def to_wait(row: sqlite3.Row) -> Wait:
    """Return a wait from its row. Raises `DamagedDataError` if it is corrupt."""
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
    """Return a memory from `id, text, created, metadata`. Raises `DamagedDataError` if it is corrupt."""
    key, text, created, metadata = row
    return Memory(id=key, text=text, created=created, metadata=decode_json(metadata, dict))


def _decimal(text: str | None, name: str) -> Decimal | None:
    try:
        return None if text is None else Decimal(text)
    except (InvalidOperation, TypeError, ValueError) as error:
        raise DamagedDataError(f"corrupt stored value: the {name} is {text!r}") from error
