"""Driving the tree of `scene` to each of its possible ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from concertino import OPERATOR, AgentConfig, DataPolicy, Operator, Resources, RunResult
from concertino.events import RunEvent
from concertino.runtime import Runtime

from .kit import Canaries, FullStore
from .scene import chat, family, scripted


@dataclass
class Play:
    """A runtime with one agent in it, and what became of its run."""

    canaries: Canaries
    policy: DataPolicy
    store: FullStore
    observe: Callable[[RunEvent], None]
    runs: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def runtime(self, agent: AgentConfig[Any], model: Any) -> AsyncIterator[Runtime]:
        """Create a runtime without a watchdog: the tests decide when a run is resumed."""
        runtime = Runtime([agent], Resources(store=self.store, models=lambda _: model), observers=[self.observe])
        try:
            yield runtime
        finally:
            await runtime.close()


async def suspended(play: Play, runtime: Runtime, model: Any, agent: AgentConfig[Any]) -> RunResult:
    """The tree, as far as it comes by itself: two calls wait for approval, and two of the grandchild for results."""
    run = await runtime.start(chat(play.canaries, model), agent)
    play.runs.append(run.id)
    result = await run.result()
    assert result.status == "suspended", result
    assert sorted((wait.tool, wait.kind) for wait in result.waiting) == [
        ("outside", "result"),
        ("outside", "result"),
        ("pay", "approval"),
        ("pay", "approval"),
    ]
    return result


async def answer_all(play: Play, runtime: Runtime, result: RunResult) -> None:
    """Every kind of answer, each with a canary, and a steering message."""
    c = play.canaries
    allow, deny = sorted(wait.key for wait in result.waiting if wait.tool == "pay")
    one, two = sorted(wait.key for wait in result.waiting if wait.tool == "outside")
    await runtime.approve(Operator("the boss"), allow, arguments={"amount": c["edited argument"], "reason": c["edit"]})
    await runtime.deny(Operator("the boss"), deny, valid(c["reason of a denial"]))
    await runtime.resolve(Operator("the clerk"), one, {"found": c["result from outside"]})
    await runtime.resolve(Operator("the clerk"), two, c["error from outside"], failed=True)
    await runtime.steer(Operator("user-1"), result.run_id, valid(c["steering"]))


def valid(text: str) -> str:
    """Return *text* without lone surrogates, which no message from outside may have."""
    return text.encode(errors="ignore").decode()


async def to_the_end(play: Play) -> RunResult:
    """Suspended, answered in another process, and resumed there to its end."""
    agent, model = family(play.canaries, play.policy), scripted(play.canaries)
    async with play.runtime(agent, model) as runtime:
        waiting = await suspended(play, runtime, model, agent)
    async with play.runtime(family(play.canaries, play.policy), model) as runtime:
        await answer_all(play, runtime, waiting)
        result = await (await runtime.resume(OPERATOR, waiting.run_id)).result()
    assert result.status == "completed", result
    with model:
        model._scripts["Asked aside"].clear()
    return result


async def sealed(play: Play) -> RunResult | None:
    """Stopped while it is suspended, by a process that does not know its agents."""
    agent, model = family(play.canaries, play.policy), scripted(play.canaries)
    async with play.runtime(agent, model) as runtime:
        waiting = await suspended(play, runtime, model, agent)
    async with play.runtime(AgentConfig(), model) as stranger:
        await answer_all(play, stranger, waiting)
        await stranger.stop(OPERATOR, waiting.run_id)
    return None
