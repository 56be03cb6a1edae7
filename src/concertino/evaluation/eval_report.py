"""The report of an evaluation: its file, and the comparison with an earlier one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from ..records import record
from ..usage import Tokens, UsageRecord
from .intervals import Interval, bootstrap, interval, mean
from .scorers import Score

FORMAT = 1


@record(kw_only=True)
class TrialReport:
    """A run of a case with its scores."""

    case: str
    number: int
    run_id: str
    status: str
    answer: str
    error: str | None
    calls: tuple[str, ...]
    """The tools that the agent called, in order."""
    scores: Mapping[str, Score]
    tokens: Tokens
    """With those of its sub-agents, without those of judges."""
    cost: Decimal | None
    """US dollars; None if unknown."""
    judge_cost: Decimal | None
    usage: Sequence[UsageRecord] = field(default=(), repr=False)
    """The ledger of the run; a report that was read from a file has none."""


@record(kw_only=True)
class ScoreSummary:
    """A score over all cases."""

    mean: float | None
    """None if no trial has this score."""
    interval: Interval | None
    """Of the mean, at 95 %: the cases are a sample of the users' questions."""
    cases: int
    unscored: int
    """Trials without a verdict, which the mean leaves out."""


@record(kw_only=True)
class Change:
    """The difference of one score from the baseline, over the cases that both have."""

    before: float
    after: float
    interval: Interval
    """Of `after - before`, at 95 %, from resamples of the differences of the cases."""
    cases: int
    regressed: bool


@record(kw_only=True)
class EvalReport:
    """The scores and the cost of an agent over a set of cases."""

    agent: str
    models: tuple[str, ...]
    """`provider:name` of each model that answered."""
    seed: int
    summaries: Mapping[str, ScoreSummary]
    cost: Decimal | None
    """US dollars of the runs; None if the price of any attempt is unknown."""
    judge_cost: Decimal | None
    trials: Sequence[TrialReport]

    @classmethod
    def of(
        cls, agent: str, models: Sequence[str], scores: Sequence[str], trials: Sequence[TrialReport], seed: int
    ) -> EvalReport:
        """Return the report of these trials."""
        return cls(
            agent=agent,
            models=tuple(models),
            seed=seed,
            summaries={name: _summary(name, trials, seed) for name in scores},
            cost=sum_of_costs([trial.cost for trial in trials]),
            judge_cost=sum_of_costs([trial.judge_cost for trial in trials]),
            trials=tuple(trials),
        )

    def compared(self, baseline: EvalReport, max_drop: float | None = None) -> dict[str, Change]:
        """Return the change of each score that both reports have.

        A score has regressed if its mean is lower and the interval of the difference excludes zero. With *max_drop*, it
        has regressed if its mean is lower by more than that. Raises `ConfigurationError` if no case or no score is in
        both reports.
        """
        changes: dict[str, Change] = {}
        for name in self.summaries:
            before, after = _by_case(name, baseline.trials), _by_case(name, self.trials)
            pairs = [(before[case], value) for case, value in after.items() if case in before]
            if not pairs:
                continue
            differences = [new - old for old, new in pairs]
            drop, span = -mean(differences), bootstrap(differences, self.seed)
            changes[name] = Change(
                before=mean([old for old, _ in pairs]),
                after=mean([new for _, new in pairs]),
                interval=span,
                cases=len(pairs),
                regressed=span.high < 0 if max_drop is None else drop > max_drop + 1e-9,
            )
        if not changes:
            raise ConfigurationError("the baseline has no case and no score of this evaluation: write a new one")
        return changes

    def write(self, path: str | Path) -> None:
        """Write the report, with the answers, as JSON. Raises `ConfigurationError`."""
        try:
            Path(path).write_text(json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")
        except OSError as error:
            raise ConfigurationError(f"the report cannot be written to {path}: {error.strerror}") from error

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values; costs are exact decimals in strings."""
        return {
            "format": FORMAT,
            "agent": self.agent,
            "models": list(self.models),
            "seed": self.seed,
            "scores": {name: asdict(summary) for name, summary in self.summaries.items()},
            "cost": _exact(self.cost),
            "judge_cost": _exact(self.judge_cost),
            "trials": [_trial_json(trial) for trial in self.trials],
        }

    @classmethod
    def read(cls, path: str | Path) -> EvalReport:
        """Read a report that `write` wrote. Raises `ConfigurationError`."""
        try:
            found = json.loads(Path(path).read_text("utf-8"))
            if found["format"] != FORMAT:
                raise ConfigurationError(f"{path} has the format {found['format']!r}; this version reads {FORMAT}")
            trials = [_trial(row) for row in found["trials"]]
            return cls.of(found["agent"], found["models"], list(found["scores"]), trials, found["seed"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise ConfigurationError(f"{path} is not a report ({type(error).__name__}: {error})") from error


def _summary(name: str, trials: Sequence[TrialReport], seed: int) -> ScoreSummary:
    values = list(_by_case(name, trials).values())
    return ScoreSummary(
        mean=mean(values) if values else None,
        interval=interval(values, seed) if values else None,
        cases=len(values),
        unscored=sum(trial.scores[name].value is None for trial in trials if name in trial.scores),
    )


def _by_case(name: str, trials: Sequence[TrialReport]) -> dict[str, float]:
    """Return the mean score of each case. The trials of one case are not independent, so it counts once."""
    values: dict[str, list[float]] = {}
    for trial in trials:
        score = trial.scores.get(name)
        if score is not None and score.value is not None:
            values.setdefault(trial.case, []).append(score.value)
    return {case: mean(scores) for case, scores in values.items()}


def _trial_json(trial: TrialReport) -> dict[str, Any]:
    scores = {name: [score.value, score.reason, _exact(score.cost)] for name, score in trial.scores.items()}
    return {
        "case": trial.case,
        "number": trial.number,
        "run_id": trial.run_id,
        "status": trial.status,
        "answer": trial.answer,
        "error": trial.error,
        "calls": list(trial.calls),
        "scores": scores,
        "tokens": asdict(trial.tokens),
        "cost": _exact(trial.cost),
        "judge_cost": _exact(trial.judge_cost),
    }


def _trial(row: dict[str, Any]) -> TrialReport:
    scores = {name: Score(value, reason, cost=_money(cost)) for name, (value, reason, cost) in row["scores"].items()}
    money = {name: _money(row[name]) for name in ("cost", "judge_cost")}
    return TrialReport(
        **{**row, **money, "scores": scores, "tokens": Tokens(**row["tokens"]), "calls": tuple(row["calls"])}
    )


def sum_of_costs(costs: Sequence[Decimal | None]) -> Decimal | None:
    """Return the sum of *costs*; None if one of them is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(costs) else None


def _exact(cost: Decimal | None) -> str | None:
    return None if cost is None else str(cost)


def _money(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
