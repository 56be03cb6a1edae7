"""Running: one run, watched to its end, printed, and put into a status."""

from __future__ import annotations

import asyncio

from ...errors import RunStateError
from ...events import RunEnded, RunResult
from ...orchestrator.journal.lease import STOP_DEADLINE
from ...runtime import LiveRun
from ...waits import Wait
from ..context import Desk
from ..render.console import View
from ..render.format import one_line, readable, waits_for
from ..render.result import Outcome, Sources
from ..signals import Stop

LEASE = 9.0
"""Seconds for which a run of this program is claimed. A third of it is how soon `runs stop` elsewhere is heard."""
SUSPENDED = 3
"""The exit status of a run that waits for answers."""


async def watch(run: LiveRun, stop: Stop, view: View, sources: Sources) -> RunResult:
    """Show the run while it lasts; the first signal stops it, and what there is of it is the result."""
    begun = False
    async with view:
        try:
            with stop.cancels():
                await run.begun()
                begun = True
                async for _, event in run.events():
                    sources.see(event)
                    view.see(event)
        except asyncio.CancelledError:
            if not stop.taken():
                raise
            result = await _stopped(run, begun)
            if result is None:  # before it had begun: there is nothing to show
                raise
            view.see(RunEnded(result.run_id, result.agent_path, result.content_index, result))
    return await run.result()


async def _stopped(run: LiveRun, begun: bool) -> RunResult | None:
    try:
        if begun:
            return await run.stop(STOP_DEADLINE)
        run.abandon()
        return await run.result()
    except RunStateError:
        return None


def hand_out(outcome: Outcome, desk: Desk) -> int:
    """Print the answer, and where the run is kept, also if the answer cannot be printed (`OutputError`).

    The status: 0, 1 for a failed run, 3 for one that waits, 128 + n for a stopped one.
    """
    line, status = _ending(outcome.result, desk)
    screen = desk.screen
    try:
        if screen.as_json:
            screen.object(outcome.as_object())
        elif outcome.report.strip():
            screen.answer(outcome.report)
    finally:
        for wait in outcome.result.waiting:
            say_wait(wait, desk)
        screen.notice(line)
    return status


def say_wait(wait: Wait, desk: Desk) -> None:
    """What a call waits for, and the commands that answer it."""
    about = f"{wait.tool} {readable(wait.arguments)}" + (f" ({wait.note})" if wait.note else "")
    desk.screen.notice(f"{wait.agent_path}: {waits_for(wait.kind)}: {one_line(about, 300)}")
    for command in desk.given.answering(wait):
        desk.screen.notice(f"  {command}")


def _ending(result: RunResult, desk: Desk) -> tuple[str, int]:
    place = f"{desk.database} (run {result.run_id})"
    match result.status:
        case "completed":
            return f"stored in {desk.database} as {result.run_id}", 0
        case "failed":
            return f"concertino: the run failed: {result.error}; what was gathered is in {place}", 1
        case "cancelled":
            if not desk.stop.signal:
                return f"stopped by somebody else; what was gathered is in {place}", 1
            return f"stopped; what was gathered is in {place}", desk.stop.status
        case "suspended":
            return f"suspended in {place}; when it has its answers: {desk.given.resuming(result.run_id)}", SUSPENDED
