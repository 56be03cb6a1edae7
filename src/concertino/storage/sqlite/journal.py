"""Writing runs: what begins them, and each entry of their journals in one transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Any, NoReturn

from ...errors import RunEndedError, RunExistsError, StaleClaimError, StorageError, UnknownRunError
from ...usage import UsageRecord
from ...waits import Wait
from ..codec import encode_json, storable
from ..types import GOES_ON, JOURNAL_VERSION, Claim, Entry, Head, RunEnd, RunStart, StoredText
from .budgets import reserve, settle
from .erasure import checkpoint, end_run
from .rows import message_row, start_row, usage_row, wait_row
from .schema import hash_key, queries, transaction

_ORPHAN = "the run that it belonged to has ended"
Work = Callable[[sqlite3.Connection], Any]
Rows = tuple[str | None, str, list[tuple[Any, ...]]]


def beginning(start: RunStart, entry: Entry, claim: Claim) -> Callable[[sqlite3.Connection], None]:
    """The work that notes that a run has begun. Encoding is done here, before any lock is taken."""
    _check_first(start, entry, claim)
    rows, row = _rows(entry), start_row(start)

    def work(connection: sqlite3.Connection) -> None:
        now = time.time()
        with transaction(connection):
            root = _claimed_root(connection, start, claim)
            found = connection.execute(queries()["begin_run"], {**row, "root": root}).fetchall()
            if not found:
                raise RunExistsError(f"run {start.run_id!r} has begun already: resume it, or take another id")
            ((run, root),) = found
            epoch, owner, lease = (claim.epoch, claim.owner, now + claim.seconds) if run == root else (0, "", 0.0)
            connection.execute(queries()["begin_head"], (run, root, epoch, owner, lease, start.erase_after))
            _write(connection, run, root, entry, rows, now)

    return work


def appending(entry: Entry) -> Callable[[sqlite3.Connection], Head]:
    """The work that adds *entry* to its run's journal. Encoding is done here, before any lock is taken."""
    _check(entry)
    rows = _rows(entry)
    state = {"suspended": "suspended", "resumed": "running"}.get(entry.kind)
    bound = {
        "state": state if entry.end is None else entry.end.status,
        "goes_on": entry.kind in GOES_ON,
        "late": _only_usage(entry),
        "run_id": entry.run_id,
        "seq": entry.seq,
        "epoch": entry.claim.epoch,
        "owner": entry.claim.owner,
    }

    def work(connection: sqlite3.Connection) -> Head:
        sql = queries()
        with transaction(connection):
            found = connection.execute(sql["advance"], bound).fetchall()
            if not found:
                _refuse(connection, entry)
            run, root, commands, stop, tries = found[0]
            if tries and entry.kind in GOES_ON:
                connection.execute(sql["went_on"], (root,))
            erased = _write(connection, run, root, entry, rows, time.time())
        if erased:
            checkpoint(connection)
        return Head(seq=entry.seq + 1, commands=commands, stop=bool(stop))

    return work


def _check(entry: Entry) -> None:
    if (entry.kind == "ended") != (entry.end is not None):
        raise StorageError(f"entry {entry.seq} of run {entry.run_id!r} is {entry.kind!r}: only the last has an end")
    if entry.end is not None and entry.end.status == "suspended":
        raise StorageError(f"run {entry.run_id!r} cannot end as suspended: that is no end")


def _check_first(start: RunStart, entry: Entry, claim: Claim) -> None:
    _check(entry)
    if (entry.run_id, entry.seq, entry.kind) != (start.run_id, 0, "begun"):
        raise StorageError(f"run {start.run_id!r} must begin with its entry 0, which is 'begun'")
    if not claim.owner:
        raise StorageError(f"run {start.run_id!r} must be claimed by an owner with a name")


def _only_usage(entry: Entry) -> bool:
    more = (entry.held, entry.messages, entry.texts, entry.waits, entry.taken, entry.reserve)
    return entry.kind == "noted" and not any(more)


def _rows(entry: Entry) -> Rows:
    held = None if entry.held is None else encode_json(entry.held)
    return held, encode_json(entry.body), [message_row(message) for message in entry.messages]


def _write(connection: sqlite3.Connection, run: int, root: int, entry: Entry, rows: Rows, now: float) -> bool:
    """All that belongs to *entry*, inside the transaction that has made its place. Whether something was erased."""
    sql = queries()
    held, body, messages = rows
    for settlement in entry.settle:
        settle(connection, settlement)
    if entry.reserve is not None:
        reserve(connection, entry.reserve)
    row = (run, entry.seq, entry.claim.epoch, entry.kind, entry.step, now, JOURNAL_VERSION, body, held)
    connection.execute(sql["add_entry"], row)
    for message in messages:
        connection.execute(sql["add_message"], (run, entry.seq, *message))
    for text in entry.texts:
        _add_text(connection, run, text)
    for record in entry.usage:
        _book(connection, run, entry, record, now)
    for wait in entry.waits:
        _open_wait(connection, run, entry, wait, now)
    for key in entry.taken:
        connection.execute(sql["take_in"], (key, run))
    return entry.end is not None and _end(connection, run, root, entry.end, now)


def _add_text(connection: sqlite3.Connection, run: int, text: StoredText) -> None:
    row = (text.id, hash_key(text.user_id), text.run_id, text.user_id, storable(text.body), run)
    connection.execute(queries()["add_text"], row)


def _book(connection: sqlite3.Connection, run: int, entry: Entry, record: UsageRecord, now: float) -> None:
    seq: int | None = entry.seq
    if record.run_id != entry.run_id:
        found = connection.execute(queries()["run_number"], (record.run_id,)).fetchone()
        if found is None:
            raise UnknownRunError(f"usage record {record.id!r} is of run {record.run_id!r}, which was never begun")
        run, seq = found[0], None
    connection.execute(queries()["add_usage"], (run, seq, *usage_row(record, now)))


def _open_wait(connection: sqlite3.Connection, run: int, entry: Entry, wait: Wait, now: float) -> None:
    if wait.run_id != entry.run_id:
        raise StorageError(f"wait {wait.key!r} is of run {wait.run_id!r}: run {entry.run_id!r} cannot open it")
    connection.execute(queries()["open_wait"], {**wait_row(wait, now), "run": run})


def _end(connection: sqlite3.Connection, run: int, root: int, end: RunEnd, now: float) -> bool:
    """Whether something was erased: with the end of a tree goes what its runs held."""
    _end_one(connection, run, end, now)
    if run == root:
        for below, holds_for in connection.execute(queries()["open_below"], {"root": root}).fetchall():
            orphan = RunEnd(status="cancelled", answer="", error=_ORPHAN, ended=end.ended, erase_after=holds_for)
            _end_one(connection, below, orphan, now)
            connection.execute(queries()["cancel_head"], {"run": below})
    erased = False
    for ended, holds_for in connection.execute(queries()["ended_tree"], {"run": run, "root": root}).fetchall():
        end_run(connection, ended, now, holds_for)
        erased = erased or holds_for == 0
    return erased


def _end_one(connection: sqlite3.Connection, run: int, end: RunEnd, now: float) -> None:
    error = None if end.error is None else storable(end.error)
    number = connection.execute(queries()["add_end"], (storable(end.answer), error, end.ended, end.lasts)).lastrowid
    bound = {"run": run, "now": now}
    connection.execute(queries()["end_head"], {**bound, "ending": number, "holds_for": end.erase_after})
    connection.execute(queries()["answer_ended"], bound)
    connection.execute(queries()["close_ended"], bound)


def _claimed_root(connection: sqlite3.Connection, start: RunStart, claim: Claim) -> int | None:
    """The number of the root that a child begins under; None for a root."""
    if start.root_id != claim.root_id:
        raise StaleClaimError(f"run {start.run_id!r} is of the tree {start.root_id!r}, claimed is {claim.root_id!r}")
    if start.root_id == start.run_id:
        return None
    row = standing(connection, start.root_id)
    if row["ending"] is not None:
        raise RunEndedError(f"run {start.run_id!r} cannot begin: the run {start.root_id!r} above it has ended")
    _check_claim(row, claim)
    return int(row["number"])


def _refuse(connection: sqlite3.Connection, entry: Entry) -> NoReturn:
    """Say why *entry* had no place."""
    row = standing(connection, entry.run_id)
    if row["epoch"] != entry.claim.epoch:
        raise stale(row, entry.claim)  # also where the one who has it now has ended it
    if row["ending"] is not None and not _only_usage(entry):
        raise RunEndedError(f"run {entry.run_id!r} has ended: only usage may still be added to it")
    _check_claim(row, entry.claim)
    raise StaleClaimError(
        f"run {entry.run_id!r} has {row['entries']} entries, so that entry {entry.seq} is not its next: "
        "somebody else has written to it"
    )


def _check_claim(row: sqlite3.Row, claim: Claim) -> None:
    if (row["epoch"], row["owner"]) != (claim.epoch, claim.owner):
        raise stale(row, claim)


def stale(row: sqlite3.Row, claim: Claim) -> StaleClaimError:
    """The error for a *claim* that no longer holds, from the `standing` of a run of its tree."""
    now = f"held by {row['owner']!r}" if row["owner"] else "released"
    return StaleClaimError(
        f"claim {claim.epoch} of {claim.owner!r} on run {row['root_id']!r} is over: "
        f"the run is {now} at claim {row['epoch']}"
    )


def standing(connection: sqlite3.Connection, run_id: str) -> sqlite3.Row:
    """How a run stands, and the claim on its tree. UnknownRunError: it was never begun."""
    row: sqlite3.Row | None = connection.execute(queries()["standing"], (run_id,)).fetchone()
    if row is None:
        raise UnknownRunError(f"run {run_id!r} was never begun")
    return row
