"""User messages that are too long: what is left of them leaves room for the work on them, wherever they come from."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig, Chat, Limits, Resources, RunContext, ToolOrchestrator, ToolRegistry, tool
from concertino.events import ContextEdited, Notice, RunEvent
from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.providers.openai import TiktokenCounter
from concertino.testing import ScriptedModel, call
from concertino.token_engine import EstimatingCounter, TokenCounter

COUNTERS = [EstimatingCounter(), TiktokenCounter()]
SENTENCE = "The quick brown fox jumps over the lazy dog, as it has done before. "


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    return f"A line of what was found, number {n}. " * 400


def within(scope: object, model: object, agent: object) -> Limits:
    return Limits(context=16_000, output=1_000, tool_calls=100)


def orchestrator_of(
    model: ScriptedModel,
    message: str,
    agent: AgentConfig[Any] | None = None,
    *,
    counter: TokenCounter | None = None,
    observers: Any = (),
    tools: Any = (look,),
    **settings: Any,
) -> ToolOrchestrator:
    """Return a run of *message* within the limits of this file."""
    resources = Resources(limits=within, counter=counter or EstimatingCounter())
    chat = Chat(message, model=model, **settings)
    registry = ToolRegistry(tools)
    return ToolOrchestrator(chat, agent or AgentConfig(), registry, resources=resources, observers=observers)


@pytest.mark.parametrize("counter", COUNTERS)
async def test_there_is_room_to_work_on_a_message_that_was_cut(counter: TokenCounter) -> None:
    turns = [*(call("look", n=n) for n in range(6)), [call("look", n=n) for n in range(4)], "done"]
    model = ScriptedModel(*turns, name="unbilled")  # no other test has taught the engine its tokenizer
    codes: list[str] = []
    observers = [lambda event: codes.append(event.code) if isinstance(event, Notice) else None]
    result = await orchestrator_of(model, SENTENCE * 20_000, counter=counter, observers=observers).run()
    assert result.text == "done"
    assert codes[0] == "user_message_cut"
    said = model.requests[0].messages[0]
    assert isinstance(said, UserMessage)
    assert said.text.endswith("it is too long for the model.]")
    assert counter.count(said.text) > 6_000


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("summaries", [None, ["They greeted."] * 9])
async def test_two_messages_that_each_fill_most_of_the_window(
    counter: TokenCounter, summaries: list[str] | None
) -> None:
    first = await orchestrator_of(ScriptedModel("noted"), SENTENCE * 600, counter=counter, tools=()).run()
    model, seen = ScriptedModel("both noted", summaries=summaries), list[RunEvent]()
    result = await orchestrator_of(
        model,
        f"SECOND {SENTENCE * 600}",
        counter=counter,
        observers=[seen.append],
        tools=(),
        history=first.messages,
        context=first.context,
    ).run()
    assert result.text == "both noted"
    shown = list(model.requests[-1].messages)
    told = [m.text for m in shown if isinstance(m, UserMessage) and m.text.startswith("[Record of the conversation")]
    assert any(("They greeted." if summaries else "messages are not shown") in text for text in told)
    assert isinstance(shown[-1], UserMessage)
    assert shown[-1].text.startswith("SECOND")
    assert any(isinstance(event, ContextEdited) for event in seen)
    history = [*first.messages, *result.messages]
    third = orchestrator_of(ScriptedModel("yes"), "Well?", counter=counter, history=history, tools=())
    assert (await third.run()).text == "yes"


async def test_a_message_that_steers_is_cut_like_any_other() -> None:
    class Steers(AgentConfig[None]):
        def on_tools_selected(self, run: RunContext[None], calls: Any) -> None:
            if run.state.step == 1:
                orchestrator.steer(SENTENCE * 20_000)

    model, codes = ScriptedModel(call("look", n=1), call("look", n=2), "done"), list[str]()
    observers = [lambda event: codes.append(event.code) if isinstance(event, Notice) else None]
    orchestrator = orchestrator_of(model, "go", Steers(), observers=observers)
    assert (await orchestrator.run()).text == "done"
    assert "user_message_cut" in codes


async def test_all_of_an_answer_is_kept_beside_what_was_cut() -> None:
    result = await orchestrator_of(ScriptedModel("noted"), SENTENCE * 20_000, tools=()).run()
    assert result.messages[-1] == AssistantMessage((Text("noted"),), "end", "script")
