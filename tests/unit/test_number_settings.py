"""Every number that a product sets is refused, where it is set, if it is none, negative or outside its unit."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import concertino
from concertino import (
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    Retention,
    tool,
)
from concertino.agents import HumanStep, Loop, PlannedStep, ScriptedStep, Workflow
from concertino.errors import ConfigurationError
from concertino.runtime import LocalBell

MADE = {
    *("AgentFaultError", "CheckReport", "DocumentEntry", "FoldedConversation", "GoalState", "Hit", "JournalStep"),
    *("Logprob", "Miss", "ModelRequest", "Notification", "Pattern", "ProgressStep", "Receipt", "Reduce", "Replay"),
    *(
        "RunResult",
        "RunState",
        "StepVisit",
        "Strip",
        "Summarize",
        "SummaryJob",
        "TokenEngine",
        "Tokens",
        "UploadedFile",
    ),
    *("WorkerState", "WorkflowState", "check_agent", "notification_of", "replay", "serve"),
    *("Change", "Divergence", "EvalReport", "Grade", "Interval", "ScoreSummary", "Trial", "TrialReport"),
    *("bootstrap", "interval", "wilson"),
}
"""What the package makes and a product only reads, and functions that use their numbers at once."""
STATE = {"StuckDetection": {"unchanged"}}


class Helper(AgentConfig[None]):
    name = "helper"


@tool(effect="read")
async def look() -> str:
    """Look."""
    return ""


class Library:
    name, kind = "handbook", "documents"


def flow(step: Any = None, **settings: Any) -> Workflow:
    steps = [step or ScriptedStep(id="s", tool="look")]
    return Workflow(name="flow", steps=steps, variables={"names": []}, **settings)


def database(folder: Path) -> Path:
    sqlite3.connect(folder / "data.db").close()
    return folder / "data.db"


SCRIPTED = [ScriptedStep(id="s", tool="look")]
GIVEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "Budget": lambda _: {"money": None, "tokens": 1},
    "Cron": lambda _: {"expression": "0 9 * * *"},
    "Fleet": lambda _: {"bell": LocalBell(), "targets": {}},
    "KeepFor": lambda _: {"seconds": 1},
    "Score": lambda _: {"value": 1.0},
    "LimitedModel": lambda folder: {"file": folder / "requests", "requests": 1, "seconds": 1.0},
    "SharedRateLimit": lambda _: {"store": MemoryStore(), "key": "key"},
    "sample": lambda _: {"cases": (), "count": 1, "seed": 0},
    "Runtime": lambda _: {"agents": [Helper()], "resources": Resources(store=MemoryStore())},
    "ToolOrchestrator": lambda _: {"chat": Chat("x"), "config": Helper()},
    "delegate": lambda _: {"agent": Helper(), "description": "x"},
    "limits_within": lambda _: {"context": 1_000},
    "Approvals": lambda _: {"effects": ("once",)},
    "Documents": lambda _: {"library": Library()},
    "Scheduling": lambda _: {"runtime": lambda: None},
    "UserMemory": lambda _: {"memories": MemoryStore()},
    "GoalAgent": lambda _: {"name": "a", "goal": "x"},
    "FileFolder": lambda folder: {"path": folder},
    "SqliteTables": lambda folder: {"path": database(folder)},
    "Workflow": lambda _: {"name": "flow", "steps": SCRIPTED},
}
INSIDE: dict[str, Callable[..., Any]] = {
    "HumanStep": lambda **wrong: flow(HumanStep(id="h", question="q", **wrong)),
    "PlannedStep": lambda **wrong: flow(PlannedStep(id="p", prompt="x", tools=("look",), **wrong)),
    "Loop": lambda **wrong: flow(Loop(each="names", item="name", steps=SCRIPTED, **wrong)),
}
"""What a workflow checks when it is made of it."""


def public() -> Iterator[tuple[str, Any]]:
    """Yield each public class and function once."""
    packages = [f"concertino.{each.name}" for each in pkgutil.iter_modules(concertino.__path__) if each.ispkg]
    packages += [f"concertino.tools.{name}" for name in ("builtin", "documents", "sql", "web")]
    found: dict[int, tuple[str, Any]] = {}
    for package in ["concertino", *packages]:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            found.setdefault(id(getattr(module, name)), (name, getattr(module, name)))
    yield from found.values()


def numbers() -> Iterator[tuple[str, Any, str, str]]:
    """Yield name, callable, parameter and annotation of each number that a product sets."""
    stored = (
        "concertino.storage",
        "concertino.quotas",
    )  # rows, which a store makes; of them only `Budget` is a setting
    for name, made in public():
        if name in MADE or not callable(made) or inspect.iscoroutinefunction(made):
            continue
        if made.__module__.startswith(stored) and name != "Budget":
            continue
        try:
            signature = inspect.signature(made)
        except (TypeError, ValueError):
            continue
        for parameter in signature.parameters.values():
            kind = str(parameter.annotation).replace("'", "")
            if re.fullmatch(r"(?:int|float)(?: \| None)?", kind) and parameter.name not in STATE.get(name, ()):
                yield name, made, parameter.name, kind


CASES = list(numbers())


def test_the_numbers_are_found() -> None:
    assert {"Limits", "Retry", "RateLimit", "Runtime", "Notes", "SqliteTables"} <= {name for name, *_ in CASES}
    assert len(CASES) > 60


@pytest.mark.parametrize(("name", "made", "setting", "kind"), CASES, ids=[f"{name}.{at}" for name, _, at, _ in CASES])
def test_a_number_that_makes_no_sense_is_refused(name: str, made: Any, setting: str, kind: str, tmp_path: Path) -> None:
    given = GIVEN[name](tmp_path) if name in GIVEN else {}
    make: Callable[..., Any] = INSIDE.get(name) or (lambda **values: made(**{**given, **values}))
    make()  # what is given besides is right
    wrong = [-1, math.nan, True, "x", *([] if "None" in kind else [None]), *([] if "float" in kind else [1.5])]
    for value in wrong:
        with pytest.raises(ConfigurationError, match=f"(?i){setting}"):
            make(**{setting: value})


@pytest.mark.parametrize("setting", ["floor", "users", "frees"])
def test_a_size_is_a_share_or_a_whole_number_of_tokens(setting: str) -> None:
    make: Callable[..., Retention] = Retention
    for value in (1.5, 1.0, 20_000.5):
        with pytest.raises(ConfigurationError) as refused:
            make(**{setting: value})
        assert f"Retention({setting}={value!r}): use a share of the " in str(refused.value)
        assert "below 1, or a whole number of tokens" in str(refused.value)
    for value in (0, 0.0, 0.99, 1, 20_000):
        assert getattr(make(**{setting: value}), setting) == value
