"""Hooks that return the right type with the wrong things in it, or that are cancelled: the hook is named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import AgentConfig, Continue, Fail, Finish, RunContext, Special, Tool, Turn, tool
from concertino.messages import AssistantMessage, SystemMessage
from concertino.testing import ScriptedModel, call

from .conftest import Play

CASES: list[tuple[str, Any, str]] = [
    ("on_no_tool_calls", lambda: Finish({"a": 1}), r"Finish(text={'a': 1}): use text"),  # type: ignore[arg-type]
    ("after_step", lambda: Fail(None), "Fail(error=None): use text"),  # type: ignore[arg-type]
    ("should_continue_loop", lambda: Continue("go on"), "tuple of messages"),  # type: ignore[arg-type]
    ("should_continue_loop", lambda: Continue((SystemMessage("x"), "y")), "tuple of messages"),  # type: ignore[arg-type]
    ("on_no_tool_calls", lambda: Continue(messages=SystemMessage("x")), "tuple of messages"),  # type: ignore[arg-type]
    ("handle_special_tools", lambda: Special(result=5), "Special(result=5): use text"),  # type: ignore[arg-type]
    ("handle_special_tools", lambda: Special(messages=("x",)), "tuple of messages"),  # type: ignore[arg-type]
    ("interpret_response", lambda: Turn("x", ()), "AssistantMessage"),  # type: ignore[arg-type]
    ("interpret_response", lambda: Turn(AssistantMessage(()), None), "calls"),  # type: ignore[arg-type]
    ("interpret_response", lambda: Turn(AssistantMessage(()), ("x",)), "ToolCalls"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("hook", "make", "problem"), CASES, ids=[f"{hook}-{why}" for hook, _, why in CASES])
async def test_the_right_type_with_the_wrong_things(hook: str, make: Any, problem: str, play: Play, add: Tool) -> None:
    agent = type("Agent", (AgentConfig,), {hook: lambda *_: make()})()
    seen = await play(ScriptedModel(call("add", a=1, b=2), "3"), agent, tools=[add])
    assert seen.result.status == "failed"
    assert f"HookError: hook {hook} of agent" in seen.result.error
    assert problem in seen.result.error


@pytest.mark.parametrize("hook", ["prepare", "should_continue_loop", "authorize_tool_call", "conclude"])
async def test_a_hook_that_is_cancelled_from_within_fails_the_run(hook: str, play: Play, add: Tool) -> None:
    async def cancelled(self: Any, run: RunContext[Any], *_: Any) -> None:
        raise asyncio.CancelledError

    agent = type("Agent", (AgentConfig,), {hook: cancelled})()
    seen = await play(ScriptedModel(call("add", a=1, b=2), "3"), agent, tools=[add])
    assert seen.result.status == "failed"
    assert f"hook {hook} of agent 'agent' was cancelled from within" in seen.result.error


@pytest.mark.parametrize("hook", ["preprocess_tool_arguments", "authorize_tool_call"])
@pytest.mark.parametrize("parallel", [True, False])
async def test_a_call_does_not_run_after_a_hook_has_removed_its_tool(hook: str, parallel: bool, play: Play) -> None:
    ran: list[str] = []

    @tool
    async def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    def removes(self: Any, run: RunContext[Any], *arguments: Any) -> Any:
        run.registry.unregister("pay")
        return getattr(AgentConfig, hook)(self, run, *arguments)

    agent = type("Agent", (AgentConfig,), {hook: removes, "use_parallel_tools": parallel})()
    with ScriptedModel((call("look"), call("pay")), "done") as model:
        seen = await play(model, agent, tools=[look, pay])
    assert (seen.result.status, ran) == ("completed", ["look"])
    assert seen.result.messages[-2].content == "there is no tool 'pay'; the tools are: look"
