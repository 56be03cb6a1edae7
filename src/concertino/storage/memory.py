"""A store that lives as long as its process: for tests, and for products that keep nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..errors import StorageError
from ..usage import UsageRecord
from .codec import decode_progress, encode_message, encode_progress, memory_id, storable
from .port import Batch, Memory, RunEnd, RunStart, StoredMessage, StoredRun
from .recall import query_words, words


@dataclass(slots=True)
class _Run:
    start: RunStart
    end: RunEnd | None = None
    messages: list[StoredMessage] = field(default_factory=list)


@dataclass(slots=True)
class _Kept:
    number: int
    memory: Memory
    words: frozenset[str]


class MemoryStore:
    """`Store` and `Memories` without a file. It takes and refuses what `SqliteStore` takes and refuses."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._usage: dict[str, list[UsageRecord]] = {}
        """By root."""
        self._booked: set[str] = set()
        self._memories: dict[str, dict[str, _Kept]] = {}

    async def begin(self, start: RunStart) -> None:
        """Note that a run has begun. Beginning the same run again changes nothing."""
        self._runs.setdefault(start.run_id, _Run(replace(start, task=storable(start.task))))

    async def append(self, batch: Batch) -> None:
        """Add to the end of a run, all or nothing.

        StorageError: the run, or that of a usage record, was never begun; something cannot be stored; or the
        run has ended and the batch is more than usage. An attempt that is billed late may still be booked.
        """
        run = self._begun(batch.run_id)
        if run.end is not None and (batch.messages or batch.end is not None):
            raise StorageError(f"run {batch.run_id!r} has ended: only usage may still be added to it")
        # All that can fail comes first.
        messages = [_checked(stored) for stored in batch.messages]
        usage = [(self._begun(record.run_id).start.root_id, _clean(record)) for record in batch.usage]
        end = run.end if batch.end is None else _clean_end(batch.end)
        run.messages.extend(messages)
        for root_id, record in usage:
            if record.id not in self._booked:
                self._booked.add(record.id)
                self._usage.setdefault(root_id, []).append(record)
        run.end = end

    async def run(self, run_id: str) -> StoredRun | None:
        """One run; None if it was never begun."""
        run = self._runs.get(run_id)
        return None if run is None else StoredRun(start=run.start, end=run.end)

    async def runs(
        self, *, conversation_id: str | None = None, root_id: str | None = None, limit: int = 50
    ) -> Sequence[StoredRun]:
        """Runs, newest first; those of one conversation or of one tree, or of both, if asked."""
        found = [
            StoredRun(start=run.start, end=run.end)
            for run in reversed(self._runs.values())
            if conversation_id in (None, run.start.conversation_id) and root_id in (None, run.start.root_id)
        ]
        found.sort(key=lambda run: run.start.started, reverse=True)
        return tuple(found[: max(limit, 0)])

    async def messages(self, run_id: str) -> Sequence[StoredMessage]:
        """The messages of a run, in the order of their appending; none for a run that was never begun."""
        run = self._runs.get(run_id)
        return () if run is None else tuple(_own(stored) for stored in run.messages)

    async def usage(self, root_id: str) -> Sequence[UsageRecord]:
        """All usage records of a run and its sub-agents, in the order of their booking."""
        return tuple(self._usage.get(root_id, ()))

    async def remember(self, owner: str, text: str) -> Memory:
        """Keep *text* for *owner*; the same text again is the same memory, with its first time."""
        text = storable(text)
        mine = self._memories.setdefault(owner, {})
        key = memory_id(owner, text)
        if key not in mine:
            memory = Memory(id=key, text=text, created=time.time())
            mine[key] = _Kept(len(mine), memory, frozenset(words(text)))
        return replace(mine[key].memory, metadata={})

    async def recall(self, owner: str, query: str, limit: int = 5) -> Sequence[Memory]:
        """The memories of *owner* with most words of *query*, the newer first; without a word, the newest."""
        wanted = frozenset(query_words(storable(query)))
        mine = self._memories.get(owner, {}).values()
        found = [kept for kept in mine if not wanted or wanted & kept.words]
        found.sort(key=lambda kept: (len(wanted & kept.words), kept.number), reverse=True)
        return tuple(replace(kept.memory, metadata={}) for kept in found[: max(limit, 0)])

    async def close(self) -> None:
        """Nothing to release: what was kept can still be read."""

    def _begun(self, run_id: str) -> _Run:
        run = self._runs.get(run_id)
        if run is None:
            raise StorageError(f"run {run_id!r} was never begun: call begin() first")
        return run


def _checked(stored: StoredMessage) -> StoredMessage:
    """A copy of our own. Encoding refuses here what a database would refuse."""
    encode_message(stored.message)
    return _own(stored)


def _own(stored: StoredMessage) -> StoredMessage:
    """The same, sharing nothing that could change."""
    return replace(stored, progress=decode_progress(encode_progress(stored.progress)))


def _clean(record: UsageRecord) -> UsageRecord:
    return replace(record, how=storable(record.how))


def _clean_end(end: RunEnd) -> RunEnd:
    error = None if end.error is None else storable(end.error)
    return replace(end, answer=storable(end.answer), error=error)
