"""Sub-agents: what they show, use and leave behind, through any depth and however they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    RunError,
    Tool,
    ToolContext,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.agents import delegate
from concertino.errors import ConfigurationError, OverloadedError
from concertino.events import RunEnded, RunStarted, TextDelta, ToolDone, ToolFailed
from concertino.messages import ToolMessage
from concertino.testing import Answer, ScriptedModel, call
from concertino.usage import total

from .conftest import Play


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    enable_global_context_update = False


class Middle(AgentConfig[None]):
    name = "middle"
    prompt = "You are in the middle."
    enable_global_context_update = False


def team(add: Tool) -> list[Tool]:
    """A child below a middle agent, as the tools of a boss."""
    child = delegate(Child(), description="A child.", tools=[add])
    return [delegate(Middle(), description="The middle.", tools=[child])]


def _add_then_answer(request: Any) -> Any:
    return "two" if request.messages[-1].role == "tool" else call("add", a=1, b=1)


async def test_a_child_is_a_tool(play: Play, add: Tool) -> None:
    child = delegate(Child(), description="Adds.", tools=[add])
    scripts = {"the child": [call("add", a=1, b=2), "It is 3."]}
    with ScriptedModel(call("child", query="1 + 2?"), "The child says 3.", scripts=scripts) as model:
        seen = await play(model, tools=[child])
    result = next(m for m in seen.result.messages if isinstance(m, ToolMessage))
    assert result.content == "It is 3."
    assert seen.result.tool_calls == {"agent": 1, "agent/child-1": 1}
    assert [r.agent_path for r in seen.result.usage] == ["agent", "agent/child-1", "agent/child-1", "agent"]
    started = seen.of(RunStarted)[1]
    assert (started.agent, started.task, started.parent_call) == ("child", "1 + 2?", "call_1")
    asked = next(r for r in model.requests if "the child" in r.system)
    assert len(asked.messages) == 1, "a child sees nothing of its parent's conversation"


async def test_usage_and_calls_roll_up_through_three_levels(play: Play, add: Tool) -> None:
    scripts: dict[str, list[Any]] = {
        "middle": [[call("child", query="a"), call("child", query="b")], "both"],
        "the child": [_add_then_answer] * 4,
    }
    with ScriptedModel(call("middle", query="go"), "done", scripts=scripts) as model:
        seen = await play(model, tools=team(add))
    assert seen.result.tool_calls == {
        "agent": 1,
        "agent/middle-1": 2,
        "agent/middle-1/child-1": 1,
        "agent/middle-1/child-2": 1,
    }
    assert len(seen.result.usage) == 8
    assert total(seen.result.usage).tokens.prompt == 80
    assert len({r.id for r in seen.result.usage}) == 8


async def test_a_child_that_fails_is_a_failed_tool_and_its_usage_counts(play: Play, add: Tool) -> None:
    child = delegate(Child(), description="Adds.", tools=[add])
    scripts = {"the child": [call("add", a=1, b=2), OverloadedError("too busy", status=529)]}
    with ScriptedModel(call("child", query="1 + 2?"), "no luck", scripts=scripts) as model:
        seen = await play(model, tools=[child])
    assert seen.result.status == "completed"
    assert "child failed" in seen.of(ToolFailed)[0].error
    assert [r.source for r in seen.result.usage] == ["measured", "measured", "measured", "measured"]
    assert seen.result.tool_calls["agent/child-1"] == 1


async def test_a_fast_child_never_waits_for_a_slow_one(play: Play) -> None:
    fast_is_over = asyncio.Event()

    def answer(request: Any) -> Answer:
        if request.messages[0].text == "slow":
            return Answer(text="slow", before=fast_is_over.wait)
        return Answer(text="fast answer")

    def watch(event: Any) -> None:
        if isinstance(event, RunEnded) and event.result.text == "fast answer":
            fast_is_over.set()

    child = delegate(Child(), description="Answers.")
    calls = [call("child", query="slow"), call("child", query="fast")]
    with ScriptedModel(calls, "done", scripts={"the child": [answer, answer]}) as model:
        seen = await play(model, tools=[child], observers=[watch])
    assert [e.text for e in seen.of(TextDelta, "agent/child-2")] == ["fast ", "answer"]
    assert [e.content for e in seen.of(ToolDone)] == ["fast answer", "slow"]


async def test_a_cancelled_tree_keeps_its_usage_and_its_conversation() -> None:
    reached = asyncio.Event()
    never = asyncio.Event()

    async def stall() -> None:
        reached.set()
        await never.wait()

    store = MemoryStore()
    scripts = {"the child": [Answer(text="half of a", midway=stall)]}
    model = ScriptedModel(call("child", query="go"), scripts=scripts)
    registry = ToolRegistry([delegate(Child(), description="Answers.")])
    orchestrator = ToolOrchestrator(
        Chat(model=model, message="go"), AgentConfig(), registry, resources=Resources(store=store)
    )
    task = asyncio.create_task(orchestrator.run())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = orchestrator.result
    assert result is not None
    assert result.status == "cancelled"
    assert [r.agent_path for r in result.usage] == ["agent", "agent/child-1"]
    assert result.usage[1].source == "estimated"
    child, parent = await store.runs(OPERATOR)
    assert [run.end.status for run in (child, parent) if run.end] == ["cancelled", "cancelled"]
    kept = [stored.message for stored in await store.messages(OPERATOR, parent.start.run_id)]
    assert "interrupted" in kept[-1].content  # type: ignore[union-attr]
    partial = [stored.message for stored in await store.messages(OPERATOR, child.start.run_id)]
    assert partial[-1].text == "half of a"  # type: ignore[union-attr]
    assert tuple(await store.usage(OPERATOR, parent.start.run_id)) == result.usage


async def test_a_consumer_that_leaves_ends_the_run(add: Tool) -> None:
    ended = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    orchestrator = ToolOrchestrator(
        Chat(model=ScriptedModel(call("wait")), message="go"), AgentConfig(), ToolRegistry([wait])
    )
    events = orchestrator.stream()
    async for event in events:
        if type(event).__name__ == "ToolStarted":
            break
    await events.aclose()
    assert ended.is_set()
    assert orchestrator.result is not None
    assert orchestrator.result.status == "cancelled"


async def test_children_are_stored_as_runs_of_the_tree(play: Play, add: Tool) -> None:
    store = MemoryStore()
    scripts: dict[str, list[Any]] = {"middle": [call("child", query="a"), "m"], "the child": ["c"]}
    with ScriptedModel(call("middle", query="go"), "done", scripts=scripts) as model:
        seen = await play(model, tools=team(add), store=store)
    runs = await store.runs(OPERATOR, root_id=seen.result.run_id)
    assert {run.start.agent_path for run in runs} == {"agent", "agent/middle-1", "agent/middle-1/child-1"}
    assert tuple(await store.usage(OPERATOR, seen.result.run_id)) == seen.result.usage


async def test_the_id_of_a_child_follows_from_its_parent_and_call(add: Tool) -> None:
    async def ids() -> list[str]:
        model = ScriptedModel(call("child", query="x"), "ok", scripts={"the child": ["c"]})
        registry = ToolRegistry([delegate(Child(), description="Answers.")])
        orchestrator = ToolOrchestrator(Chat(model=model, message="go"), AgentConfig(), registry, run_id="run_fixed")
        return [event.run_id async for event in orchestrator.stream() if isinstance(event, RunStarted)]

    assert await ids() == await ids()


async def test_any_tool_may_start_agents_and_nothing_is_lost(play: Play) -> None:
    @tool
    async def twice(context: ToolContext) -> str:
        """Ask two children."""
        first = await context.spawn(Child(), "one")
        second = await context.spawn(Child(), "two")
        return first.text + second.text

    with ScriptedModel(call("twice"), "ok", scripts={"the child": ["a", "b"]}) as model:
        seen = await play(model, tools=[twice])
    assert [e.agent_path for e in seen.of(RunStarted)] == ["agent", "agent/child-1", "agent/child-1.2"]
    assert len(seen.result.usage) == 4
    assert len({e.run_id for e in seen.of(RunStarted)}) == 3


async def test_children_do_not_move_the_content_index(play: Play, add: Tool) -> None:
    child = delegate(Child(), description="Adds.", tools=[add])
    scripts = {"the child": [call("add", a=1, b=2), "3"]}
    with ScriptedModel(call("child", query="?"), "3", scripts=scripts) as model:
        seen = await play(model, tools=[child])
    assert {e.index for e in seen.events if e.agent_path == "agent/child-1"} == {1}
    assert seen.result.content_index == 2


async def test_a_hook_of_a_child_that_fails_fails_the_child_alone(play: Play) -> None:
    class Broken(Child):
        def prepare(self, run: Any) -> Any:
            raise RuntimeError("boom")

    with ScriptedModel(call("child", query="x"), "sorry") as model:
        seen = await play(model, tools=[delegate(Broken(), description="Breaks.")])
    assert seen.result.status == "completed"
    assert "hook prepare of agent 'child'" in seen.of(ToolFailed)[0].error


async def test_run_error_of_a_child_carries_its_result(play: Play) -> None:
    caught: list[RunError] = []

    @tool
    async def ask(context: ToolContext) -> str:
        """Ask."""
        try:
            await context.spawn(Child(), "x")
        except RunError as error:
            caught.append(error)
        return "handled"

    scripts = {"the child": [Answer(text="so far", error=OverloadedError("busy"))]}
    with ScriptedModel(call("ask"), "ok", scripts=scripts) as model:
        await play(model, tools=[ask])
    assert caught[0].result.text == "so far"


def test_delegate_wants_an_agent() -> None:
    with pytest.raises(ConfigurationError, match="not an agent"):
        delegate(Child, description="A class.")  # type: ignore[arg-type]
