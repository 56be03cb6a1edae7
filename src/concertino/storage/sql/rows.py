"""Rows of the tables from the values of the port, and back, and the keys that rows are looked up by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from ...errors import DamagedDataError, StorageError
from ...operations import Operation
from ...scope import AnyScope, Scope, TenantScope
from ...usage import Tokens, UsageRecord
from ...waits import Resolution, Wait
from ..codec import (
    decode_json,
    decode_message,
    decode_outcome,
    decode_receipt,
    encode_json,
    encode_message,
    encode_outcome,
    encode_receipt,
    storable,
)
from ..types import (
    JOURNAL_VERSION,
    AccountKind,
    Claim,
    Entry,
    EntryMessage,
    Memory,
    RunEnd,
    RunStart,
    StoredMessage,
    StoredRun,
    StoredText,
)
from .session import Row


class PutOperation(NamedTuple):
    """An operation to insert or update."""

    key: str
    run_id: str
    scope: Scope
    state: str
    row: tuple[Any, ...]
    outcome: str | None
    contents: dict[str, str]
    """Contents of the outcome's media by digest."""


class EntryRows(NamedTuple):
    """The rows of a journal entry as the statements take them, without what is known only in the transaction."""

    entry: tuple[Any, ...]
    messages: list[tuple[Any, ...]]
    texts: list[tuple[Any, ...]]
    usage: list[tuple[str, tuple[Any, ...]]]
    operations: list[PutOperation]
    contents: dict[str, str]
    """Contents of media by digest."""


def hash_key(name: str) -> bytes:
    """Return a digest to look *name* up by. No index contains the name itself: an index cannot be erased from.

    It has 128 bits, so that finding a name with the digest of another one is infeasible. Raises `StorageError` for half
    of a surrogate pair, which no database stores.
    """
    try:
        return blake2b(name.encode(), digest_size=16).digest()
    except UnicodeEncodeError as error:
        raise StorageError(f"cannot store the name {name!r:.80}, and wrote nothing: {error}") from error


@lru_cache(4096)
def scope_key(key: str) -> bytes:
    """Return the digest to look up the scope with this *key* by."""
    return hash_key(key)


def scope_row(scope: AnyScope) -> dict[str, object]:
    """Return the columns of *scope*, as parameters of a statement."""
    if isinstance(scope, Scope):
        return {"scope_key": scope_key(scope.key), "tenant": scope.tenant, "user": scope.user}
    return {"tenant": scope.tenant} if isinstance(scope, TenantScope) else {}


def account_keys(scope: Scope | TenantScope, run_id: str | None = None) -> list[tuple[AccountKind, bytes]]:
    """Return the kinds and keys of the accounts that the tree of *run_id* draws on.

    A key is the hash of a name that no other account has, long enough that no two accounts share one.
    """
    found: list[tuple[AccountKind, str]] = []
    if isinstance(scope, Scope):
        if run_id is not None:
            found.append(("run", f"{scope.key}{run_id}"))
        if scope.user:
            found.append(("user", scope.key))
    if scope.tenant:
        found.append(("tenant", scope.tenant))
    return [(kind, blake2b(f"{kind}:{name}".encode(), digest_size=16).digest()) for kind, name in found]


def claim_accounts(claim: Claim) -> list[tuple[AccountKind, bytes]]:
    """Return the kinds and keys of the accounts that the tree of *claim* draws on."""
    return account_keys(claim.scope, claim.payer or claim.root_id)


def storable_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *row* with each of its texts in valid Unicode, as `storable` returns it."""
    return tuple([storable(value) if isinstance(value, str) and not value.isascii() else value for value in row])


def start_row(start: RunStart) -> dict[str, Any]:
    """Return the parameters of `begin_run`, without the root's number."""
    return {
        **scope_row(start.scope),
        "run_id": start.run_id,
        "parent_id": start.parent_id,
        "parent_call": start.parent_call,
        "agent": start.agent,
        "agent_path": start.agent_path,
        "conversation_key": hash_key(start.conversation_id),
        "conversation_id": start.conversation_id,
        "task": storable(start.task),
        "started": start.started,
        "forked_from": start.forked_from,
    }


def entry_rows(entry: Entry) -> EntryRows:
    """Return the rows of *entry*, encoded before any lock is taken. Raises `StorageError` if one cannot be encoded."""
    body = encode_json(entry.body)
    content = None if entry.content is None else encode_json(entry.content)
    contents = dict(entry.contents) if entry.contents else {}
    return EntryRows(
        (entry.seq, entry.claim.epoch, entry.kind, entry.step, JOURNAL_VERSION, body, content),
        [_message_row(entry.seq, message, contents) for message in entry.messages],
        [_text_row(text) for text in entry.texts],
        [(record.run_id, usage_row(record)) for record in entry.usage],
        [_operation_row(operation) for operation in entry.operations],
        contents,
    )


def _message_row(seq: int, entry: EntryMessage, contents: dict[str, str]) -> tuple[Any, ...]:
    message, keep = entry.message, entry.keep
    body, kept = encode_message(message, contents), None
    if keep is not message:
        kept = "" if keep is None else encode_message(keep, contents)
        kept = None if kept == body else kept
    progress = encode_json(list(entry.progress)) if entry.progress else None
    later = None if entry.later is None else encode_message(entry.later, contents)
    return (seq, message.role, entry.tokens, entry.keep_seconds, entry.keep_progress, progress, body, kept, later)


def _text_row(text: StoredText) -> tuple[Any, ...]:
    return storable_row((text.id, text.run_id, text.of_conversation, text.body))


def usage_row(record: UsageRecord) -> tuple[Any, ...]:
    """Return the parameters of `add_usage` between the entry and the time of booking."""
    tools = encode_json(list(record.tools)) if record.tools else "[]"
    return (record.id, record.agent_path, *bill_row(record), tools)


def bill_row(record: UsageRecord) -> tuple[Any, ...]:
    """Return the columns of a usage record that a provider's bill determines."""
    tokens = record.tokens
    return (
        record.provider,
        record.model if record.model.isascii() else storable(record.model),
        tokens.prompt,
        tokens.completion,
        tokens.cached,
        tokens.cache_write,
        tokens.reasoning,
        tokens.cache_write_1h,
        record.source,
        storable(record.how) if record.how else "",
        None if record.cost is None else str(record.cost),
        record.price_version,
        encode_receipt(record.receipt),
    )


def _operation_row(operation: Operation) -> PutOperation:
    row = (
        operation.kind,
        operation.state,
        operation.step,
        operation.index,
        operation.name,
        operation.call_id,
        operation.effect,
        operation.remote,
        operation.waits_for,
        operation.tokens,
        None if operation.money is None else str(operation.money),
        operation.prompt,
    )
    contents: dict[str, str] = {}
    outcome = None if operation.outcome is None else encode_outcome(operation.outcome, contents)
    head = (operation.key, operation.run_id, operation.scope, operation.state)
    return PutOperation(*head, storable_row(row), outcome, contents)


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
        "target": wait.target,
        "task": storable(wait.task),
    }


def answer_row(key: str, kind: str, run: int, resolution: Resolution, now: float) -> tuple[Any, ...]:
    """Return the parameters of `answer`."""
    arguments = None if resolution.arguments is None else storable(resolution.arguments)
    content = storable(resolution.content)
    return (key, kind, run, resolution.id, resolution.verdict, now, resolution.by, content, arguments)


def to_run(row: Row) -> StoredRun:
    """Return a run from its row."""
    start = RunStart(
        run_id=row["run_id"],
        root_id=row["root_id"],
        parent_id=row["parent_id"],
        parent_call=row["parent_call"],
        agent=row["agent"],
        agent_path=row["agent_path"],
        conversation_id=row["conversation_id"],
        scope=Scope(row["tenant"], row["user_id"]),
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


def to_message(row: Sequence[Any], contents: Mapping[str, str]) -> StoredMessage:
    """Return a message from `body, tokens, progress`, with the *contents* of its media.

    Raises `DamagedDataError` if it is corrupt.
    """
    body, tokens, progress = row
    steps = () if progress is None else tuple(decode_json(progress, list))
    return StoredMessage(message=decode_message(body, contents), tokens=tokens, progress=steps)


def to_usage(row: Row) -> UsageRecord:
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
        receipt=decode_receipt(row["receipt"]),
    )


def to_operation(row: Row, contents: Mapping[str, str] | None = None) -> Operation:
    """Return an operation from its row, with the *contents* of its outcome's media by digest.

    Raises `DamagedDataError` if it is corrupt.
    """
    return Operation(
        key=row["key"],
        scope=Scope(row["tenant"], row["user_id"]),
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
        outcome=decode_outcome(row["content"], contents or {}) if row["content"] else None,
    )


def to_wait(row: Row) -> Wait:
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
        target=row["target"],
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
