"""Calls of targets that no process serves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Chat, MemoryStore, Resources, RunContext, Runtime, Tool, delegate, tool
from concertino.errors import ConfigurationError, StorageError
from concertino.runtime import Fleet, assigned_calls
from concertino.testing import ScriptedModel, call
from concertino.waits import Wait

from .test_called_agents import CARLA, Clerk, Desk, ended
from .test_fleet import Bell, joined

TARGETS = {"desks": ["desk"], "batch": ["clerk"]}
ASKED = Chat("what is it?", scope=CARLA, model="desk")


def process(store: MemoryStore, bell: Bell, model: ScriptedModel, agent: AgentConfig[None], target: str) -> Runtime:
    """A process of *target* that looks when it is woken only."""
    runtime = Runtime([agent], Resources(store=store, models=lambda _: model, model=model), sweep=3600.0)
    return joined(runtime, Fleet(bell=bell, targets=TARGETS, takes=[target], coroutines=2))


async def test_a_call_that_no_process_takes_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(assigned_calls, "UNCLAIMED", 0.01)
    model = ScriptedModel(call("clerk", query="add it up"), "Nobody answers.")
    desks = process(MemoryStore(), Bell(), model, Desk(), "desks")
    async with desks, asyncio.timeout(60):
        run = await desks.start(ASKED, "desk")
        while "has taken the call" not in caplog.text:
            await desks.look()
            await asyncio.sleep(0)
        assert (await ended(desks, run)).text == "Nobody answers."
    assert "no process of target 'batch' has taken the call within 0.01 s" in model.requests[-1].messages[-1].content
    assert "of tool clerk: no process of target 'batch'" in caplog.text


async def test_a_call_waits_for_a_process_of_its_target() -> None:
    store, bell, clerk = MemoryStore(), Bell(), ScriptedModel("three")
    desk = ScriptedModel(call("clerk", query="add it up"), "It is three.")
    desks, batch = process(store, bell, desk, Desk(), "desks"), process(store, bell, clerk, Clerk(), "batch")
    async with desks:
        run = await desks.start(ASKED, "desk")
        await run.result()
        await desks.look()
        async with batch:
            assert (await ended(desks, run)).text == "It is three."


async def test_calls_in_the_queue_of_a_busy_process_are_not_unclaimed() -> None:
    store, bell = MemoryStore(), Bell(broken=True)
    busy, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def hold() -> str:
        """Hold the line."""
        busy.set()
        await go_on.wait()
        return "held"

    class Slow(AgentConfig[None]):
        name = "clerk"
        tools = (hold,)

    clerk = ScriptedModel(*[call("hold")] * 2, *["three"] * 3)
    desk = ScriptedModel(*[call("clerk", query="add it up")] * 3)
    desks, batch = process(store, bell, desk, Desk(), "desks"), process(store, bell, clerk, Slow(), "batch")
    async with desks, batch:
        await (await desks.start(ASKED, "desk")).result()
        await batch.look()
        await busy.wait()
        for _ in range(2):
            await (await desks.start(ASKED, "desk")).result()
        aged = await store.claim_calls(OPERATOR, -3_600.0)
        await batch.look()
        go_on.set()
        waiting = await store.claim_calls(OPERATOR, 0.0)
        assert [each.wait.key for each in waiting] == [aged[1].wait.key], "one is waiting for a place"
        assert not await store.claim_calls(OPERATOR, 0.0, overdue=assigned_calls.UNCLAIMED)


def test_a_target_that_the_fleet_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"tool 'clerk' of agent 'desk' calls target 'batc'.*\[targets\]"):
        process(MemoryStore(), Bell(), ScriptedModel(), Desk(target="batc"), "desks")


@tool(effect="read", target="gpuu")
async def render() -> str:
    """Render."""
    return "rendered"


class Loader(Desk):
    def load_tools(self, run: RunContext[None]) -> list[Tool]:
        return [render, delegate(Clerk(), name="other", description="Ask.", target="batc")]


@pytest.mark.parametrize(("name", "target"), [("render", "gpuu"), ("other", "batc")])
async def test_a_loaded_tool_of_such_a_target_fails_at_once(name: str, target: str) -> None:
    model = ScriptedModel(call(name, **({"query": "x"} if name == "other" else {})), "No such target.")
    async with process(MemoryStore(), Bell(), model, Loader(), "desks") as desks, asyncio.timeout(60):
        assert (await ended(desks, await desks.start(ASKED, "desk"))).text == "No such target."
    assert f"calls target {target!r}, which the fleet does not have" in model.requests[-1].messages[-1].content


async def test_such_a_call_fails_later_if_the_store_fails_when_it_is_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(MemoryStore):
        failures = 0

        async def resolve(self, *arguments: Any, **more: Any) -> Wait:
            self.failures += 1
            if self.failures == 1:
                raise StorageError("the server is gone")
            return await super().resolve(*arguments, **more)

    monkeypatch.setattr(assigned_calls, "UNCLAIMED", 0.01)
    model = ScriptedModel(call("render"), "Nobody renders.")
    async with process(Failing(), Bell(), model, Loader(), "desks") as desks, asyncio.timeout(60):
        run = await desks.start(ASKED, "desk")
        assert (await run.result()).status == "suspended"
        while "has taken the call" not in caplog.text:
            await desks.look()
            await asyncio.sleep(0)
        assert (await ended(desks, run)).text == "Nobody renders."
    assert "was not refused: StorageError" in caplog.text
    assert "no process of target 'gpuu' has taken the call" in model.requests[-1].messages[-1].content
