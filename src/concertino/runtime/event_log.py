"""The logs of events in one store: any number of readers, of any run, in any process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal

from ..errors import RunStateError, StorageError, UnknownRunError
from ..event_form import event_json
from ..events import RunEnded, RunResult
from ..orchestrator.journal.replay import replay
from ..orchestrator.lifecycle.result import replayed_result
from ..scope import OPERATOR, AnyScope
from ..storage.base import Store
from ..storage.types import EventPage
from ..waits import Wait
from .bus.base import Bell, events_of
from .conversation_watch import ConversationWatch
from .counts import RuntimeCounts
from .event_pieces import NumberedEvents, unpack, without_replaced
from .event_window import EventWindow
from .event_writer import EventWriter

POLL = 0.025
"""Seconds between two polls for the events of other processes, while a reader waits for them."""
RARE = 0.5
"""The same with a bell, which may lose a ring."""
GRACE = 1.0
"""Seconds to wait for the last event of a run that has ended. A process that died between the two never writes it."""
Until = Literal["ended", "suspended"]
_Position = tuple[int, bool, bool]
_QUEUED: _Position = (-1, False, False)


class _Listener:
    """A reader, and whether the bell has rung since it looked last."""

    __slots__ = ("rung",)

    def __init__(self) -> None:
        self.rung = False


class EventLog:
    """The logs of a store, for readers, and the writers of this process.

    A reader gets recent events of a run in this process from memory, and all others in pages from the store, so a slow
    or absent reader costs no memory.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.bell: Bell | None = None
        """Tells readers in other processes of new events."""
        self.conversations = ConversationWatch(store)
        """Wakes the readers of conversations."""
        self._writers: dict[str, EventWriter] = {}
        self.counts = RuntimeCounts(self._writers)
        self._window = EventWindow(store)
        self._finishing: set[asyncio.Task[None]] = set()
        self._waiting: dict[str, list[tuple[_Position, asyncio.Future[None]]]] = {}
        self._polling: asyncio.Task[None] | None = None
        self.closed = False
        """Whether readers get what is stored, and nothing more."""

    def open(self) -> None:
        """Let readers follow runs, also after `close`."""
        self.closed = self.conversations.closed = False

    def writer(self, root_id: str) -> EventWriter:
        """Return the writer of a tree that starts or is resumed in this process."""
        self.open()
        writer = EventWriter(self._store, root_id, self.counts, self._window, self.bell)
        self._writers[root_id] = writer
        self.wake(root_id)
        return writer

    def finish(self, writer: EventWriter) -> None:
        """Store what is left of a tree's events in the background."""
        task = asyncio.create_task(self._finish(writer))
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def close(self) -> None:
        """Store what is left, and end all readers."""
        if self._finishing:
            await asyncio.wait(self._finishing)
        self.closed = True
        for root_id in list(self._waiting):
            self.wake(root_id)
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])
        await self.conversations.close()

    async def read(
        self, scope: AnyScope, root_id: str, after: int = 0, until: Until = "ended"
    ) -> AsyncGenerator[NumberedEvents, None]:
        """Yield the events after number *after*, several at once, then follow the run, unless the log is closed.

        Raises `UnknownRunError`, `RunStateError` for a sub-agent's run, and `StorageError`.
        """
        stays = not self.closed
        follows = False  # a reader that has caught up gets every piece
        with self._listener(root_id) as listener:
            while not (stays and self.closed):
                listener.rung = False
                page = await self._page(scope, root_id, after)
                found = unpack(page, after)
                if shown := _shown(found if follows else without_replaced(found), until):
                    yield shown
                after = found[-1][0] if found else max(after, page.last)
                if after < page.last:
                    continue
                if page.closed or not stays or (until == "suspended" and await self._is_suspended(scope, root_id)):
                    return
                follows, position = True, (page.last, page.closed, page.ended)
                del page, found, shown  # thousands of readers may wait here
                writer = self._writers.get(root_id)
                if writer is not None and not writer.done:
                    while recent := await _next(writer, after):
                        if shown := _shown(recent, until):
                            yield shown
                        after = recent[-1][0]
                elif listener.rung:
                    continue
                elif not await self._changed(root_id, position) and position[-1]:
                    await self._end(scope, root_id)

    async def left_queue(self, run_id: str) -> bool:
        """Wait until a turn is not queued any more, or may not be: look again. Return False if the log is closed."""
        if not self.closed:
            with self._listener(run_id) as listener:
                found = await self._store.event_positions(OPERATOR, [run_id])
                queued = [(run_id, *_QUEUED)] == [tuple(each) for each in found]
                if queued and not listener.rung:  # a bell that rang before is not heard
                    await self._changed(run_id, _QUEUED)
        return not self.closed

    def wake(self, root_id: str) -> None:
        """Let those who wait for a change of this log look again."""
        for _, waiter in self._waiting.pop(root_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def read_here(self, writer: EventWriter, after: int) -> AsyncGenerator[NumberedEvents, None]:
        """Yield the events after number *after*, several at once, until *writer* ends."""
        follows = False
        while True:
            found = writer.newer(after)
            if found is None:
                found = unpack(await self._store.events(writer.scope, writer.root_id, after), after)
            if shown := found if follows else without_replaced(found):
                yield shown
            if found:
                after = found[-1][0]
            elif writer.done:
                return
            else:
                follows = True
                if after < writer.stored:
                    after = writer.stored  # the rest is erased or replaced
                else:
                    await writer.changed()

    async def _page(self, scope: AnyScope, root_id: str, after: int) -> EventPage:
        try:
            return await self._store.events(scope, root_id, after)
        except UnknownRunError:
            run = await self._store.run(scope, root_id)
            if run is None:
                raise
            why = f"run {root_id} is a sub-agent's: its events are in the log of its root, {run.start.root_id}"
            raise RunStateError(why) from None

    async def _finish(self, writer: EventWriter) -> None:
        await writer.finish()
        if self._writers.get(writer.root_id) is writer:
            del self._writers[writer.root_id]

    @contextmanager
    def _listener(self, root_id: str) -> Iterator[_Listener]:
        """Listen to the bell that tells of new events, in a `with` block."""
        listener = _Listener()
        if self.bell is None:
            yield listener
            return

        def call() -> None:
            listener.rung = True
            self.wake(root_id)

        end = self.bell.listen(events_of(root_id), call)
        try:
            yield listener
        finally:
            end()

    # -- other processes -----------------------------------------------------------------------------------------

    async def _is_suspended(self, scope: AnyScope, root_id: str) -> bool:
        stored = await self._store.run(scope, root_id)
        if stored is None or stored.state != "suspended" or root_id in self._writers:
            return False
        waits = await self._store.waits(scope, root_id=root_id)
        if not waits and stored.ready_at is not None:
            return False  # it has its answers, and is about to continue
        return not _targets_only(waits)

    async def _changed(self, root_id: str, position: _Position) -> bool:
        """Wait until a log is not at *position* any more. Return False if it stays there after the end of its run."""
        if self.closed:  # after the last wake-up
            return True
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(root_id, []).append((position, waiter))
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout(GRACE if position[2] else None):
                await waiter
        except TimeoutError:
            return False
        finally:
            waiter.cancel()
        return True

    async def _poll(self) -> None:
        """Look for changes while someone waits for one."""
        while True:
            await asyncio.sleep(RARE if self.bell is not None and self.bell.reaches_others else POLL)
            self._waiting = {
                root_id: left
                for root_id, waiting in self._waiting.items()
                if (left := [each for each in waiting if not each[1].done()])
            }
            if not self._waiting:
                return
            try:
                found = await self._store.event_positions(OPERATOR, list(self._waiting))
            except StorageError as error:
                for waiting in self._waiting.values():
                    for _, waiter in waiting:
                        if not waiter.done():
                            waiter.set_exception(error)
                return
            positions = {root_id: tuple(position) for root_id, *position in found}
            for root_id, waiting in self._waiting.items():
                for known, waiter in waiting:
                    if known != positions.get(root_id) and not waiter.done():
                        waiter.set_result(None)

    async def _end(self, scope: AnyScope, root_id: str) -> None:
        """Close the log of a run that ended without a process, or whose process died before its last event."""
        journal = await self._store.load(scope, root_id)
        assert journal is not None
        run, usage = journal.run, await self._store.usage(scope, root_id)
        assert run.end is not None
        result = RunResult(
            run_id=root_id,
            agent_path=run.start.agent_path,
            status=run.end.status,
            text=run.end.answer,
            content_index=0,
            steps=0,
            tool_calls={},
            usage=tuple(usage),
            data={},
            messages=(),
            error=run.end.error,
        )
        if run.start.erase_after is None:
            with suppress(StorageError):
                result = await replayed_result(replay(journal), list(usage))
        ended = RunEnded(root_id, result.agent_path, result.content_index, result)
        await self._store.end_events(scope, root_id, [[0, event_json(ended)]])


def _shown(events: NumberedEvents, until: Until) -> NumberedEvents:
    """Return what a reader sees: until a suspension, not that the run waits for targets."""
    if until == "ended":
        return events
    return [each for each in events if not (isinstance(each[1], RunEnded) and _waits_for_targets(each[1]))]


def _waits_for_targets(event: RunEnded) -> bool:
    return event.result.status == "suspended" and _targets_only(event.result.waiting)


def _targets_only(waits: Sequence[Wait]) -> bool:
    """Return whether a run waits for targets of its fleet and nothing else: they answer without the reader."""
    return bool(waits) and all(wait.target for wait in waits)


async def _next(writer: EventWriter, after: int) -> NumberedEvents:
    """Return the next events of *writer* that are stored; none if they are not in memory, or it has ended."""
    while (found := writer.newer(after)) is not None and not found and not writer.done:
        await writer.changed()
    return found or ()
