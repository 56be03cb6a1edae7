"""The journal of a run: gathers what happens, and appends it to the store as the data policy leaves it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import Any

from ...context_state import ContextState
from ...errors import StaleClaimError, UnreadMessagesError
from ...ids import text_id, token
from ...messages import AssistantMessage, Message
from ...operations import Operation, OperationState
from ...records import record
from ...scope import Scope
from ...storage import types as stored
from ...storage.base import Store
from ...storage.types import Reservation, RunEnd, RunStart, Settlement, StoredText
from ...token_engine.edits import Edit
from ...usage import UsageRecord
from ...waits import Wait
from ..run_state import RunState
from .data_policy import KEEP_ALL, stored_end, stored_messages, stored_start
from .entries import Common, EndStatus, JournalEntry, UsageBooked, encode, message_texts
from .lease import Tree
from .patterns import redactor_of
from .snapshot import INTERVAL, NOTED, Shown, Snapshot, Sources


@record(frozen=False)
class _Gathered:
    """The contents of the next append."""

    usage: list[UsageRecord] = field(default_factory=list)
    settle: list[Settlement] = field(default_factory=list)
    attempts: list[tuple[str, OperationState]] = field(default_factory=list)
    """Model attempts that ended; their rows leave the store with their usage."""
    messages: list[Message] = field(default_factory=list)
    progress: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    """Ids of texts that are stored already."""
    of_conversation: frozenset[str] = frozenset()
    """Ids of those texts that belong to the conversation."""
    contents: dict[str, str] | None = None
    """Contents of media that texts name, by digest; None: of none."""
    calls: dict[str, Operation] = field(default_factory=dict)
    """Tool calls by key, as they are now."""
    waits: dict[str, Wait] = field(default_factory=dict)
    """Waits of calls that began to wait, by key."""
    closed: list[str] = field(default_factory=list)
    """Keys of tool calls whose outcome the conversation contains."""
    common: Common = field(default_factory=Common)

    def before(self, later: _Gathered) -> _Gathered:
        """Return this and *later* as one."""
        for name in ("usage", "settle", "attempts", "messages", "closed"):
            getattr(self, name).extend(getattr(later, name))
        for name in ("progress", "texts", "calls", "waits"):
            getattr(self, name).update(getattr(later, name))
        self.named += later.named
        self.of_conversation |= later.of_conversation
        self.contents = {**(self.contents or {}), **(later.contents or {})} or None
        mine, other = self.common, later.common
        mine.log.extend(other.log)
        mine.counts.update(other.counts)
        mine.data.update(other.data)
        mine.ending = [*mine.ending, *other.ending]
        mine.carried = mine.carried if other.carried is None else other.carried
        mine.edits = [*mine.edits, *other.edits]
        mine.edited = other.edited or mine.edited
        return self

    def split(self) -> tuple[_Gathered, _Gathered]:
        """Return the usage alone, and the rest."""
        usage = _Gathered(self.usage, self.settle, self.attempts)
        self.usage, self.settle, self.attempts = [], [], []
        return usage, self


class Journal:
    """The writer of one run's journal. Without a store it does nothing, and `on` is False."""

    __slots__ = (
        "_count",
        "_gathered",
        "_known",
        "_lock",
        "_planned",
        "_salt",
        "_sources",
        "_started",
        "_store",
        "_tree",
        "_unsure",
        "commands",
        "conversation_id",
        "ended",
        "late",
        "next_context",
        "on",
        "packed_context",
        "policy",
        "processed",
        "run_id",
        "scope",
        "seq",
        "snapshot_from",
    )

    def __init__(
        self, tree: Tree, run_id: str, scope: Scope, count: Callable[[Message], int], conversation_id: str = ""
    ) -> None:
        self.on = tree.store is not None
        self.next_context: ContextState | None = None
        """The context for the next run of the conversation, when the run has its result."""
        self.run_id = run_id
        self.policy = KEEP_ALL
        self.ended = False
        self.commands = 0
        """The number of the newest command to the run."""
        self.processed = 0
        """The number of the newest command that the run has processed."""
        self.late = 0
        """The number of requests and answers of turns that cancelled appends have recorded all the same."""
        self._tree = tree
        if not self.on:
            return
        self._store: Store | None = tree.store
        self._count = count
        self.conversation_id = conversation_id
        self.packed_context: Sequence[Any] | None = None
        """The chat's context as entry 0 has it."""
        self.scope = scope
        self.seq = 0
        """The number of the next entry."""
        self.snapshot_from = INTERVAL
        """The number of the first entry that may have a snapshot."""
        self._started = False
        self._lock = asyncio.Lock()
        self._salt = token()  # ids outlive their texts, and must not let anyone verify a guess at a short text
        self._gathered = _Gathered()
        self._unsure: tuple[stored.Entry, _Gathered] | None = None
        """An entry whose append was cancelled, and what it contains."""
        self._sources = Sources()
        self._planned: tuple[Snapshot, Shown] | None = None
        """The snapshot of the next request, and the messages that it needs."""
        self._known: dict[str, Any] = {"text": ""}
        """Values recorded last, by name: an entry repeats none of them. The recorded messages imply the `text`."""

    # -- gathering -----------------------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        """Record a message appended to the conversation."""
        gathered = self._gathered
        gathered.messages.append(message)
        log = gathered.common.log
        if log and type(log[-1]) is int:
            log[-1] += 1
        else:
            log.append(1)
        if isinstance(message, AssistantMessage):
            self._known["text"] = message.text

    def replace(self, messages: Sequence[Message]) -> None:
        """Record that *messages* replace the conversation except its last message."""
        common = self._gathered.common
        common.log.append(self.message_ids(messages))
        common.carried, common.edits = None, ()

    def book(self, record: UsageRecord, settlement: Settlement | None, ended: OperationState | None = None) -> None:
        """Record usage, and what it takes from the accounts; if it is an attempt's, also the state it *ended* in."""
        self._gathered.usage.append(record)
        if settlement is not None:
            self._gathered.settle.append(settlement)
        if ended is not None:
            self._gathered.attempts.append((record.id, ended))

    def end_attempt(self, key: str, state: OperationState) -> None:
        """Record that the model attempt *key* ended in *state*."""
        self._gathered.attempts.append((key, state))

    def count(self, path: str, calls: int) -> None:
        """Record the number of tool calls so far of the agent at *path*."""
        self._gathered.common.counts[path] = calls

    def data(self, tool: str, value: Any) -> None:
        """Record the structured result of a tool's last call."""
        self._gathered.common.data[tool] = value

    def progress(self, call_id: str, steps: list[dict[str, Any]]) -> None:
        """Record a tool's progress steps, stored with its result."""
        self._gathered.progress[call_id] = steps

    def edit(self, edits: Iterable[Edit], edited: tuple[int, ...] = ()) -> None:
        """Record edits of the view, and what they changed; see `Common.edited`."""
        common = self._gathered.common
        common.edits = [*common.edits, *edits]
        common.edited = edited or common.edited

    def carry(self, example_count: int) -> None:
        """Record that the view has the edits of the context in entry 0; *example_count* messages precede them."""
        self._gathered.common.carried = example_count

    def operation(self, operation: Operation, wait: Wait | None = None) -> None:
        """Record the state of a tool call, and the *wait* that it begins: whichever append is next writes both."""
        self._gathered.calls[operation.key] = operation
        if wait is not None:
            self._gathered.waits[operation.key] = wait

    def end_by(self, key: str) -> None:
        """Record that the result of the call *key* ends the run."""
        common = self._gathered.common
        common.ending = [*common.ending, key]

    def close(self, keys: Iterable[str]) -> None:
        """Record that the conversation contains the outcomes of these calls."""
        self._gathered.closed.extend(keys)

    def text_ids(self, bodies: Sequence[str], *, of_conversation: bool = False) -> list[str]:
        """Return the ids of texts that runs share; each is stored once.

        Texts *of_conversation* are shared by its runs only, and are erased with it.
        """
        owner = self.scope.key if self.policy.keeps_everything else self._salt
        if of_conversation and self.conversation_id:
            owner = f"{len(owner)}:{owner}{self.conversation_id}"
        ids = [text_id(owner, body) for body in bodies]
        self._gathered.texts.update(zip(ids, bodies, strict=True))
        if of_conversation and self.conversation_id:
            self._gathered.of_conversation |= set(ids)
        return ids

    def conversation_text_ids(self, bodies: Sequence[str]) -> list[str]:
        """Return the ids of texts of the conversation."""
        return self.text_ids(bodies, of_conversation=True)

    def name_texts(self, ids: Iterable[str]) -> None:
        """Record that the next entry refers to texts that are stored already."""
        self._gathered.named += tuple(ids)

    def message_texts(self, messages: Sequence[Message]) -> list[str]:
        """Return the encoded messages; the next entry has the contents of their media."""
        contents = self._gathered.contents = self._gathered.contents or {}
        return message_texts(messages, contents)

    def message_ids(self, messages: Sequence[Message]) -> list[str]:
        """Return the ids of messages as texts that the runs of the conversation share; see `text_ids`."""
        return self.text_ids(self.message_texts(messages), of_conversation=True)

    def changes(self, **values: Any) -> dict[str, Any]:
        """Return those of *values* that differ from the values recorded last under their names, and remember them."""
        known, found = self._known, {}
        for name, value in values.items():
            if name not in known or ((old := known[name]) is not value and old != value):
                found[name] = known[name] = value
        return found

    def plan_snapshot(self, phase: int, state: RunState, size: int, shown: Shown) -> None:
        """Let the next request have a snapshot, if *size* characters may be repeated. Nothing is known then."""
        if self._sources.is_due(self.seq, size + 8 * len(shown.indexes)):
            self._known.clear()
            self.snapshot_from = self.seq + INTERVAL
            self._planned = Snapshot(phase=phase, counts=state.tool_calls, calls_of=state.calls_of), shown

    def forget(self) -> None:
        """Let the next entry repeat every value, without a snapshot: what was to record them may not be written."""
        self._known.clear()
        self._planned = None

    # -- appending -----------------------------------------------------------------------------------------------

    async def start(self, start: RunStart, entry: JournalEntry, operations: Sequence[Operation] = ()) -> None:
        """Append entry 0, and find out whether an account of the tree has a budget. Raises `RunExistsError`."""
        if not self.on:
            return
        assert self._store is not None
        assert self._tree.claim is not None
        gathered, self._gathered = self._gathered, _Gathered()
        start = stored_start(self.policy, start)
        self._started = True  # a cancelled or failed append may have reached the store all the same
        row = self._row(entry, 0, gathered, operations)
        self._unsure = (row, gathered)
        limited = await self._store.begin(start, row, self._tree.claim)
        self._tree.budgeted = self._tree.budgeted or limited
        self._unsure = None
        self.seq = 1

    def restore(self, seq: int, commands: int, text: str, sources: Sources | None = None) -> None:
        """Continue after the entries of an earlier process, which have the *sources* of the run's state."""
        self._started, self._sources = True, sources or self._sources
        self.snapshot_from = self._sources.last + INTERVAL
        self.seq, self.processed, self.commands, self._known["text"] = seq, commands, commands, text

    async def append(  # noqa: C901, PLR0912 - what happens around one append, in its order
        self,
        entry: JournalEntry,
        step: int,
        operations: Sequence[Operation] = (),
        *,
        reserve: Reservation | None = None,
        end: RunEnd | None = None,
        read: int | None = None,
        aside: bool = False,
    ) -> None:
        """Append *entry* with everything gathered, atomically. Contents that could not be written stay for the next.

        An entry *aside* is not a boundary of a turn: the conversation waits for the next entry. `UsageBooked` contains
        usage alone: a resumed run continues from the boundary before it, and what followed is repeated.

        Raises `StaleClaimError` after another process has claimed the run: this process must stop then. Raises
        `UnreadMessagesError` if a message with a number greater than *read* was sent to the run before its *end*.
        """
        usage_only = isinstance(entry, UsageBooked)
        if not self.on or not self._started or (self.ended and not usage_only):
            return
        async with self._lock:
            assert self._store is not None
            if self._unsure is not None:
                await self._find_out(self._store)
                if self.ended and not usage_only:
                    return
            gathered, self._gathered = self._gathered, _Gathered()
            if aside or usage_only:
                gathered, rest = gathered.split()
                self._gathered = rest if aside else self._gathered
            row = self._row(entry, step, gathered, operations, reserve=reserve, end=end, read=read)
            if self._tree.flush_events is not None:
                # Queued before the entry: if a crash follows, the log has what the journal has.
                self._tree.flush_events(self.run_id, row.seq)
            try:
                head = await self._store.append(row)
            except asyncio.CancelledError:
                self._unsure = (row, gathered)
                raise
            except BaseException as error:
                self._unwritten(gathered)
                if isinstance(error, StaleClaimError):
                    self._tree.lose(error)
                elif isinstance(error, UnreadMessagesError):
                    self.commands = error.number
                raise
            common = gathered.common
            if gathered.messages:
                self._sources.fresh.append((row.seq, len(gathered.messages)))
            if common.edits or common.data or row.body.keys() & NOTED or row.kind in NOTED:  # few entries
                self._sources.note(row.seq, row.kind, common)
            self.seq, self.commands = head.seq, head.commands
            if end is not None:
                self.ended = True
                self._tree.ended = self._tree.ended or self.run_id == self._tree.root_id
        if head.stop:
            self._tree.request_stop()

    async def has_ended(self) -> bool:
        """Return whether the end is recorded already; needed where an append may have been cancelled."""
        if not self.on:
            return False
        async with self._lock:
            if self._unsure is not None and self._store is not None:
                await self._find_out(self._store)
        return self.ended

    async def _find_out(self, store: Store) -> None:
        """Find out whether a cancelled append was carried out, so that nothing is written twice or lost."""
        assert self._unsure is not None
        row, gathered = self._unsure
        root_id = self._tree.root_id
        run = await store.run(self.scope, root_id)  # a store reads a root after all writes to its tree, also that one
        if self.run_id != root_id:
            run = await store.run(self.scope, self.run_id)
        if run is None or run.entries <= row.seq:
            self._unwritten(gathered)
        else:
            if gathered.messages:
                self._sources.fresh.append((row.seq, len(gathered.messages)))
            self._sources.note(row.seq, row.kind, gathered.common)
            self.seq = run.entries
            self.ended = run.end is not None
            self.late += row.kind in ("model_requested", "model_answered")
            self._end_unsent(row)
        self._started = run is not None
        self._unsure = None

    def _end_unsent(self, row: stored.Entry) -> None:
        """End the model attempts that *row* announced: their caller was cancelled, so they are never sent."""
        gathered, reserve = self._gathered, row.reserve
        gathered.attempts += [(each.key, "cancelled") for each in row.operations if each.kind == "model_call"]
        if reserve is not None:
            gathered.settle.append(Settlement(id=reserve.id, tokens=0, money=Decimal(0)))

    def _unwritten(self, gathered: _Gathered) -> None:
        """Keep *gathered* for the next append, which then repeats every value."""
        gathered.common.snapshot = None
        self._gathered = gathered.before(self._gathered)
        self.forget()

    def _row(
        self,
        entry: JournalEntry,
        step: int,
        gathered: _Gathered,
        operations: Sequence[Operation],
        *,
        reserve: Reservation | None = None,
        end: RunEnd | None = None,
        read: int | None = None,
    ) -> stored.Entry:
        assert self._tree.claim is not None
        changed = [*gathered.calls.values(), *operations]
        waits: Sequence[Wait] = ()
        if gathered.waits:
            waits = [wait for key, wait in gathered.waits.items() if gathered.calls[key].state == "waiting"]
        common, closed = gathered.common, [*gathered.closed, *[key for key, _ in gathered.attempts]]
        common.texts = [*gathered.texts, *gathered.named]
        common.transitions = [(operation.key, operation.state) for operation in changed]
        common.transitions += gathered.attempts
        if self._planned is not None and entry.kind == "model_requested":
            (planned, shown), self._planned = self._planned, None
            if self.run_id == self._tree.root_id:
                self._sources.count(self.run_id, self._tree.ledger)
            common.snapshot = self._sources.snapshot(planned, self.seq, shown)
        body, content = encode(entry, common, self._known)
        redactor = redactor_of(self.policy.patterns) if self.policy.patterns else None
        if redactor is not None:
            content = redactor.value(content)
            changed = [replace(each, outcome=redactor.value(each.outcome)) for each in changed]
            waits = [replace(each, note=redactor.text(each.note)) for each in waits]
            gathered.progress = redactor.value(gathered.progress)
            if end is not None:
                error = None if end.error is None else redactor.text(end.error)
                reply = end.reply and replace(end.reply, content=redactor.text(end.reply.content))
                end = replace(end, answer=redactor.text(end.answer), error=error, reply=reply)
        gone = set(closed)
        run_id = None if self.policy.keeps_everything else self.run_id
        return stored.Entry(
            run_id=self.run_id,
            seq=self.seq,
            claim=self._tree.claim,
            kind=entry.kind,
            step=step,
            body=body,
            content=content,
            messages=stored_messages(self.policy, gathered.messages, self._count, gathered.progress)
            if gathered.messages
            else (),
            texts=[
                StoredText(id=key, body=text, run_id=run_id, of_conversation=key in gathered.of_conversation)
                for key, text in gathered.texts.items()
            ],
            contents=gathered.contents,
            usage=tuple(gathered.usage),
            operations=[operation for operation in changed if operation.key not in gone],
            closed=closed,
            waits=waits,
            reserve=reserve,
            settle=tuple(gathered.settle),
            end=end,
            read=read,
        )

    def end_of(self, status: EndStatus, answer: str, error: str | None) -> RunEnd:
        """Return the run's end as the policy leaves it."""
        return stored_end(self.policy, RunEnd(status=status, answer=answer, error=error, ended=time.time()))
