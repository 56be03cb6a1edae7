"""`concertino replay`: stored runs, again, through the present code and prompts of their agents."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rich.text import Text

from ...errors import ConfigurationError
from ...evaluation import ReplayReport, RunFigures, replay_run
from ...orchestrator.resources import Resources
from ...providers.base import Model
from ...scope import OPERATOR
from ...storage.types import StoredRun
from ..command_context import CommandContext
from ..render.console import table
from ..render.format import counted, exact, money, one_line
from .run_state import find_run
from .runs_resume import open_agents

_SHOWN = 20
"""The number of changed runs that are printed."""


async def replay_runs(run_ids: Sequence[str], against: str | None, limit: int | None, context: CommandContext) -> int:
    """Replay the runs, or the newest *limit* ones, and print what differs. Return 1 if a run has changed.

    Raises `UnknownRunError`, and `ConfigurationError` if no run could be replayed.
    """
    if bool(run_ids) is (limit is not None):
        raise ConfigurationError("name the runs to replay, or the number of the newest ones with --newest N")
    reports: list[ReplayReport] = []
    async with open_agents(context) as runtime:
        runs = [await find_run(context, run_id) for run_id in run_ids]
        runs = runs or await _newest(context, against, limit or 0, [agent.name for agent in runtime.agents])
        for run in runs:
            agent, resources = await runtime.setup(run.start.scope, against or run.start.agent)
            journal = await context.store.load(OPERATOR, run.start.run_id)
            assert journal is not None
            model = _model(resources, context)
            reports.append(await replay_run(journal, agent, resources=resources, model=model))
            if context.console.as_json:
                context.console.json(_json(reports[-1]))
    states = Counter(report.state for report in reports)
    if not context.console.as_json:
        _print(reports, context)
    if len(reports) == states["skipped"]:
        raise ConfigurationError(f"no run could be replayed: {reports[0].reason if reports else 'nothing was found'}")
    return int(states["changed"] > 0)


async def _newest(context: CommandContext, against: str | None, limit: int, known: Sequence[str]) -> list[StoredRun]:
    """Return the newest runs that have ended, of the agent *against*, or of any that the runtime knows."""
    runs = await context.store.runs(OPERATOR, roots=True, limit=limit)
    wanted = known if against is None else [against]
    return [run for run in runs if run.end is not None and run.start.agent in wanted]


def _model(resources: Resources, context: CommandContext) -> Model | None:
    return None if context.options.model is None else resources.find_model(context.options.model)


def _print(reports: Sequence[ReplayReport], context: CommandContext) -> None:
    console, states = context.console, Counter(report.state for report in reports)
    changed = [report for report in reports if report.state == "changed"]
    if len(reports) == 1:
        for report in changed:
            _print_details(report, context)
    elif changed:
        rows = [_row(report) for report in changed[:_SHOWN]]
        heads = ("RUN", "STEP", "DIFFERS IN", "ANSWER", "CALLS", "COST")
        console.print(table(heads, rows, right=("STEP",), flexible=("DIFFERS IN",)))
        if len(changed) > _SHOWN:
            console.notice(f"... and {len(changed) - _SHOWN} more; --json prints all")
    for reason, count in Counter(report.reason for report in reports if report.state == "skipped").items():
        console.notice(f"skipped {counted(count, 'run')}: {reason}")
    console.print(Text(f"{states['equal']:,} equal, {states['changed']:,} changed, {states['skipped']:,} skipped"))
    pairs = [(report.before, report.after) for report in reports if report.before and report.after]
    answers = sum(before.answer != after.answer for before, after in pairs)
    calls = [sum(len(figures.calls) for figures in side) for side in zip(*pairs, strict=True)]
    if pairs:
        costs = " -> ".join(money(_sum([figures.cost for figures in side])) for side in zip(*pairs, strict=True))
        estimate = " (partly estimated)" if any(after.estimated for _, after in pairs) else ""
        console.print(
            Text(f"changed answers: {answers:,}; calls: {calls[0]:,} -> {calls[1]:,}; cost: {costs}{estimate}")
        )


def _print_details(report: ReplayReport, context: CommandContext) -> None:
    found, before, after = report.divergence, report.before, report.after
    assert found is not None
    assert before is not None
    assert after is not None
    lines = [
        f"step {found.step}: {found.where} differs",
        f"  recorded: {one_line(found.recorded)}",
        f"  replayed: {one_line(found.replayed)}",
    ]
    if before.answer != after.answer:
        lines += [f"answer before: {one_line(before.answer, 200)}", f"answer after:  {one_line(after.answer, 200)}"]
    if before.calls != after.calls:
        lines += [f"calls before: {', '.join(before.calls)}", f"calls after:  {', '.join(after.calls)}"]
    if report.unrecorded:
        lines.append(f"without a recorded result: {', '.join(report.unrecorded)}")
    context.console.print(*[Text(line) for line in lines])


def _row(report: ReplayReport) -> list[str]:
    found, before, after = report.divergence, report.before, report.after
    assert found is not None
    assert before is not None
    assert after is not None
    calls = f"{len(before.calls)} -> {len(after.calls)}" if before.calls != after.calls else "same"
    answer = "same" if before.answer == after.answer else "changed"
    return [report.run_id, str(found.step), found.where, answer, calls, f"{money(before.cost)} -> {money(after.cost)}"]


def _sum(costs: Sequence[Decimal | None]) -> Decimal | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(costs) else None


def _json(report: ReplayReport) -> dict[str, Any]:
    def figures(one: RunFigures | None) -> dict[str, Any] | None:
        return None if one is None else {**dataclasses.asdict(one), "cost": exact(one.cost)}

    return {**dataclasses.asdict(report), "before": figures(report.before), "after": figures(report.after)}
