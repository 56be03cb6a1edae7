"""`evaluate`: an agent runs every case, and scorers judge the answers."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

from ..errors import ConfigurationError, RunError
from ..number_checks import check_whole
from ..orchestrator.agent import AgentConfig
from ..orchestrator.engine import ToolOrchestrator
from ..orchestrator.resources import Resources
from ..providers.base import Model
from ..tools.registry import ToolRegistry
from ..usage import total
from .eval_case import EvalCase
from .eval_report import EvalReport, TrialReport, sum_of_costs
from .scorers import Score, Scorer, Trial


async def evaluate(
    agent: AgentConfig[Any] | tuple[AgentConfig[Any], ToolRegistry | None],
    cases: Sequence[EvalCase],
    scorers: Sequence[Scorer],
    *,
    resources: Resources | None = None,
    model: Model | str | None = None,
    repeats: int = 1,
    concurrency: int = 8,
    seed: int = 0,
) -> EvalReport:
    """Run *agent* on each case *repeats* times, at most *concurrency* at once, and return the scores and the cost.

    An agent is given with its tools, or as a pair with a registry, as for a `Runtime`. *resources* are those of the
    runs; a *model* replaces those of the cases. **The tools run**: give stand-ins for tools that must not. *seed*
    determines the resamples of the intervals. A run that fails or waits for a person has a result, which the scorers
    see. Raises `ConfigurationError`, also for a scorer that raises.
    """
    check_whole("evaluate", "repeats", repeats)
    check_whole("evaluate", "concurrency", concurrency)
    check_whole("evaluate", "seed", seed, 0)
    names = [scorer.__name__ for scorer in scorers]
    if not cases or not names or len(set(names)) < len(names):
        raise ConfigurationError(f"evaluate: {len(cases)} cases, scorers {names}: give cases, and scorers by name")
    config, registry = agent if isinstance(agent, tuple) else (agent, None)
    turn = asyncio.Semaphore(concurrency)

    async def one(case: EvalCase, number: int) -> TrialReport:
        async with turn:
            chat = case.chat if model is None else dataclasses.replace(case.chat, model=model)
            try:
                result = await ToolOrchestrator(chat, config, registry, resources=resources).run()
            except RunError as error:
                result = error.result
            return await _scored(Trial(case=case, number=number, result=result), scorers)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(case, number)) for case in cases for number in range(1, repeats + 1)]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors.exceptions[0].__cause__
    trials = [task.result() for task in tasks]
    used = {f"{record.provider}:{record.model}": None for trial in trials for record in trial.usage}
    return EvalReport.of(config.name, tuple(used), names, trials, seed)


async def _scored(trial: Trial, scorers: Sequence[Scorer]) -> TrialReport:
    result, found = trial.result, {scorer.__name__: await _score(scorer, trial) for scorer in scorers}
    sums = total(result.usage)
    return TrialReport(
        case=trial.case.id,
        number=trial.number,
        run_id=result.run_id,
        status=result.status,
        answer=result.text,
        error=result.error,
        calls=tuple(trial.calls),
        scores=found,
        tokens=sums.tokens,
        cost=sums.cost,
        judge_cost=sum_of_costs([score.cost for score in found.values()]),
        usage=result.usage,
    )


async def _score(scorer: Scorer, trial: Trial) -> Score:
    try:
        found = scorer(trial)
        if inspect.isawaitable(found):
            found = await found
        return found if isinstance(found, Score) else Score(float(found))
    except Exception as error:
        where = f"scorer {scorer.__name__!r} failed on case {trial.case.id!r}"
        raise ConfigurationError(f"{where}: {type(error).__name__}: {error}") from error
