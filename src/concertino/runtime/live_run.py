"""A run in progress in this process, independent of its readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from ..errors import RunStateError
from ..events import RunEnded, RunEvent, RunResult
from ..orchestrator.engine import ToolOrchestrator
from ..waits import Wait
from .event_log import EventLog
from .event_pieces import one_by_one


class LiveRun:
    """A run in progress in this process. It continues whether or not its events are read."""

    def __init__(self, orchestrator: ToolOrchestrator, log: EventLog) -> None:
        self.id = orchestrator.run_id
        self.scope = orchestrator.chat.scope
        self._conversation_id = orchestrator.chat.conversation_id
        self._orchestrator = orchestrator
        self._log = log
        self._writer = log.writer(self.id)
        self.unseen = orchestrator.claimed is not None
        """Whether the watchdog has resumed the run, and no caller has it yet."""
        self._parked = False
        self._ended = asyncio.Event()
        self._error: BaseException | None = None
        self._task = asyncio.create_task(self._drive(), name=f"run {self.id}")

    def events(self, after: int = 0) -> AsyncGenerator[tuple[int, RunEvent], None]:
        """Yield the events after number *after* with their numbers, until the run ends, waits or leaves this process.

        *after* is the last number that the reader has seen. `Runtime.events` also follows the run into other processes.
        """
        return one_by_one(self._log.read_here(self._writer, after))

    async def result(self) -> RunResult:
        """Wait until the run has ended or is suspended, and return its result.

        Raises the error that kept it from starting.
        """
        await self._ended.wait()
        if self._orchestrator.result is None:
            raise self._error or RunStateError(f"run {self.id} was stopped before it had started")
        return self._orchestrator.result

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._orchestrator.agent

    @property
    def waiting(self) -> Sequence[Wait]:
        """The waits with which the run is suspended."""
        return () if self._orchestrator.result is None else self._orchestrator.result.waiting

    @property
    def done(self) -> bool:
        """True once the run has ended or is suspended."""
        return self._ended.is_set()

    async def started(self) -> None:
        """Wait until the run is recorded. Raises the error that kept it from starting."""
        await self._writer.opened.wait()
        error = self._error or self._orchestrator.refused
        if error is not None:
            raise error
        self._log.conversations.ring(self.scope, self._conversation_id)

    @property
    def resumed_after(self) -> int:
        """The number of the last event before this process resumed the run; 0 if it started it."""
        return self._writer.opened_at

    def on_end(self, call: Callable[[], None]) -> None:
        """Let *call* be called when this process has the run no more."""
        self._task.add_done_callback(lambda _: call())

    async def recorded(self) -> None:
        """Wait until all events of the run in this process are stored."""
        await asyncio.wait([self._task])
        while not self._writer.done:
            await self._writer.changed()

    async def stop(self, deadline: float) -> RunResult:
        """Stop the run and its sub-agents."""
        await self._writer.opened.wait()
        self._orchestrator.stop(deadline)
        return await self.result()

    def request_stop(self) -> None:
        """Stop the run without waiting for its end."""
        self._orchestrator.stop()

    @property
    def has_ended(self) -> bool:
        """Return whether the run has ended for good: it is neither suspended nor left to be resumed."""
        result = self._orchestrator.result
        return result is not None and not self._parked and result.status != "suspended"

    def abandon(self) -> None:
        """Cancel a run that could not start."""
        self._task.cancel()

    async def park(self) -> None:
        """Leave the run to be resumed later."""
        await self._writer.opened.wait()  # before, it has no claim that could be released
        self._parked = True
        self._log.counts.parked_runs += 1
        self._orchestrator.park()
        await asyncio.wait([self._task])

    async def _drive(self) -> None:
        writer = self._writer
        try:
            await self._orchestrator.record(writer)
        except asyncio.CancelledError:
            pass  # stopped or parked: the result tells which
        except Exception as error:  # noqa: BLE001 - `result` raises it
            self._error = error
        finally:
            result = self._orchestrator.result
            if result is not None and not (writer.ended or writer.left or self._parked):
                writer.put(RunEnded(result.run_id, result.agent_path, result.content_index, result))
            writer.opened.set()
            self._ended.set()
            self._log.conversations.ring(self.scope, self._conversation_id)
            self._log.finish(writer)


async def park_all(runs: Sequence[LiveRun], grace: float) -> None:
    """Park those of *runs* that neither end nor wait within *grace* seconds."""
    if grace and runs:
        ends = [asyncio.create_task(run.recorded()) for run in runs]
        await asyncio.wait(ends, timeout=grace)
        for end in ends:
            end.cancel()
    await asyncio.gather(*(run.park() for run in runs if not run.done))
