"""The frequent work as one statement each, with texts in and JSON out.

A write is a call of a function in `migrations/`, which does what the rules do. Anything unusual is left to the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from os import urandom
from typing import Any, NamedTuple

from ...errors import StorageError
from ...scope import Scope
from ..conversation_types import DueTurn
from ..process import process_of
from ..sql.budgets import to_nano
from ..sql.claims import ClaimingDue
from ..sql.events import AddingEvents, in_json, sealed_events, withholds
from ..sql.journal import ORPHANED, Appending, Beginning
from ..sql.rows import EntryRows, claim_accounts, hash_key, scope_key, storable_row
from ..sql.sealing import sealed_end, sealed_rows
from ..sql.select import Select
from ..sql.session import Sealer
from ..sql.statements import most
from ..sql.turn_claims import ClaimingTurns, interleaved, to_due
from ..sql.turns import Queueing
from ..types import Claim, Entry, Head
from .dialect import numbered, queries
from .texts import ESCAPE, SEALED, Wire, plain_text, stored_text

UNUSUAL = "CN000"
"""SQLSTATE with which a function leaves its work to the rules."""
_LONGEST = 2**16
"""Characters of an answer that the event loop may decode."""
_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_CLAIMED = ("run_id", "mode", "anchored", "parent", "input", "id", "tenant", "user_id", "agent")
"""The values of a turn that the function `claim_turns` returns."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class Call(NamedTuple):
    """A statement that returns one JSON value."""

    sql: str
    arguments: tuple[Wire | None, ...]
    result: Callable[[Any], Any]
    """Makes the result of the work from the value."""


def call_of(work: Any, sealer: Sealer | None = None) -> Call | None:
    """Return the call that does *work*, its content sealed by *sealer*; or None."""
    make = _CALLS.get(type(work))
    return None if make is None else make(work, sealer)


def calls_of(works: Sequence[Any], sealer: Sealer | None = None) -> list[Call]:
    """Return the calls that can be sent together for the first of *works*, jobs on one tree; none if it is unusual.

    Events and the entry after them are one transaction.
    """
    first = call_of(works[0], sealer)
    if first is None:
        return []
    second = None
    if len(works) > 1 and isinstance(works[0], AddingEvents) and isinstance(works[1], Appending):
        second = call_of(works[1], sealer)
    return [first] if second is None else [first, second]


@cache
def joined(sqls: tuple[str, ...]) -> str:
    """Return one statement for one call, or for two with one argument each; the second follows only a successful first.

    So an entry is never stored before its events, even if they are left to the rules.
    """
    if len(sqls) == 1:
        return sqls[0]
    first, second = sqls[0], sqls[1].removeprefix("SELECT ").replace("$1", "$2")
    return f"SELECT done, CASE WHEN done IS NOT NULL THEN {second} END FROM ({first} AS done OFFSET 0) AS first"  # noqa: S608 - of our own statements


def _append(write: Appending, sealer: Sealer | None) -> Call | None:
    entry = write.appended
    form = _form(entry, write.rows, sealer)
    if form is None:
        return None
    form |= write.bound
    form["scope_key"] = scope_key(entry.claim.scope.key).hex()
    if write.state is None:
        del form["state"]
    if entry.read is not None:
        form["read"] = entry.read

    def head(found: list[Any]) -> Head:
        return Head(seq=entry.seq + 1, commands=found[0], stop=found[1])

    return Call("SELECT append($1::jsonb)", (_wire(form),), head)


def _begin(write: Beginning, sealer: Sealer | None) -> Call | None:
    start, claim, row = write.start, write.claim, write.row
    form = _form(write.first, write.rows, sealer)
    task = row["task"] if sealer is None else sealer.seal(row["task"], "task", start.run_id)
    own = start.root_id == start.run_id
    if form is None or start.root_id != claim.root_id or start.scope.key != claim.scope.key:
        return None
    if own and start.parent_id is not None:
        return None
    if start.turn is not None:
        turn = start.turn
        key = hash_key(turn.key).hex() if turn.key and not turn.queued else None  # a queued turn has it already
        form["turn"] = [turn.parent, turn.at_leaf, key, turn.mode, turn.queued]
    form |= _owner(claim.scope)
    form["start"] = [
        *(start.run_id, row["parent_id"], row["parent_call"], row["agent"], row["agent_path"]),
        *(row["conversation_key"].hex(), row["conversation_id"], task, row["started"], row["forked_from"]),
        start.erase_after,
    ]
    form |= {"root_id": start.root_id, "owner": claim.owner, "seconds": claim.seconds}
    form["process"] = process_of(claim.owner) if own else ""
    form["accounts"] = [key.hex() for _, key in write.accounts]
    return Call("SELECT begin_run($1::jsonb)", (_wire(form),), bool)


def _events(write: AddingEvents, sealer: Sealer | None) -> Call | None:
    batch = write.batch
    if any(row.contents for row in batch.rows) or (sealer is not None and batch.replaced) or withholds(batch):
        return None
    bodies = write.bodies if sealer is None else sealed_events(write, sealer.seal)
    rows = zip(batch.rows, bodies, strict=True)
    form = {
        **_owner(batch.claim.scope),
        "root_id": batch.claim.root_id,
        "epoch": batch.claim.epoch,
        "first": batch.first,
        "last": batch.last,
        "ends": batch.ends,
        "completed": list(batch.completed),
        "dropped": list(batch.dropped),
        "replaced": write.replaced,
        "rows": [(row.run_id, row.entry, row.source, body) for row, body in rows],
        "token": _token(),
    }
    if not batch.withheld:
        return Call("SELECT add_events($1::jsonb)", (_wire(form),), _nothing)
    form["withheld"] = [(run_id, in_json(call_id)) for run_id, call_id in batch.withheld]
    return Call("SELECT add_replacing_events($1::jsonb)", (_wire(form),), _nothing)


def _nothing(_found: Any) -> None:
    pass


def _claim_due(write: ClaimingDue, _sealer: Sealer | None) -> Call | None:
    if write.consumer is not None:
        return None

    def turns(found: list[Any]) -> list[Claim]:
        write.last = None if found[0] is None else plain_text(found[0])
        return claims(found[1])

    def claims(found: list[list[Any]]) -> list[Claim]:
        return [
            Claim(
                root_id=plain_text(root_id),
                scope=Scope(plain_text(tenant), plain_text(user)),
                epoch=epoch,
                owner=write.owner,
                seconds=write.seconds,
                tries=tries,
                sure=sure,
            )
            for root_id, tenant, user, epoch, tries, sure in found
        ]

    given = (write.owner, process_of(write.owner), write.seconds, write.limit, write.agents)
    if write.in_turn:
        return Call("SELECT claim_in_turn($1, $2, $3, $4, $5, $6)", _texts(*given, write.last), turns)
    return Call("SELECT claim_due($1, $2, $3, $4, $5)", _texts(*given), claims)


def _queue_turn(write: Queueing, sealer: Sealer | None) -> Call | None:
    if sealer is not None:
        return None
    turn, scope = write.turn, write.scope
    form = {
        **_owner(scope),
        "conversation_key": hash_key(write.conversation_id).hex(),
        "conversation_id": write.conversation_id,
        "run_id": turn.run_id,
        "parent": turn.parent,
        "first": turn.first,
        "key": None if write.key is None else write.key.hex(),
        "mode": turn.mode,
        "input": write.input,
        "when": write.when,
    }
    return Call("SELECT queue_turn($1::jsonb)", (_wire(form),), bool)


def _claim_turns(claim: ClaimingTurns, sealer: Sealer | None) -> Call | None:
    if claim.consumer is not None or sealer is not None:
        return None

    def turns(found: tuple[bool, str, str, list[list[Any]], list[list[Any]]]) -> list[DueTurn]:
        claim.ended, agent, tenant, shares, rest = found
        claim.last = plain_text(agent), plain_text(tenant)
        return [
            to_due(_plain_row(dict(zip(_CLAIMED, row, strict=True)))) for row in interleaved(shares) + interleaved(rest)
        ]

    given = (claim.seconds, most(claim.limit), claim.bound["agents"], *claim.last)
    return Call("SELECT claim_turns($1, $2, $3, $4, $5)", _texts(*given), turns)


def _select(select: Select[Any], sealer: Sealer | None) -> Call | None:
    if sealer is not None:
        return None
    sql, bound = select.statement(queries())
    sql, names = numbered(sql)

    def meaning(rows: list[dict[str, Any]]) -> Any:
        return select.meaning([*map(_plain_row, rows)])

    return Call(_in_json(sql), _texts(*[bound[name] for name in names]), meaning)


@lru_cache(1024)
def _in_json(sql: str) -> str:
    """Return the statement that returns the rows of *sql* as JSON objects; no value if that would be long to decode."""
    rows = f"SELECT coalesce(json_agg(q), '[]')::text AS rows FROM ({sql.rstrip(';')}) AS q"  # noqa: S608 - our own
    return f"SELECT CASE WHEN length(rows) <= {_LONGEST} THEN rows END FROM ({rows}) AS found"  # noqa: S608


def _plain_row(row: dict[str, Any]) -> Any:
    return {name: plain_text(value) if isinstance(value, str) else value for name, value in row.items()}


_CALLS: dict[type, Callable[[Any, Sealer | None], Call | None]] = {
    Appending: _append,
    Beginning: _begin,
    AddingEvents: _events,
    ClaimingDue: _claim_due,
    ClaimingTurns: _claim_turns,
    Queueing: _queue_turn,
    Select: _select,
}

DIRECT = frozenset(_CALLS)
"""The work that the event loop may send."""


def _form(entry: Entry, rows: EntryRows, sealer: Sealer | None) -> dict[str, Any] | None:
    """Return the argument of `write_entry`; None if it does not write all of *entry*."""
    if _is_unusual(entry, rows):
        return None
    rows = sealed_rows(rows, entry, sealer)
    form: dict[str, Any] = {"entry": rows.entry, "token": _token()}
    if rows.messages:
        form["messages"] = rows.messages
    if rows.texts:
        form["texts"] = rows.texts
    if rows.usage:
        form["usage"] = [row for _, row in rows.usage]
    if rows.operations:
        form["operations"] = [
            (put.key, put.run_id, scope_key(put.scope.key).hex(), put.state, *put.row, put.outcome)
            for put in rows.operations
        ]
    if entry.closed:
        form["closed"] = list(entry.closed)
    if entry.end is not None:
        end = entry.end
        row = sealed_end(storable_row((end.answer, end.error, end.ended, end.keep_seconds)), entry.run_id, sealer)
        form["end"] = (end.status, *row, end.erase_after, ORPHANED)
    if entry.settle or entry.reserve is not None:
        form |= _charges(entry)
    return form


def _is_unusual(entry: Entry, rows: EntryRows) -> bool:
    """Return whether an entry has what the function does not write."""
    if entry.waits or rows.contents or (entry.end is not None and entry.end.reply is not None):
        return True
    if [run_id for run_id, _ in rows.usage if run_id != entry.run_id]:
        return True
    return bool([put.key for put in rows.operations if put.contents]) or _is_negative(entry)


def _is_negative(entry: Entry) -> bool:
    amounts = [(done.tokens, done.money) for done in entry.settle]
    if entry.reserve is not None:
        amounts.append((entry.reserve.tokens, entry.reserve.money))
    return any(tokens < 0 or (money is not None and money < 0) for tokens, money in amounts)


def _charges(entry: Entry) -> dict[str, Any]:
    form: dict[str, Any] = {
        "accounts": [key.hex() for _, key in claim_accounts(entry.claim)],
        "settle": [(done.id, done.tokens, _nano(done.money)) for done in entry.settle],
    }
    if (wanted := entry.reserve) is not None:
        spare = (wanted.spare_tokens, _nano(wanted.spare_money))
        form["reserve"] = (wanted.id, wanted.tokens, _nano(wanted.money), *spare)
    return form


def _owner(scope: Scope) -> dict[str, str]:
    return {"scope_key": scope_key(scope.key).hex(), "tenant": scope.tenant, "user": scope.user}


def _nano(money: Decimal | None) -> int | None:
    return None if money is None else to_nano(money, up=True)


def _texts(*values: object) -> tuple[Wire | None, ...]:
    return tuple([None if value is None else Wire(stored_text(_text(value))) for value in values])


def _text(value: object) -> str:
    return rf"\x{value.hex()}" if isinstance(value, bytes) else str(value)


def _token() -> str:
    return urandom(12).hex()


def _wire(form: dict[str, Any]) -> Wire:
    """Return *form* as JSON with texts in the stored form. Raises `StorageError` if it cannot be encoded."""
    try:
        text = _encode(form)
    except (TypeError, ValueError) as error:
        raise StorageError(f"cannot encode a value as JSON: {error}") from error
    text = text.replace(ESCAPE, ESCAPE + "1")
    if "\\u0000" in text:
        text = _ESCAPED_NUL.sub(rf"\1{ESCAPE}0", text)
    return Wire(text.replace(SEALED, ESCAPE + "2"))
