"""The writer of one tree's log of events: numbers them, and stores them in batches before any reader sees them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from ..errors import StaleClaimError, UnknownRunError
from ..events import AttemptFailed, RunEnded, RunEvent, TextDelta, ToolDone, ToolFailed, Voided
from ..orchestrator.journal.data_policy import NOTHING
from ..orchestrator.journal.event_policy import stored_event
from ..orchestrator.journal.lease import Tree
from ..records import record
from ..scope import Scope
from ..storage.base import Store
from ..storage.types import Claim, EventBatch, EventRow, StoredEvents
from .bus.base import Bell, events_of
from .counts import RuntimeCounts
from .event_pieces import PIECES, NumberedEvents, Packer, PieceForm, completes, source_of
from .event_tail import EventTail
from .event_window import EventWindow, WaitingBatch

log = logging.getLogger("concertino")

LINGER = 2.0
"""Seconds after which the pieces of a complete answer are removed, so that readers who follow it get the last ones."""
_HIGH_WATER = 1_000
_RETRY = 0.25
_TRIES = 4


@record(frozen=False)
class _Source:
    """An answer or a result that arrives in pieces."""

    id: int
    """The number of its first piece."""
    last: int
    attempt: str
    form: PieceForm
    stored: bool = False
    """Whether an earlier batch has pieces of it."""


class _Ended:
    """Sources and calls that end in a batch."""

    __slots__ = ("completed", "unkept", "withheld")

    def __init__(self) -> None:
        self.completed: list[int] = []
        """Sources of earlier batches."""
        self.unkept: list[int] = []
        """Sources whose pieces are not kept."""
        self.withheld: list[tuple[str, str]] = []
        """Runs and calls whose earlier results are not kept."""


class EventWriter:
    """Takes a tree's events from the engine (an `EventRecorder`), and shows them to readers once they are stored.

    If the store fails, the batches are tried again in their order; after a few failures the log of this process ends.
    """

    def __init__(
        self, store: Store, root_id: str, counts: RuntimeCounts, window: EventWindow, bell: Bell | None = None
    ) -> None:
        self.root_id = root_id
        self._counts, self._window, self._bell = counts, window, bell
        self._topic = "" if bell is None else events_of(root_id)
        self.last = 0
        """The number of the last event."""
        self.stored = 0
        """The number of the last event that is stored."""
        self.opened_at = 0
        """The number of the last event before this process had the run."""
        self.done = False
        """Whether this process writes nothing more."""
        self.ended = False
        """Whether the root's end was put."""
        self.left = False
        """Whether the root leaves this process without an end."""
        self.opened = asyncio.Event()
        """Set once the root is recorded, or could not be."""
        self.scope = Scope()
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._tree: Tree | None = None
        self._claim: Claim | None = None
        self._pending: list[RunEvent] = []
        self._timed = False
        """Whether the end of the window stores what is pending."""
        self._waits = False
        """Whether the next event waits for that, whatever it is."""
        self._tail = EventTail()
        self._sources: dict[tuple[str, str], _Source] = {}
        self._completed: deque[tuple[float, int]] = deque()
        self._entries: dict[str, int] = {}
        """The number of the next entry of each run's journal."""
        self._replaced: list[tuple[int, Sequence[Any]]] = []
        self._flying: deque[WaitingBatch] = deque()
        """Batches in the store's queue, in order."""
        self._answered: dict[int, BaseException | None] = {}
        """What the store has answered, by the first number of a batch: an earlier one may wait for those of others."""
        self._failed: list[WaitingBatch] = []
        self._failures = 0
        self._refused = False
        self._waiting: list[asyncio.Future[None]] = []

    # -- from the engine -----------------------------------------------------------------------------------------

    def put(self, event: RunEvent) -> bool:
        """See `EventRecorder.put`."""
        if type(event) is RunEnded and event.run_id == self.root_id:
            if self.left:
                return False
            self.ended = True
        self._pending.append(event)
        if not self._waits:
            if not self._timed:
                self._timed = True
                self._window.add(self._taken, self._loop, piece=type(event) in PIECES and bool(self._sources))
            if type(event) is TextDelta:
                self._waits = True
                if (event.run_id, event.attempt) not in self._sources:
                    self.flush()  # the first piece of an answer is stored at once, the next ones together
        return len(self._pending) + self.last - self.stored > _HIGH_WATER and not self._refused

    async def drained(self) -> None:
        """See `EventRecorder.drained`."""
        self.flush()
        while len(self._pending) + self.last - self.stored > _HIGH_WATER and not self._refused:
            await self.changed()

    def open(self, tree: Tree, scope: Scope) -> None:
        """See `EventRecorder.open`."""
        self._tree, self.scope = tree, scope
        assert tree.claim is not None
        if tree.stored_events is not None:
            (last, rows), tree.stored_events = tree.stored_events, None
            self.last = self.stored = self.opened_at = last
            self._replaced, voided = _undone(rows)
            self._counts.voided_events += sum(event.last - event.first + 1 for event in voided)
            self._pending[:0] = voided
        self._claim = tree.claim
        tree.flush_events = self.flush
        self.opened.set()

    def flush(self, run_id: str = "", seq: int = 0) -> None:
        """See `EventRecorder.flush`."""
        timed, waits = self._timed, self._waits
        batch = self._taken()
        self._timed, self._waits = timed, waits  # the window goes on
        if batch is not None:
            self._window.store([batch])
        if run_id:
            self._entries[run_id] = seq + 1
            self._waits = False  # the first piece of the next answer may follow

    def leave(self) -> None:
        """See `EventRecorder.leave`."""
        self.left = True

    async def finish(self) -> None:
        """Store what is left, and end. Nothing may be put from now on."""
        self.flush()
        while (self._flying or self._failures or self._pending) and self._claim is not None and not self._refused:
            await self.changed()
            self.flush()
        self.done = True
        self._wake()

    # -- to readers ----------------------------------------------------------------------------------------------

    def newer(self, after: int) -> NumberedEvents | None:
        """Return the stored events after number *after*; None if they are not in memory any more."""
        return () if after >= self.stored else self._tail.newer(after)

    def changed(self) -> asyncio.Future[None]:
        """Return a future that is done when more events are stored, or the writer has ended."""
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    # -- batches -------------------------------------------------------------------------------------------------

    def _taken(self) -> WaitingBatch | None:
        """Return a batch of what is pending at the end of a window, which waits for the store from now on."""
        self._timed = self._waits = False
        if not self._pending or self._claim is None or self._refused or self._failures:
            return None
        pending, self._pending = self._pending, []
        batch = self._batch(self._claim, pending)
        self._flying.append(batch)
        return batch

    def _batch(self, claim: Claim, events: list[RunEvent]) -> WaitingBatch:
        """Return *events* with their numbers, and with the rows that the store keeps of them."""
        assert self._tree is not None
        policies, first = self._tree.policies, self.last + 1
        numbered: list[tuple[int, RunEvent]] = []
        packers: dict[tuple[str, int | None], Packer] = {}
        ended = _Ended()
        policy = NOTHING
        packer: Packer | None = None
        piece: _Source | None = None
        for event in events:
            self.last += 1
            numbered.append((self.last, event))
            kind, run_id = type(event), event.run_id
            if kind is TextDelta and piece is not None and packer is not None and policy.keeps_everything:
                # Most events take this path, which calls nothing: a piece of the same text as the event before it.
                same = (kind, event.index, run_id, event.attempt)  # type: ignore[union-attr]
                if same == packer.last:
                    packer.items.append([self.last - first, event.text])  # type: ignore[union-attr]
                    piece.last = self.last
                    continue
            packer = piece = None
            if kind in PIECES:
                piece = self._piece(event)
            elif kind is AttemptFailed:
                at = len(numbered)
                events[at:at] = self._void(event, ended)  # the next one
            elif kind is RunEnded or completes(event):
                self._complete(event, ended)
            policy = policies.get(run_id, NOTHING)
            shown = event if piece is not None and policy.keeps_everything else stored_event(policy, event)
            if shown is not None:
                key = (run_id, None if piece is None else piece.id)
                if (packer := packers.get(key)) is None:
                    packer = packers[key] = Packer(None if piece is None else piece.form)
                packer.add(self.last - first, shown)
        replaced, self._replaced = self._replaced, []
        done = [id for _, id in self._completed] if self._completed else ()
        stored = EventBatch(
            claim=claim,
            first=first,
            last=self.last,
            rows=[
                EventRow(
                    run_id=run_id,
                    entry=self._entries.get(run_id, 1),
                    source=source if source is None or source not in done else -source,
                    items=packed.items,
                    contents=packed.contents,
                )
                for (run_id, source), packed in packers.items()
                if source not in ended.unkept
            ],
            completed=ended.completed,
            dropped=[*self._dropped(), *ended.unkept],
            replaced=replaced,
            withheld=ended.withheld,
            ends=self.ended,
        )
        for open_source in self._sources.values():
            open_source.stored = True
        return WaitingBatch(numbered, stored, self._settle)

    def _piece(self, event: RunEvent) -> _Source:
        """Return the source of a piece."""
        key = source_of(event)
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = _Source(self.last, self.last, getattr(event, "attempt", ""), PieceForm())
        source.last = self.last
        return source

    def _void(self, event: RunEvent, ended: _Ended) -> list[RunEvent]:
        """Return the mark that voids the pieces of a failed attempt, if there are any."""
        source = self._sources.get(source_of(event))
        if source is None:
            return []
        self._end(source_of(event), ended)
        self._counts.voided_events += source.last - source.id + 1
        return [Voided(event.run_id, event.agent_path, event.index, source.id, source.last, source.attempt)]

    def _complete(self, event: RunEvent, ended: _Ended) -> None:
        if isinstance(event, RunEnded):
            for key in [key for key in self._sources if key[0] == event.run_id]:
                self._end(key, ended)
            return
        self._end(
            source_of(event), ended, kept=not isinstance(event, ToolDone) or (event.stored and event.summary is None)
        )
        if isinstance(event, ToolDone | ToolFailed) and event.replaces:
            ended.withheld.append(source_of(event))

    def _end(self, key: tuple[str, str], ended: _Ended, *, kept: bool = True) -> None:
        """Note that a source is complete. Its pieces are removed some time later, or at once if they are not *kept*."""
        source = self._sources.pop(key, None)
        if source is None:
            return
        if source.stored:
            ended.completed.append(source.id)
        if kept:
            self._completed.append((self._loop.time() + LINGER, source.id))
        else:
            ended.unkept.append(source.id)

    def _dropped(self) -> list[int]:
        dropped, now = [], self._loop.time()
        while self._completed and self._completed[0][0] <= now:
            dropped.append(self._completed.popleft()[1])
        return dropped

    # -- the store -----------------------------------------------------------------------------------------------

    def _settle(self, batch: WaitingBatch, error: BaseException | None) -> None:
        """Publish the batches that are stored, in their order, or try them again."""
        self._answered[batch.stored.first] = error
        while self._flying and self._flying[0].stored.first in self._answered:
            batch = self._flying.popleft()
            error = self._answered.pop(batch.stored.first)
            if self._refused:
                continue
            if error is None:
                self._tail.append(batch.numbered)
                if batch.stored.withheld:
                    self._tail.clear()  # readers that come later read the store
                self.stored = batch.stored.last
                if self._failures:
                    self._failures = 1 if self._flying else 0  # a new batch comes after what is tried again
                    self.flush()  # what came meanwhile: its window has ended
                if self._bell is not None:
                    self._bell.ring(self._topic)
            elif isinstance(error, StaleClaimError | UnknownRunError):
                self._failed.append(batch)
                self._end_log()  # another process continues the log
            else:
                self._failed.append(batch)
                self._failures = max(self._failures, 1)
            if self._failed and not self._flying and not self._refused:
                if self._failures >= _TRIES:
                    log.warning("run %s: its events could not be stored: %s", self.root_id, type(error).__name__)
                    self._end_log()
                else:
                    self._loop.call_later(_RETRY, self._retry)
        self._wake()

    def _retry(self) -> None:
        failed, self._failed = self._failed, []
        self._failures += 1
        self._flying.extend(failed)
        self._window.store(failed)

    def _end_log(self) -> None:
        self._refused = self.done = True
        waiting = [*self._failed, *self._flying]
        self._counts.lost_events += len(self._pending) + sum(len(batch.numbered) for batch in waiting)
        self._pending.clear()
        self._failed.clear()


def _undone(rows: Collection[StoredEvents]) -> tuple[list[tuple[int, Sequence[Any]]], list[Voided]]:
    """Return what remains of *rows*, whose work a crash undid, and the events that void the rest.

    The deltas of an attempt are void for themselves; anything else only from the last entry of its run's journal on.
    """
    replaced: list[tuple[int, Sequence[Any]]] = []
    voided: dict[tuple[str, str], Voided] = {}
    streamed: list[tuple[str, int]] = []
    for row in rows:
        kept = []
        form: dict[str, Any] = {}
        for offset, item in row.items:
            form = form if isinstance(item, str) else item
            kind, number = form["type"], row.first + offset
            if kind in _STAYS:
                kept.append([offset, item])
            elif kind == "tool_streamed":
                streamed.append((row.run_id, number))
            else:
                key = (row.run_id, form["attempt"] if kind in _DELTAS else "")
                fields = (row.run_id, form["agent_path"], form["index"], number, number, key[1])
                mark = voided.setdefault(key, Voided(*fields))
                mark.first, mark.last = min(mark.first, number), max(mark.last, number)
        replaced.append((row.number, kept))
    for run_id, number in streamed:  # a call that runs again starts with `ToolStarted`, which replaces them too
        whole = voided.get((run_id, ""))
        if whole is not None and number > whole.first:
            whole.last = max(whole.last, number)
    for (run_id, attempt), mark in list(voided.items()):
        whole = voided.get((run_id, ""))
        if attempt and whole is not None and mark.first > whole.first:
            whole.last = max(whole.last, mark.last)
            del voided[run_id, attempt]
    return replaced, list(voided.values())


_STAYS = ("run_started", "run_ended", "voided")
"""Events that stay valid after a crash."""
_DELTAS = ("text_delta", "reasoning_delta", "tool_call_delta")
