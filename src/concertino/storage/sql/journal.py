"""Writing runs: the start, each journal entry in one transaction, the end, and the claim on the tree."""

from __future__ import annotations

from typing import Any, NoReturn

from ...errors import (
    RunEndedError,
    RunExistsError,
    StaleClaimError,
    StorageError,
    UnknownRunError,
    UnreadMessagesError,
)
from ..codec import outcome_digests
from ..process import process_of
from ..types import PROGRESS, Claim, Entry, Head, RunEnd, RunStart
from .approvals import FROM_OUTSIDE, open_waits
from .budgets import reserve, settle
from .calls import answer_call, start_call
from .claims import check_claim, claimed_position, stale
from .media import add_contents, release_contents
from .rows import EntryRows, PutOperation, claim_accounts, entry_rows, scope_key, start_row, storable_row
from .schedule import reschedule
from .sealing import discard_content, discard_expired, run_of, sealed_end, sealed_rows
from .session import Session, Write
from .statements import limited
from .turns import open_turn

_STATES = {"suspended": "suspended", "resumed": "running"}
ORPHANED = "its root run has ended"
_CONTENT = (
    "erase_messages",
    "erase_content",
    "erase_waits",
    "erase_answers",
    "erase_commands",
    "erase_texts_of_run",
    "erase_events",
)


class Beginning(Write[bool]):
    """Starts a run with entry 0, and looks up whether one of its accounts has a budget."""

    def __init__(self, start: RunStart, entry: Entry, claim: Claim) -> None:
        _check_first(start, entry, claim)
        self.start, self.first, self.claim = start, entry, claim
        self.tree = claim.root_id
        self.rows, self.row = entry_rows(entry), start_row(start)
        self.accounts = claim_accounts(claim)

    def work(self, connection: Session) -> bool:
        """Insert the run, its head and the entry."""
        sql, now, start, claim = connection.queries, connection.now(), self.start, self.claim
        root = _claimed_root(connection, start, claim)
        if root is None and start.parent_id is not None:
            start_call(connection, start)
        row = {**self.row, "root": root}
        if connection.sealer is not None:
            row["task"] = connection.sealer.seal(row["task"], "task", start.run_id)
        found = connection.execute(sql["begin_run"], row).fetchall()
        if not found:
            problem = f"run {start.run_id!r} exists: resume it, or use another id"
            raise RunExistsError(problem, start.run_id)
        ((run, top),) = found
        claimed: tuple[Any, ...] = (0, "", "", 0.0, None)
        if root is None:
            lease = now + claim.seconds
            claimed = (claim.epoch, claim.owner, process_of(claim.owner), lease, lease)
        else:
            connection.execute(sql["reset_tries"], (root,))
        connection.execute(sql["begin_head"], (run, top, *claimed, start.erase_after))
        if start.turn is not None:
            open_turn(connection, run, start, start.turn, now)
        _write(self, connection, run, top, self.first, self.rows, now)
        return any(connection.execute(sql["is_limited"], (key,)).fetchone() for _, key in self.accounts)


class Appending(Write[Head]):
    """Appends an entry to its run's journal."""

    def __init__(self, entry: Entry) -> None:
        _check(entry)
        self.appended, self.rows = entry, entry_rows(entry)
        self.tree = entry.claim.root_id
        if entry.end is not None and entry.end.reply is not None:
            self.lock = "lock_tree_and_caller"
        self.progress, self.state = entry.kind in PROGRESS, _STATES.get(entry.kind)
        late = _only_usage(entry)
        claim, scope = entry.claim, entry.claim.scope
        self.bound = {
            "scope_key": scope_key(scope.key),
            "tenant": scope.tenant,
            "user": scope.user,
            "state": self.state,
            "progress": self.progress,
            "run_id": entry.run_id,
            "seq": entry.seq,
            "late": late,
            "epoch": claim.epoch,
            "owner": claim.owner,
        }

    def work(self, connection: Session) -> Head:
        """Advance the run's head, if the claim allows it, and write the entry."""
        sql, entry, now = connection.queries, self.appended, connection.now()
        found = connection.execute(limited(sql["advance"], "Scope"), self.bound).fetchone()
        if found is None:
            _refuse(connection, entry)
        run, root, commands, stop, tries = found
        if entry.read is not None and commands > entry.read:
            _require_read(connection, run, entry, entry.read)
        if tries and self.progress:
            connection.execute(sql["reset_tries"], (root,))
        _write(self, connection, run, root, entry, self.rows, now)
        if self.state is not None and run == root:
            reschedule(connection, root, now)
        return Head(seq=entry.seq + 1, commands=commands, stop=bool(stop))


# -- the parts of an entry ---------------------------------------------------------------------------------------------


def _write(
    write: Write[Any], connection: Session, run: int, root: int, entry: Entry, rows: EntryRows, now: float
) -> None:
    """Write the parts of *entry* inside the transaction of *write*."""
    sql, execute = connection.queries, connection.execute
    rows = rows if connection.sealer is None else sealed_rows(rows, entry, connection.sealer)
    for settlement in entry.settle:
        settle(connection, entry.claim, settlement)
    if entry.reserve is not None:
        reserve(connection, entry.claim, entry.reserve)
    write.entry = execute(sql["add_entry"], (*rows.entry, run, now)).lastrowid or 0
    for message in rows.messages:
        execute(sql["add_message"], (*message, run))
    for text in rows.texts:
        execute(sql["add_text"], (*text, run))
    if rows.contents:
        add_contents(connection, run, rows.contents)
    for run_id, usage in rows.usage:
        _book(connection, run, root, entry, run_id, (*usage, now))
    for put in rows.operations:
        _put(connection, root, put, now)
    for key in entry.closed:
        _close(connection, run, root, key, now)
    if entry.waits:
        open_waits(connection, run, entry, now)
    write.erased = entry.end is not None and end_tree(connection, run, root, entry.end, now)


def _book(connection: Session, run: int, root: int, entry: Entry, run_id: str, usage: tuple[Any, ...]) -> None:
    seq: int | None = entry.seq
    if run_id != entry.run_id:
        found = connection.execute(connection.queries["run_of_tree"], (run_id, root)).fetchone()
        if found is None:
            raise UnknownRunError(
                f"usage record {usage[0]!r} belongs to run {run_id!r}, which is not in the entry's tree"
            )
        run, seq = found[0], None
    connection.execute(connection.queries["add_usage"], (run, seq, *usage))


def _put(connection: Session, root: int, put: PutOperation, now: float) -> None:
    """Insert or update an operation."""
    sql, number, owner = connection.queries, None, scope_key(put.scope.key)
    if put.outcome is not None:
        for run, before in connection.execute(sql["replaced_outcome"], (owner, put.key, put.state)).fetchall():
            _erase_outcome(connection, run, before)
        number = connection.execute(sql["add_outcome"], (put.outcome,)).lastrowid
    row = (put.key, *put.row, number, put.run_id, root, owner)
    found = connection.execute(sql["put_operation"], row).fetchall()
    if not found:
        raise StorageError(
            f"operation {put.key!r} does not fit run {put.run_id!r}: use a run of the entry's tree, "
            "the scope of that run, and a key that no other run of the scope uses"
        )
    run, state, answered, waited_for, stored = found[0]
    if put.contents:
        add_contents(connection, run, put.contents)
    if number is not None and stored != number:
        _erase_outcome(connection, run, number)  # the first outcome counts
    if waited_for in FROM_OUTSIDE and state != "waiting" and not answered:
        connection.execute(sql["cancel_wait"], {"key": put.key, "now": now})


def _close(connection: Session, run: int, root: int, key: str, now: float) -> None:
    """Remove an operation from the table of open ones."""
    sql = connection.queries
    for owner, waited_for, outcome in connection.execute(sql["close_operation"], (run, key, root)).fetchall():
        _erase_outcome(connection, owner, outcome)
        if waited_for in FROM_OUTSIDE:
            connection.execute(sql["cancel_wait"], {"key": key, "now": now})


def _erase_outcome(connection: Session, run: int, number: int | None) -> None:
    """Erase an outcome of *run*, and the contents of its media that nothing else names."""
    if number is None:
        return
    sql = connection.queries
    digests = outcome_digests(connection.execute(sql["outcome"], (number,)).fetchone()[0])
    connection.execute(sql["erase_outcome"], (number,))
    if digests:
        release_contents(connection, run, shared=True, digests=digests)


# -- ends --------------------------------------------------------------------------------------------------------------


def end_tree(connection: Session, run: int, root: int, end: RunEnd, now: float) -> bool:
    """End a run, and with a root all runs below it; inside a transaction. Return whether content was erased."""
    sql, bound = connection.queries, {"run": run, "root": root, "now": now}
    connection.execute(sql["answer_ended"], bound)
    for owner, outcome in connection.execute(sql["close_run"], bound).fetchall():
        _erase_outcome(connection, owner, outcome)
    _end_one(connection, run, end, now)
    if run == root:
        for below, erase_after in connection.execute(sql["open_below"], bound).fetchall():
            orphan = RunEnd(status="cancelled", answer="", error=ORPHANED, ended=end.ended, erase_after=erase_after)
            _end_one(connection, below, orphan, now)
        if end.reply is not None:
            answer_call(connection, run, end.reply, now)
    erased = False
    for ended, erase_after in connection.execute(sql["ended_tree"], bound).fetchall():
        at_once = erase_after is not None and erase_after <= 0
        if at_once:
            erase_content(connection, ended)
            erased = True
        erase_at = None if at_once or erase_after is None else now + erase_after
        planned = {"run": ended, "erase_at": erase_at}
        ((due,),) = connection.execute(sql["plan_sweep"], planned).fetchall()
        if due is not None and due <= now:  # results that refuse to be stored
            discard_expired(connection, ended, now)
            connection.execute(sql["expire_messages"], {"run": ended, "now": now})
            release_contents(connection, ended, shared=True)
            connection.execute(sql["plan_sweep"], planned).fetchall()
            erased = True
    return erased


def erase_content(connection: Session, run: int) -> None:
    """Erase what the data policy does not keep after a run's end."""
    discard_content(connection, run)
    for name in _CONTENT:
        connection.execute(connection.queries[name], {"run": run})
    release_contents(connection, run)


def _end_one(connection: Session, run: int, end: RunEnd, now: float) -> None:
    row = storable_row((end.answer, end.error, end.ended, end.keep_seconds))
    if connection.sealer is not None:
        row = sealed_end(row, run_of(connection, run), connection.sealer)
    number = connection.execute(connection.queries["add_end"], row).lastrowid
    bound = {"run": run, "status": end.status, "ending": number, "now": now, "erase_after": end.erase_after}
    connection.execute(connection.queries["end_head"], bound)


def _require_read(connection: Session, run: int, entry: Entry, read: int) -> None:
    """Raise `UnreadMessagesError` if a message was sent after command *read*: the run must not end without it."""
    (last,) = connection.execute(connection.queries["last_message_to"], (run,)).fetchone()
    if (last or 0) > read:
        raise UnreadMessagesError(f"run {entry.run_id!r} has not read message {last}: it cannot end", last)


# -- checks ------------------------------------------------------------------------------------------------------------


def _check(entry: Entry) -> None:
    if (entry.kind == "ended") != (entry.end is not None):
        raise StorageError(f"entry {entry.seq} of run {entry.run_id!r} is {entry.kind!r}: only 'ended' has an end")
    if entry.end is not None and entry.end.status == "suspended":
        raise StorageError(f"run {entry.run_id!r} cannot end as 'suspended'")


def _check_first(start: RunStart, entry: Entry, claim: Claim) -> None:
    _check(entry)
    if (entry.run_id, entry.seq, entry.kind) != (start.run_id, 0, "started"):
        raise StorageError(f"run {start.run_id!r} must begin with its entry 0 of kind 'started'")
    if not claim.owner:
        raise StorageError(f"claim on run {start.run_id!r} without an owner: pass process_owner()")


def _only_usage(entry: Entry) -> bool:
    more = (entry.content, entry.messages, entry.texts, entry.operations, entry.waits, entry.reserve)
    return entry.kind == "usage_booked" and not any(more)


def _claimed_root(connection: Session, start: RunStart, claim: Claim) -> int | None:
    """Return the number of the root that a child starts under; None for a root."""
    if start.scope.key != claim.scope.key:
        raise StorageError(f"run {start.run_id!r} and its claim differ in scope: use the scope of the tree")
    if start.root_id != claim.root_id:
        raise StaleClaimError(
            f"run {start.run_id!r} belongs to tree {start.root_id!r}, but the claim is on {claim.root_id!r}"
        )
    if start.root_id == start.run_id:
        return None
    row = claimed_position(connection, claim, start.root_id)
    if row["ending"] is not None:
        raise RunEndedError(f"run {start.run_id!r} cannot start: its root run {start.root_id!r} has ended")
    check_claim(row, claim)
    return int(row["number"])


def _refuse(connection: Session, entry: Entry) -> NoReturn:
    """Raise the error that explains why *entry* was rejected."""
    row = claimed_position(connection, entry.claim, entry.run_id)
    if row["epoch"] != entry.claim.epoch:
        raise stale(row, entry.claim)  # also after another process has ended the run
    if row["ending"] is not None and not _only_usage(entry):
        raise RunEndedError(f"run {entry.run_id!r} has ended: only usage may still be added to it")
    check_claim(row, entry.claim)
    raise StaleClaimError(
        f"run {entry.run_id!r} has {row['entries']} entries, so {entry.seq} is not the number of the next: "
        "another writer appended to it"
    )
