"""Turns that the agent writes itself (`answer_without_model`): recorded, authorized and resumed as a model's."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    AssistantMessage,
    Chat,
    Deny,
    MemoryStore,
    Resources,
    RunContext,
    Runtime,
    Scope,
    Text,
    ToolCall,
    ToolOrchestrator,
    Turn,
    tool,
)
from concertino.errors import HookError
from concertino.events import RunEvent, StepStarted, TextDelta, TurnCompleted
from concertino.testing import ScriptedModel

ANN = Scope("acme", "ann")
ran: list[str] = []


@tool(effect="once")
async def ship(version: str) -> str:
    """Ship a version."""
    ran.append(version)
    return f"shipped {version}"


class Shipper(AgentConfig[None]):
    """Ships once before the model is asked."""

    name = "shipper"
    tools = (ship,)
    message = AssistantMessage(())
    permission: Allow | Ask | Deny = Allow()

    def answer_without_model(self, run: RunContext[None]) -> Turn | None:
        if run.state.step:
            return None
        return Turn(self.message, (ToolCall("own", "ship", '{"version": "1.0"}'),))

    def authorize_tool_call(
        self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]
    ) -> Allow | Ask | Deny:
        return self.permission


class Asking(Shipper):
    permission = Ask(note="Ship it?")


class Denying(Shipper):
    permission = Deny("not today")


class Talking(Shipper):
    message = AssistantMessage((Text("I ship first."),))


@pytest.fixture(autouse=True)
def nothing_shipped() -> None:
    ran.clear()


async def test_the_call_runs_before_the_model_is_asked() -> None:
    with ScriptedModel("Done.") as model:
        result = await ToolOrchestrator(Chat("Ship", model=model), Shipper()).run()
    assert (ran, result.text, result.steps, len(result.usage)) == (["1.0"], "Done.", 2, 1)
    assert model.requests[0].messages[-1].text == "[result of ship]\nshipped 1.0"
    assert result.tool_calls == {"shipper": 1}


async def test_its_text_is_shown_and_becomes_part_of_the_conversation() -> None:
    events: list[RunEvent] = []
    with ScriptedModel("Done.") as model:
        run = ToolOrchestrator(Chat("Ship", model=model), Talking())
        events = [event async for event in run.stream()]
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert shown == "I ship first.Done."
    assert [event.model for event in events if isinstance(event, StepStarted)] == ["", "scripted:script"]
    assert len([event for event in events if isinstance(event, TurnCompleted)]) == 2
    assert [type(message).__name__ for message in model.requests[0].messages] == [
        *("UserMessage", "AssistantMessage", "UserMessage")
    ]


async def test_the_agent_authorizes_its_own_calls_as_well() -> None:
    with ScriptedModel("Not done.") as model:
        await ToolOrchestrator(Chat("Ship", model=model), Denying()).run()
    assert not ran
    assert "not allowed: not today" in model.requests[0].messages[-1].text


async def test_it_waits_for_an_approval_in_another_process() -> None:
    store, model = MemoryStore(), ScriptedModel("Done.")
    async with Runtime([Asking()], Resources(store=store, model=model)) as first:
        run = await (await first.start(Chat("Ship", scope=ANN), "shipper")).result()
    assert (run.status, ran, len(run.usage)) == ("suspended", [], 0)
    async with Runtime([Asking()], Resources(store=store, model=model)) as second:
        await second.approve(ANN, run.waiting[0].key)
        result = await (await second.resume(ANN, run.run_id)).result()
    assert (result.text, ran, result.steps) == ("Done.", ["1.0"], 2)
    await store.close()


async def test_the_limit_of_tool_calls_applies() -> None:
    class Endless(Shipper):
        tool_call_limit = 3

        def answer_without_model(self, run: RunContext[None]) -> Turn | None:
            if run.state.limit:
                return None
            return Turn(self.message, (ToolCall(f"own-{run.state.step}", "ship", '{"version": "1.0"}'),))

    with ScriptedModel("I must stop.") as model:
        result = await ToolOrchestrator(Chat("Ship", model=model), Endless()).run()
    assert (result.text, len(ran)) == ("I must stop.", 2)


async def test_a_tool_that_does_not_exist_is_an_error_that_the_model_reads() -> None:
    class Wrong(Shipper):
        def answer_without_model(self, run: RunContext[None]) -> Turn | None:
            return None if run.state.step else Turn(AssistantMessage(()), (ToolCall("own", "shop", "{}"),))

    with ScriptedModel("Sorry.") as model:
        await ToolOrchestrator(Chat("Ship", model=model), Wrong()).run()
    assert "there is no tool of this name; the tools are: ship" in model.requests[0].messages[-1].text


async def test_another_value_ends_the_run() -> None:
    class Odd(Shipper):
        def answer_without_model(self, run: RunContext[None]) -> Any:
            return "no turn"

    with pytest.raises(Exception) as caught:
        await ToolOrchestrator(Chat("Ship", model=ScriptedModel()), Odd()).run()
    assert "it must return Turn or None" in str(caught.value)
    assert isinstance(caught.value.__cause__, HookError)
