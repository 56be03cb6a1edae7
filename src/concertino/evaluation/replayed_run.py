"""`replay_run`: a stored run, again, through changed code or prompts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

from ..errors import RunError, RunStateError
from ..events import RunResult
from ..messages import AssistantMessage, Message
from ..orchestrator.agent import AgentConfig
from ..orchestrator.engine import ToolOrchestrator
from ..orchestrator.hooks import without_approvals
from ..orchestrator.model_call.retry import Retry
from ..orchestrator.resources import HasLimits, Limits, Resources
from ..providers.base import Model
from ..records import record
from ..scope import Scope
from ..storage.types import StoredJournal
from ..tools.registry import ToolRegistry
from ..usage import Tokens, UsageRecord, total
from .recorded_model import Divergence, Playback, RecordedModel
from .recorded_run import RecordedRun
from .recorded_tools import RecordedTools, ToolResults

_ONCE = Retry(attempts=1)


@record(kw_only=True)
class RunFigures:
    """The outcome of a run, without its sub-agents."""

    status: str
    answer: str
    calls: tuple[str, ...]
    """The names of the tools that the agent called, in order."""
    tokens: Tokens
    cost: Decimal | None
    """US dollars; None if the price of any attempt is unknown."""
    estimated: bool = False
    """Whether a changed request was counted, not measured."""


@record(kw_only=True)
class ReplayReport:
    """A run and its replay."""

    run_id: str
    agent: str
    state: Literal["equal", "changed", "skipped"]
    """`equal`: every request, the answer and the status are the same. `skipped`: the run cannot be replayed."""
    reason: str = ""
    """Why it was skipped."""
    divergence: Divergence | None = None
    before: RunFigures | None = None
    after: RunFigures | None = None
    unrecorded: tuple[str, ...] = ()
    """The tools of calls without a recorded result: the model read an error instead."""


async def replay_run(
    journal: StoredJournal,
    agent: AgentConfig[Any] | tuple[AgentConfig[Any], ToolRegistry | None],
    *,
    resources: Resources | None = None,
    model: Model | None = None,
) -> ReplayReport:
    """Run *agent* on what the run in *journal* was given, with its recorded answers and results, and compare.

    No tool runs, and no model is asked up to the first divergence. From there on *model* answers; without it, the
    recorded answers continue in their order. The hooks run. A call without a recorded result fails.
    """
    start = journal.run.start
    try:
        run = RecordedRun(journal)
    except RunStateError as problem:
        return ReplayReport(run_id=start.run_id, agent=start.agent, state="skipped", reason=str(problem))
    config, registry = agent if isinstance(agent, tuple) else (agent, None)
    results, resources = ToolResults(run), resources or Resources()
    playback = Playback(run, results, resources, model)
    result = await _run(run, config, registry, _resources(run, resources, playback), results)
    before = _figures(run.journal.run.end.status, run.state.state.text, run.state.added, run.usage)  # type: ignore[union-attr]
    usage = playback.usage if playback.divergence is not None or playback.position < len(run.exchanges) else run.usage
    after = _figures(result.status, result.text, result.messages, usage)
    _compare(playback, before, after, results)
    return ReplayReport(
        run_id=start.run_id,
        agent=config.name,
        state="equal" if playback.divergence is None else "changed",
        divergence=playback.divergence,
        before=before,
        after=after,
        unrecorded=tuple(results.missing),
    )


async def _run(
    run: RecordedRun,
    config: AgentConfig[Any],
    registry: ToolRegistry | None,
    resources: Resources,
    results: ToolResults,
) -> RunResult:
    tools, start = RecordedTools.of(config, registry, results), run.journal.run.start
    engine = ToolOrchestrator(run.chat, without_approvals(config), tools, resources=resources, run_id=start.run_id)
    try:
        return await engine.run()
    except RunError as error:
        found: RunResult = error.result
        return found


def _resources(run: RecordedRun, given: Resources, playback: Playback) -> Resources:
    """Return the resources of the replay: recorded models, the recorded context window, and nothing to wait for."""
    recorded = run.state.started.limits
    window = {name: recorded.get(name, getattr(Limits(), name)) for name in ("context", "output")}

    def limits(scope: Scope, model: Model, agent: HasLimits) -> Limits:
        return dataclasses.replace(given.limits_of(scope, model, agent), **window)

    spec = run.state.started.model or ":"
    return dataclasses.replace(
        given,
        model=RecordedModel(spec, playback),
        models=lambda named: RecordedModel(named, playback),
        store=None,
        retry=_ONCE,
        fallback=(),
        rate_limits={},
        limits=limits,
    )


def _figures(status: str, answer: str, messages: Sequence[Message], usage: Sequence[UsageRecord]) -> RunFigures:
    sums = total(usage)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    return RunFigures(
        status=status,
        answer=answer,
        calls=tuple([call.name for message in answers for call in message.tool_calls]),
        tokens=sums.tokens,
        cost=sums.cost,
        estimated=any(one.how.startswith("the recorded count") for one in usage),
    )


def _compare(playback: Playback, before: RunFigures, after: RunFigures, results: ToolResults) -> None:
    """Note what differs although all requests were equal."""
    exchanges = playback.run.exchanges
    last = exchanges[-1].step if exchanges else 1
    if playback.position < len(exchanges):
        step = exchanges[playback.position].step
        playback.diverge(step, "requests", f"{len(exchanges)}", f"{playback.position}")
    for where, old, new in (
        ("status", before.status, after.status),
        ("answer", before.answer, after.answer),
        ("calls", ", ".join(before.calls), ", ".join(after.calls)),
    ):
        if old != new:
            playback.diverge(last, where, old, new)
    if results.missing:
        playback.diverge(last, "results", "", f"no recorded result: {', '.join(results.missing)}")
