"""`concertino eval`: an agent runs the cases of a data set, and its scores are compared with a baseline."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from ... import wiring
from ...errors import ConfigurationError
from ...evaluation import (
    SCORERS,
    Change,
    EvalCase,
    EvalReport,
    Judge,
    Scorer,
    evaluate,
    read_cases,
    sample,
    usual_scorers,
)
from ...evaluation import stored_cases as cases_of_runs
from ...orchestrator.agent import AgentConfig
from ...orchestrator.resources import Resources
from ...runtime import Runtime
from ...scope import OPERATOR, Scope
from ...storage.sql import SqlStore
from ...storage.sqlite import MemoryStore
from ...tools.registry import ToolRegistry
from ..command_context import CommandContext
from ..eval_options import EvalOptions
from ..render.console import table
from ..render.format import counted, money, one_line
from .runs_resume import open_agents

_SHOWN = 10
"""The number of cases below 1 that are printed."""
_FEW = 10


async def run_eval(given: EvalOptions, context: CommandContext) -> int:
    """Evaluate the agent and print its scores. Return 1 after a regression or a mean below the least one.

    Raises `ConfigurationError`.
    """
    baseline = None if given.baseline is None else EvalReport.read(given.baseline)
    async with open_agents(context) as runtime:
        agent, resources = await setup_of(runtime, given.agent, context, Scope())
        cases = await _cases(given, agent[0].name, context)
        if given.sample is not None:
            cases = sample(cases, given.sample, given.seed)
        model = context.options.model
        if model is None and context.options.app is None:
            model = wiring.model_from_environment()
        async with await _own_store(given.record) as store:
            report = await evaluate(
                agent,
                cases,
                _scorers(given, cases, resources),
                resources=dataclasses.replace(resources, store=store),
                model=model,
                repeats=given.repeats,
                concurrency=given.concurrency,
                seed=given.seed,
            )
    changes = {} if baseline is None else report.compared(baseline, given.max_drop)
    if given.save is not None:
        report.write(given.save)
    _print(report, changes, baseline, context)
    low = [name for name, one in report.summaries.items() if given.least is not None and (one.mean or 0) < given.least]
    for name in low:
        context.console.notice(f"{name} is below {given.least:g}")
    worse = [name for name, change in changes.items() if change.regressed]
    for name in worse:
        context.console.notice(f"{name} has regressed: {changes[name].before:.3f} -> {changes[name].after:.3f}")
    return int(bool(worse or low))


async def setup_of(
    runtime: Runtime, agent: str | None, context: CommandContext, scope: Scope
) -> tuple[tuple[AgentConfig[Any], ToolRegistry | None], Resources]:
    """Return `Runtime.setup` of an agent: by default the only one, or `main_thread` of the built-in ones.

    Raises `ConfigurationError`.
    """
    names = [config.name for config in runtime.agents]
    if agent is None and context.options.app is None:
        agent = "main_thread"
    if agent is None:
        if len(names) != 1:
            raise ConfigurationError(f"choose an agent of your Runtime: {', '.join(names) or 'it has none'}")
        agent = names[0]
    return await runtime.setup(scope, agent)


async def _own_store(path: str | None) -> SqlStore:
    """Open a store of the evaluation's own: its runs are not the product's."""
    return MemoryStore() if path is None else await wiring.open_store(Path(path))


async def _cases(given: EvalOptions, agent: str, context: CommandContext) -> list[EvalCase]:
    if (given.cases is None) is not (given.stored or given.conversation is not None):
        raise ConfigurationError("give a file of cases, or --stored or --conversation ID for runs of the database")
    if given.cases is not None:
        return read_cases(given.cases)
    found = await cases_of_runs(context.store, OPERATOR, conversation_id=given.conversation, agent=agent)
    if not found:
        raise ConfigurationError(f"the database has no completed run of {agent!r} with its content")
    return found


def _scorers(given: EvalOptions, cases: Sequence[EvalCase], resources: Resources) -> list[Scorer]:
    found = [_scorer(name) for name in given.score or ()]
    apart = dataclasses.replace(resources, store=None)  # grades are no runs of the product
    for number, criterion in enumerate(given.judge or (), 1):
        name = "judge" if number == len(given.judge or ()) == 1 else f"judge_{number}"
        found.append(Judge(criterion, given.judge_model, resources=apart, name=name))
    return found or usual_scorers(cases)


def _scorer(name: str) -> Scorer:
    if name in SCORERS:
        return SCORERS[name]
    module, _, attribute = name.partition(":")
    if not attribute:
        known = ", ".join(SCORERS)
        raise ConfigurationError(f"invalid --score {name!r}: choose from {known}, or name your own as MODULE:NAME")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"--score {name}: {error}") from error
    if not callable(found) or not hasattr(found, "__name__"):
        raise ConfigurationError(f"--score {name} is not a function of a Trial")
    return found  # type: ignore[no-any-return]  # its result is checked when it scores


def _print(
    report: EvalReport, changes: dict[str, Change], baseline: EvalReport | None, context: CommandContext
) -> None:
    console = context.console
    if console.as_json:
        compared = {name: dataclasses.asdict(change) for name, change in changes.items()}
        console.json({**report.as_json(), "changes": compared})
        return
    console.print(_table(report, changes))
    below = [trial for trial in report.trials if any((score.value or 0) < 1 for score in trial.scores.values())]
    if below:
        rows = [
            [
                trial.case,
                ", ".join(
                    f"{name} {'?' if score.value is None else f'{score.value:g}'}"
                    for name, score in trial.scores.items()
                ),
                trial.run_id,
                one_line(trial.error or trial.answer),
            ]
            for trial in below[:_SHOWN]
        ]
        console.print(Text(), table(("CASE", "SCORES", "RUN", "ANSWER"), rows, flexible=("SCORES", "ANSWER")))
        if len(below) > _SHOWN:
            console.notice(f"... and {len(below) - _SHOWN} more; --json or --save FILE has all")
    before = "" if baseline is None else f" (baseline: {money(baseline.cost)})"
    judges = "" if not report.judge_cost else f", judges {money(report.judge_cost)}"
    console.notice(
        f"{counted(len(report.trials), 'run')} of {', '.join(report.models)}: {money(report.cost)}{before}{judges}"
    )
    if any(summary.cases < _FEW for summary in report.summaries.values()):
        console.notice(f"fewer than {_FEW} cases: the intervals are wide, and a small regression stays unseen")


def _table(report: EvalReport, changes: dict[str, Change]) -> Table:
    heads, rows = ["SCORE", "MEAN", "95 %", "CASES", "UNSCORED"], []
    heads += ["BASELINE", "CHANGE", "95 %"] if changes else []
    for name, summary in report.summaries.items():
        span = summary.interval
        row = [
            name,
            "?" if summary.mean is None else f"{summary.mean:.3f}",
            "" if span is None else f"{span.low:.3f} to {span.high:.3f}",
            f"{summary.cases:,}",
            f"{summary.unscored:,}" if summary.unscored else "",
        ]
        if (change := changes.get(name)) is not None:
            span = change.interval
            mark = " regressed" if change.regressed else ""
            difference = f"{change.after - change.before:+.3f}"
            row += [f"{change.before:.3f}", difference, f"{span.low:+.3f} to {span.high:+.3f}{mark}"]
        rows.append(row + [""] * (len(heads) - len(row)))
    return table(heads, rows, right=("MEAN", "CASES", "UNSCORED", "BASELINE", "CHANGE"), flexible=("SCORE",))
