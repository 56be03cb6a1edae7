"""Running: one run, watched to its end, printed, and put into a status."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from ..events import RunEnded, RunResult
from ..orchestrator.engine import ToolOrchestrator
from .means import Means
from .outcome import Outcome
from .screen import View
from .sources import Sources


async def watch(orchestrator: ToolOrchestrator, means: Means, view: View, sources: Sources) -> RunResult:
    """Show the run while it lasts; the first signal cancels it, and what there is of it is the result."""
    async with view:
        try:
            with means.stop.cancels():
                async with aclosing(orchestrator.stream()) as events:
                    async for event in events:
                        sources.see(event)
                        view.see(event)
        except asyncio.CancelledError:
            # Without a result it was stopped before it had begun, and there is nothing to show.
            if orchestrator.result is None or not means.stop.taken():
                raise
            result = orchestrator.result
            view.see(RunEnded(result.run_id, result.agent_path, result.content_index, result))
    assert orchestrator.result is not None
    return orchestrator.result


def hand_out(outcome: Outcome, means: Means) -> int:
    """Print the answer, and where the run is kept, also if the answer cannot be printed (`OutputError`).

    The status: 0, 1 for a failed run, 128 + n for a stopped one.
    """
    line, status = _ending(outcome.result, means)
    screen = means.screen
    try:
        if screen.as_json:
            screen.object(outcome.as_object())
        elif outcome.report.strip():
            screen.answer(outcome.report)
    finally:
        screen.notice(line)
    return status


def _ending(result: RunResult, means: Means) -> tuple[str, int]:
    place = f"{means.database} (run {result.run_id})"
    match result.status:
        case "completed":
            return f"stored in {means.database} as {result.run_id}", 0
        case "failed":
            return f"concertino: the run failed: {result.error}; what was gathered is in {place}", 1
        case "cancelled":
            return f"stopped; what was gathered is in {place}", means.stop.status
