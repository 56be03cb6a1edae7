"""The part of a resumed run that its process has not read: messages out of view, earlier edits, and usage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ...storage.base import Store
from ...storage.types import StoredJournal
from ...unread_messages import UNREAD, UnreadPart, fill, has_unread
from ...usage import UsageRecord
from ..journal.replay import Replay, replay_up_to
from ..run import RunSession
from .repair import call_ids

_SHORT = 16
"""Characters of a call's id below which another call may have the same one: servers count, or choose few letters."""
_Whole = tuple[StoredJournal | None, Sequence[UsageRecord]]


class UnreadCallIds:
    """The ids of calls that were not read: as far as is known, all that are not long enough to be unique."""

    def __contains__(self, call_id: object) -> bool:
        return isinstance(call_id, str) and len(call_id) < _SHORT


class Unread:
    """Reads the rest of a run that was resumed from the snapshot in *found*, once something needs it."""

    def __init__(self, run: RunSession, found: Replay, store: Store) -> None:
        assert found.snapshot is not None
        self.part: UnreadPart | None = None
        """The part of the conversation that was not read; None if all of it was."""
        self._run, self._store, self._added, self._at = run, store, found.added, found.snapshot_at
        self._is_root = run.id == run.tree.root_id
        self._done = False
        if has_unread(found.added):
            omitted = found.snapshot.omitted
            self.part = UnreadPart(edits=found.snapshot_edits, omitted=omitted, read=self.read_now)
            run.earlier_calls = UnreadCallIds()
        if self._is_root:
            run.tree.ledger.leave_out(run.path, self.read_now)

    async def read(self) -> None:
        """Read the rest. Raises `ErasedError`, `StorageError`."""
        if not self._done:
            self._complete(*await self._whole())

    async def read_within(self, seconds: float) -> None:
        """Read the rest if that takes at most *seconds* and does not fail."""
        reading = asyncio.create_task(self.read())
        await asyncio.wait([reading], timeout=seconds)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    def read_now(self) -> None:
        """Read the rest while the event loop waits: a hook or a tool has asked for it. Raises as `read`."""
        if not self._done:
            with ThreadPoolExecutor(1) as threads:
                self._complete(*threads.submit(asyncio.run, self._whole()).result())

    def leave_out(self) -> None:
        """Do without the rest: the run has broken off, and the store cannot be asked now."""
        run, run.unread, self._done = self._run, None, True
        if self.part is not None:
            run.added[:] = [message for message in run.added if message is not UNREAD]
            run.skipped = None  # there is no context for another run without the earlier edits
        if self._is_root:
            run.tree.ledger.complete(())

    async def _whole(self) -> _Whole:
        run, store = self._run, self._store
        journal = await store.load(run.scope, run.id) if self.part is not None else None
        return journal, await store.usage(run.scope, run.id) if self._is_root else ()

    def _complete(self, journal: StoredJournal | None, usage: Sequence[UsageRecord]) -> None:
        if self._done:
            return  # meanwhile
        run = self._run
        if journal is not None:
            found = replay_up_to(journal, self._at)
            fill(self._added, found.added)
            run.window.complete_record(found.messages, found.view.edits)
            run.call_ids |= call_ids(found.messages)
            run.earlier_calls = ()
        if self._is_root:
            run.tree.ledger.complete(usage)
        self._done, run.unread = True, None
