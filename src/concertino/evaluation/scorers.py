"""Scorers: functions that score an answer by code."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Any

from ..errors import ConfigurationError
from ..events import RunResult
from ..messages import AssistantMessage
from ..records import record
from .eval_case import EvalCase


@record
class Score:
    """A scorer's verdict on one answer. Raises `ConfigurationError` for a value outside 0 to 1."""

    value: float | None
    """From 0 to 1; None if the scorer has no verdict, such as a judge that failed."""
    reason: str = ""
    cost: Decimal | None = field(default=Decimal(0), kw_only=True)
    """US dollars that the verdict cost; None if unknown."""

    def __post_init__(self) -> None:
        value = self.value
        if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
            raise ConfigurationError(f"Score(value={value!r:.80}): use a number from 0 to 1, or None")


@record(kw_only=True)
class Trial:
    """A run of the agent on a case."""

    case: EvalCase
    number: int
    """From 1 to `repeats`."""
    result: RunResult

    @property
    def calls(self) -> list[str]:
        """The names of the tools that the agent itself called, in order."""
        answers = [message for message in self.result.messages if isinstance(message, AssistantMessage)]
        return [call.name for message in answers for call in message.tool_calls]


Scorer = Callable[[Trial], Score | float | bool | Awaitable[Score | float | bool]]
"""Judges a trial. Its `__name__` names the score."""


def completed(trial: Trial) -> Score:
    """Score 1 if the run completed with an answer."""
    status = trial.result.status
    return Score(float(status == "completed" and bool(trial.result.text.strip())), f"the run is {status}")


def exact(trial: Trial) -> Score:
    """Score 1 if the answer is the expected text; differences of white space do not count."""
    return Score(float(_words(trial.result.text) == _words(str(trial.case.expected))))


def contains(trial: Trial) -> Score:
    """Score the share of the expected texts, one or a list, that the answer contains; case does not count."""
    expected, answer = trial.case.expected, _words(trial.result.text).casefold()
    wanted = [str(text) for text in (expected if isinstance(expected, list) else [expected])]
    missing = [text for text in wanted if _words(text).casefold() not in answer]
    return Score(1 - len(missing) / max(len(wanted), 1), f"missing: {', '.join(missing)}" if missing else "")


def same_json(trial: Trial) -> Score:
    """Score 1 if the answer is JSON that equals the expected value, or the JSON text of it."""
    try:
        return Score(float(json.loads(trial.result.text) == _value(trial.case.expected)))
    except (ValueError, RecursionError):
        return Score(0.0, "the answer is not JSON")


def calls(trial: Trial) -> Score:
    """Score 1 if the agent called the tools in the case's field `calls`, a list or a text with commas, in order."""
    wanted: Any = trial.case.data.get("calls", ())
    if isinstance(wanted, str):
        wanted = [name.strip() for name in wanted.split(",") if name.strip()]
    made = trial.calls
    return Score(float(made == list(wanted)), f"called: {', '.join(made) or 'nothing'}")


SCORERS: dict[str, Scorer] = {each.__name__: each for each in (completed, exact, contains, same_json, calls)}
"""The scorers that the command line knows by name."""


def usual_scorers(cases: Sequence[EvalCase]) -> list[Scorer]:
    """Return the scorers for cases that name none: `completed`, and `contains` if each case expects something."""
    return [completed, contains] if all(case.expected is not None for case in cases) else [completed]


def _words(text: str) -> str:
    return " ".join(text.split())


def _value(expected: Any) -> Any:
    return json.loads(expected) if isinstance(expected, str) else expected
