"""Reading runs, their journals, their open operations and the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar, get_args

from ...errors import DamagedDataError, StorageError
from ...messages import Message
from ...operations import Operation
from ...scope import AnyScope, Operator, Scope
from ...usage import Tokens, UsageRecord
from ..codec import decode_json, decode_messages, encode_json, outcome_digests
from ..types import JOURNAL_VERSION, EntryKind, StoredEntry, StoredJournal, StoredMessage, StoredRun, UsageSum
from .media import contents_in, contents_of, contents_of_outcome
from .rows import hash_key, to_message, to_operation, to_run, to_usage
from .session import Cursor, Row, Session
from .statements import most, scoped

T = TypeVar("T")

_CONDITIONS = {
    "run_id": "r.run_id = :run_id",
    "conversation_id": "r.conversation_key = :conversation_key AND r.conversation_id = :conversation_id",
    "root_id": "r.root = (SELECT number FROM runs WHERE run_id = :root_id)",
    "state": "h.state = :state",
    "roots": "r.root = r.number",
}
_NARROW = {"run_id", "conversation_id", "root_id"}
"""Filters that leave few runs."""
_OPEN, _RARE = ("running", "suspended", "dead_letter"), ("failed", "cancelled", "limited")
_OF_OPERATIONS = {
    "root_id": "o.root = (SELECT number FROM runs WHERE run_id = :root_id)",
    "run_id": "r.run_id = :run_id",
}
_COLUMNS = {
    "run": "top.run_id",
    "agent": "u.agent_path",
    "model": "u.provider || ':' || u.model",
    "user": "r.user_id",
    "tenant": "r.tenant",
    "day": "date(u.booked, 'unixepoch')",
}
_SET_BACK = 86_400.0
"""Most seconds that the clock may have been set back between two records."""
_LAST = 2**63 - 1
_KINDS = frozenset(get_args(EntryKind))
_TOKENS = ("prompt", "completion", "cached", "cache_write", "reasoning", "cache_write_1h")
"""The token columns, in the order of `Tokens`."""


def runs(connection: Session, scope: AnyScope, limit: int, /, **asked: Any) -> tuple[StoredRun, ...]:
    """Return the runs that match every filter in *asked* that is not None or False, newest first."""
    return tuple(map(to_run, _runs(connection, scope, limit, asked)))


def _runs(connection: Session, scope: AnyScope, limit: int, asked: Mapping[str, Any]) -> list[Row]:
    wanted = {name: value for name, value in asked.items() if value is not None and value is not False}
    conditions = " AND ".join(_CONDITIONS[name] for name in wanted) or "true"
    if "conversation_id" in wanted:
        wanted["conversation_key"] = hash_key(wanted["conversation_id"])
    sql, bound = scoped(connection, "runs", scope)
    if _leads(scope, state := wanted.get("state")) and not wanted.keys() & _NARROW:
        chosen = connection.queries["running_runs" if state == "running" else "runs_in_state"].rstrip(";")
        sql = sql.replace(
            "FROM runs AS r\n", f"FROM ({chosen}) AS chosen CROSS JOIN runs AS r ON r.number = chosen.run\n"
        )
    bound |= {**wanted, "limit": most(limit)}
    return connection.execute(sql.replace("/*conditions*/", conditions), bound).fetchall()


def _leads(scope: AnyScope, state: object) -> bool:
    """Return True if few runs are in *state*, and *scope* probably reaches more of them in other states."""
    return state in _OPEN or (state in _RARE and isinstance(scope, Operator))


def messages(connection: Session, scope: AnyScope, run_id: str) -> tuple[StoredMessage, ...]:
    """Return the messages of a run in the form that the data policy leaves."""
    with connection.reading():
        sql, bound = scoped(connection, "messages", scope)
        rows = connection.execute(sql, {**bound, "run_id": run_id}).fetchall()
        sql, bound = scoped(connection, "run_number", scope)
        found = connection.execute(sql, {**bound, "run_id": run_id}).fetchone()
        contents = contents_of(connection, found[0]) if found else {}
    return tuple(to_message(row, contents) for row in rows if row[0])


def usage(connection: Session, scope: AnyScope, root_id: str, after: int) -> tuple[UsageRecord, ...]:
    """Return the usage records of a tree, but none of the root's entries up to *after*."""
    return tuple(map(to_usage, ask_usage(connection, scope, root_id, after).fetchall()))


def ask_usage(connection: Session, scope: AnyScope, root_id: str, after: int) -> Cursor:
    """Send the query of `usage`."""
    sql, bound = scoped(connection, "usage", scope)
    return connection.execute(sql, {**bound, "root_id": root_id, "after": after})


def unsettled_usage(connection: Session, scope: AnyScope, limit: int, after: str) -> tuple[UsageRecord, ...]:
    """Return the unknown usage records after the record *after*, the oldest first."""
    sql, bound = scoped(connection, "unsettled_usage", scope)
    rows = connection.execute(sql, {**bound, "limit": most(limit), "after": after}).fetchall()
    return tuple(map(to_usage, rows))


def operations(connection: Session, scope: AnyScope, root_id: str | None, run_id: str | None) -> tuple[Operation, ...]:
    """Return the operations that match, ordered by step, index and key."""
    found = without_media(ask_operations(connection, scope, root_id, run_id).fetchall())
    if found is not None:
        return found
    with connection.reading():  # outcomes and their media at one moment
        rows = ask_operations(connection, scope, root_id, run_id).fetchall()
        return tuple(to_operation(row, contents_of_outcome(connection, row["run"], row["content"])) for row in rows)


def ask_operations(connection: Session, scope: AnyScope, root_id: str | None, run_id: str | None) -> Cursor:
    """Send the query of `operations`."""
    wanted = {"root_id": root_id, "run_id": run_id}
    conditions = " AND ".join(_OF_OPERATIONS[name] for name, value in wanted.items() if value is not None) or "true"
    sql, bound = scoped(connection, "operations", scope)
    return connection.execute(sql.replace("/*conditions*/", conditions), bound | wanted)


def without_media(rows: Sequence[Row]) -> tuple[Operation, ...] | None:
    """Return the operations of *rows*; None if one has media, which are stored elsewhere."""
    if any(map(outcome_digests, filter(None, (row["content"] for row in rows)))):
        return None
    return tuple(to_operation(row, {}) for row in rows)


def usage_sums(
    connection: Session, scope: AnyScope, by: Sequence[str], since: float | None, until: float | None
) -> tuple[UsageSum, ...]:
    """Return sums over the ledger. Costs are added exactly."""
    unknown = [word for word in by if word not in _COLUMNS]
    if unknown:
        raise StorageError(f"usage cannot be summed by {unknown[0]!r}: choose from {', '.join(_COLUMNS)}")
    if "user" in by and "tenant" not in by and isinstance(scope, Operator):
        raise StorageError("users of two tenants may have the same id: sum by 'tenant' and 'user', not by 'user' alone")
    columns = "".join(f"{_COLUMNS[word]}, " for word in by)
    numbers = ", ".join(str(number + 1) for number in range(len(by)))
    grouping = f"GROUP BY {numbers} ORDER BY {numbers}" if by else "HAVING count(*) > 0"
    sql, bound = scoped(connection, "usage_sums", scope)
    if since is not None and not isinstance(scope, Scope):
        sql = sql.replace("AS u JOIN", "AS u CROSS JOIN")  # a time leaves fewer records than a tenant
    sql = sql.replace("/*columns*/", columns).replace("/*grouping*/", grouping)
    first = 0 if since is None else _first_booking(connection, since - _SET_BACK)
    end = _LAST if until is None else _first_booking(connection, until + _SET_BACK)
    rows = connection.execute(sql, {**bound, "since": since, "until": until, "first": first, "end": end}).fetchall()
    return tuple(_to_sum(tuple(row), len(by)) for row in rows)


def _first_booking(connection: Session, moment: float) -> int:
    """Return the number before which all records were booked before *moment*, if the clock was never set back."""
    sql = connection.queries
    low, high = 1, 1 + connection.execute(sql["last_booking"]).fetchone()[0]
    while low < high:  # records are booked in the order of time, so no index of times is needed
        middle = (low + high) // 2
        booking, booked = connection.execute(sql["booked_from"], (middle,)).fetchone()
        low, high = (low, middle) if booked >= moment else (booking + 1, high)
    return low


def _to_sum(row: tuple[Any, ...], width: int) -> UsageSum:
    *tokens, cost, unpriced, estimated, unknown, attempts = row[width:]
    return UsageSum(
        by=row[:width],
        attempts=attempts,
        tokens=Tokens(*map(int, tokens[: len(_TOKENS)])),
        unknown_tokens=Tokens(*map(int, tokens[len(_TOKENS) :])),
        cost=None if attempts and unpriced == attempts else Decimal(cost),
        unpriced=unpriced,
        estimated=estimated,
        unknown=unknown,
    )


def load(connection: Session, scope: AnyScope, run_id: str, *, from_snapshot: bool = False) -> StoredJournal | None:
    """Return a run's journal, whole or *from_snapshot* on.

    Raises `StorageError` with run and entry if an entry cannot be read.
    """
    sql = connection.queries
    # One transaction: entries, messages and usage must be consistent.
    with connection.reading():
        found = _runs(connection, scope, 1, {"run_id": run_id})
        if not found:
            return None
        run, number, owner = to_run(found[0]), found[0]["number"], found[0]["scope_key"]
        key = (number,)
        read = _from_snapshot(connection, number) if from_snapshot else None
        if read is None:
            whole = [connection.execute(sql[name], key) for name in ("entries", "messages_of_entries")]
            contents = contents_of(connection, number)  # in the round trip of the other two
            read = 0, whole[0].fetchall(), whole[1].fetchall()
        snapshot, rows, messages = read
        if snapshot:  # they may be large
            contents = contents_in(connection, number, [row[name] for row in rows for name in ("body", "content")])
            contents |= contents_in(connection, number, [row["body"] for row in messages])
        sent = _by_entry(run_id, (row for row in messages if row["body"]), lambda row: _message(row, contents))
        booked = () if from_snapshot else connection.execute(sql["usage_of_entries"], key).fetchall()
        used = _by_entry(run_id, booked, _usage)
        earlier = {seq: sent.pop(seq) for seq in [*sent] if seq < snapshot}
        entries = tuple(_entry(run_id, row, sent, used) for row in rows)
        texts = texts_of(connection, (name for entry in entries for name in _texts(entry.body)), owner)
        contents |= contents_in(connection, number, texts.values()) if snapshot else {}
        follows = entries[0].body.get("follows") if entries else None
        history = tuple(branch_messages(connection, follows[0])[0]) if follows else ()
    return StoredJournal(
        run=run,
        entries=entries,
        texts=texts,
        history=history,
        contents=contents,
        snapshot=snapshot,
        earlier=earlier,
    )


def _from_snapshot(connection: Session, run: int) -> tuple[int, list[Row], list[Row]] | None:
    """Return the number of the entry with the last snapshot, and the entries and messages that resuming needs.

    None without a snapshot, or if it is damaged.
    """
    sql = connection.queries
    found = connection.execute(sql["last_snapshot"], (run,)).fetchone()
    if found is None:
        return None
    seq, body = found
    try:
        snapshot = decode_json(body, dict)["snapshot"]
        numbers, (since, *apart) = {0, *snapshot["entries"]}, snapshot["messages"]
    except (StorageError, KeyError, TypeError, ValueError):
        return None
    if any(type(number) is not int or not 0 <= number < seq for number in (*numbers, *apart)):
        return None
    if type(since) is not int or since > seq:
        return None
    bound = {"run": run, "seq": seq, "named": encode_json(sorted(numbers))}
    rows = connection.execute(sql["entries_from_snapshot"], bound).fetchall()
    if len(numbers) != sum(row["seq"] < seq for row in rows):
        return None
    bound = {"run": run, "since": since, "apart": encode_json([number for number in apart if number < since])}
    return seq, rows, connection.execute(sql["messages_from_snapshot"], bound).fetchall()


def branch_messages(connection: Session, run_id: str, after: str = "") -> tuple[list[Message], bool, bool]:
    """Return the messages of the branch that ends with the turn *run_id*, without those up to the turn *after*.

    Also whether all of them stay for good, and whether *after* is in the branch.
    """
    sql, bound = connection.queries, {"run_id": run_id, "after": after}
    asked = connection.execute(sql["history"], bound)  # all are sent before the first answer is awaited
    is_after = connection.execute(sql["is_after"], bound) if after else None
    media = connection.execute(sql["contents_of_branch"], bound)
    rows, met = asked.fetchall(), is_after is not None and is_after.fetchone() is not None
    contents = {row[0]: row[1] for row in media.fetchall()}
    return decode_messages([row[0] for row in rows if row[0]], contents), all(row[1] is None for row in rows), met


def _entry(
    run_id: str,
    row: Row,
    sent: Mapping[int, list[StoredMessage]],
    used: Mapping[int, list[UsageRecord]],
) -> StoredEntry:
    seq = row["seq"]
    if row["version"] > JOURNAL_VERSION or row["kind"] not in _KINDS:
        raise StorageError(
            f"entry {seq} of run {run_id!r} has kind {row['kind']!r} and format {row['version']}, and this concertino "
            f"reads up to format {JOURNAL_VERSION}: install a newer concertino"
        )
    try:
        body = decode_json(row["body"], dict)
        content = decode_json(row["content"], dict) if row["content"] else None
    except StorageError as error:
        raise _corrupt(run_id, seq, error) from error
    return StoredEntry(
        seq=seq,
        epoch=row["epoch"],
        kind=row["kind"],
        step=row["step"],
        at=row["at"],
        body=body,
        content=content,
        erased=bool(row["erased"]) or row["content"] == "",
        messages=tuple(sent.get(seq, ())),
        usage=tuple(used.get(seq, ())),
    )


def _by_entry(run_id: str, rows: Iterable[Row], build: Callable[[Row], T]) -> dict[int, list[T]]:
    found: dict[int, list[T]] = {}
    for row in rows:
        try:
            found.setdefault(row["entry"], []).append(build(row))
        except StorageError as error:
            raise _corrupt(run_id, row["entry"], error) from error
    return found


def _message(row: Row, contents: Mapping[str, str]) -> StoredMessage:
    return to_message((row["body"], row["tokens"], row["progress"]), contents)


def _usage(row: Row) -> UsageRecord:
    return to_usage(row)


def _corrupt(run_id: str, seq: int, error: StorageError) -> DamagedDataError:
    return DamagedDataError(f"entry {seq} of run {run_id!r} is unreadable: {error}")


def _texts(body: dict[str, Any]) -> list[str]:
    named = body.get("texts", ())
    values = named.values() if isinstance(named, dict) else named
    return [value for value in values if isinstance(value, str)]


def texts_of(connection: Session, names: Iterable[str], owner: bytes) -> dict[str, str]:
    """Return the bodies of shared texts of a scope by name, leaving out what was erased."""
    if not (wanted := [*dict.fromkeys(names)]):
        return {}
    rows = connection.execute(connection.queries["texts"], (encode_json(wanted), owner)).fetchall()
    return {name: body for name, body, empty in rows if body or empty}  # else sealed with a key that was discarded
