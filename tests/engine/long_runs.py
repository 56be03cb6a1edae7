"""Long runs in a small window, and the counts of what resuming them reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Chat,
    Limits,
    Resources,
    Retention,
    RunContext,
    RunResult,
    ToolOrchestrator,
    ToolResult,
    tool,
)
from concertino.storage import Store
from concertino.testing import ScriptedModel, call
from concertino.waits import Resolution

CONTEXT = 6_000
"""Tokens of the window: about eight steps."""


@dataclass
class Reads:
    """Rows that a store has read, and their bytes."""

    rows: int = 0
    size: int = 0

    def add(self, values: Iterable[object]) -> None:
        """Count one row."""
        self.rows += 1
        self.size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in values)


@contextmanager
def counted_reads() -> Iterator[Reads]:
    """Count the rows that stores read which are opened meanwhile."""
    reads = Reads()
    session = import_module("concertino.storage.postgres.session")
    made_by_postgres = session.named_rows

    class Row(sqlite3.Row):
        def __init__(self, _cursor: Any, values: tuple[Any, ...]) -> None:
            reads.add(values)

    def named_rows(cursor: Any) -> Callable[[Any], Any]:
        make = made_by_postgres(cursor)

        def counted(values: Any) -> Any:
            reads.add(values)
            return make(values)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "Row", Row)
        patch.setattr(session, "named_rows", named_rows)
        yield reads


class Looking(AgentConfig[None]):
    """Looks things up, and pays after an approval."""

    name = "looking"
    prompt = "You look things up."
    tool_call_limit = 1_000_000

    def authorize_tool_call(self, run: RunContext[None], call: Any, arguments: Mapping[str, Any]) -> Any:
        return Ask() if call.name == "pay" else super().authorize_tool_call(run, call, dict(arguments))


@tool(effect="once")
async def pay() -> str:
    """Pay."""
    return "paid"


def resources(store: Store, **more: Any) -> Resources:
    """Return resources for long runs within the window, and *more* limits."""
    limits = Limits(context=CONTEXT, output=500, tool_calls=1_000_000, **more)
    retention = Retention(frees=400, price=1e9, floor=0)
    return Resources(store=store, limits=lambda scope, model, agent: limits, retention=retention)


@tool(effect="read")
async def look(n: int) -> ToolResult:
    """Look something up."""
    return ToolResult(f"A line of what was found, number {n:06}. " * 20, data={"n": n})


def model_of(steps: int, *last: Any) -> ScriptedModel:
    """Return a model that looks up *steps* things, and then makes the *last* steps."""
    return ScriptedModel(*(call("look", n=n) for n in range(steps)), *last, summaries=["in short"] * (steps + 9))


async def suspended(store: Store, steps: int, looking: Any = look, **more: Any) -> RunResult:
    """Return the result of a run that waits for an approval after *steps* steps."""
    agent, model = Looking(), model_of(steps, call("pay"))
    agent.tools = (looking, pay)
    result = await ToolOrchestrator(Chat("Go.", model=model), agent, resources=resources(store, **more)).run()
    assert result.status == "suspended"
    return result


async def approved(store: Store, result: RunResult) -> None:
    """Approve what the run waits for."""
    for wait in result.waiting:
        await store.resolve(OPERATOR, wait.key, Resolution(verdict="approved", by="ann"))


def resumed(
    store: Store, run_id: str, model: ScriptedModel, agent: AgentConfig[Any] | None = None, **more: Any
) -> ToolOrchestrator:
    """Return a run that continues."""
    agent = agent or Looking()
    agent.tools = agent.tools or (look, pay)
    chosen = resources(store, **more)
    return ToolOrchestrator(Chat("", model=model), agent, resources=chosen, resume=True, run_id=run_id)


async def most_read(
    store: Store, other: Store, reads: Reads, marks: tuple[int, ...], width: int = 100
) -> dict[int, tuple[int, int]]:
    """Return the most rows, and the most bytes, that resuming reads in any of the *width* steps before each mark.

    Snapshots and summaries come at different times, so the counts go up and down with both. The run is written by
    *store*, and read by *other*, whose *reads* are counted.
    """
    found = dict.fromkeys(marks, (0, 0))

    @tool(name="look", effect="read")
    async def watched(context: Any, n: int) -> ToolResult:
        """Look something up."""
        for mark in marks:
            if mark - width <= n < mark:
                reads.rows = reads.size = 0
                await read_to_resume(other, context.run_id)
                rows, size = found[mark]
                found[mark] = max(rows, reads.rows), max(size, reads.size)
        return ToolResult(f"A line of what was found, number {n:06}. " * 20, data={"n": n})

    await suspended(store, max(marks) + 1, watched, seconds=1e6)
    return found


async def read_to_resume(store: Store, run_id: str) -> None:
    """Read what resuming reads."""
    journal = await store.load(OPERATOR, run_id, from_snapshot=True)
    assert journal is not None
    await store.usage(OPERATOR, run_id, after=journal.snapshot or -1)
    await store.accounts(journal.run.start.scope, run_id=run_id)
    for wanted in ({"root_id": run_id}, {"run_id": run_id}):
        await store.operations(OPERATOR, **wanted)


def assert_flat(found: Mapping[int, tuple[int, int]]) -> None:
    """Assert that the counts are equal within five per cent."""
    first, *others = found.values()
    for other in others:
        assert all(abs(late - early) <= early // 20 for early, late in zip(first, other, strict=True)), found
