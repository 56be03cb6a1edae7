"""Known bug classes of context trimming in agent frameworks: one test for each."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Limits, ModelRequest, Resources, ToolOrchestrator, ToolRegistry, tool
from concertino.context_state import ContextState
from concertino.errors import ContextFloorError, RunError
from concertino.events import ContextEdited
from concertino.messages import (
    AssistantMessage,
    Message,
    Reasoning,
    Retain,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.testing import ScriptedModel, call
from concertino.token_engine import Retention, Summarize, TokenEngine
from concertino.usage import Tokens

from ..validity.judge import problems
from .kit import COUNTER, FIXED, TOOL

FRUGAL = Retention(summaries=False)


def engine(limit: int = 6_000, retention: Retention = FRUGAL) -> TokenEngine:
    return TokenEngine(COUNTER, limit, retention, clock=lambda: 1.0)


def turn(number: int, *parts: Any, size: int = 900, retain: Retain = "window") -> list[Message]:
    made = ToolCall(f"call_{number}", "look_up", "{}")
    found = ToolMessage(made.id, "look_up", f"{number} " * (size // 2), retain=retain)
    return [AssistantMessage((*parts, made), "tool_calls"), found]


def grown(
    limit: int = 6_000, turns: int = 30, retention: Retention = FRUGAL
) -> tuple[TokenEngine, list[list[Message]]]:
    """Return an engine after many turns, and the views that it sent."""
    built = engine(limit, retention)
    built.append(UserMessage("The task: refund order 7."))
    sent: list[list[Message]] = []
    for number in range(turns):
        built.plan(FIXED, 300, "openai:gpt-5")
        built.fit()
        sent.append(list(built.view()))
        built.observe(Tokens(prompt=built.tokens + 50))
        for message in turn(number):
            built.append(message)
    return built, sent


def edited(sent: list[list[Message]]) -> list[int]:
    """Return the requests that do not extend the previous one."""
    return [n for n, (a, b) in enumerate(zip(sent, sent[1:], strict=False)) if b[: len(a)] != a]


def valid(messages: list[Message]) -> None:
    assert not problems(ModelRequest(model="m", system="Be brief.", messages=messages, tools=(TOOL,)))


def test_no_orphan_call_or_result_after_trimming() -> None:
    _, sent = grown()
    assert edited(sent), "it was trimmed"
    for messages in sent:
        valid(messages)


def test_parallel_results_stay_together() -> None:
    built = engine(3_000)
    built.append(UserMessage("go"))
    for number in range(12):
        calls = [ToolCall(f"c{number}_{n}", "look_up", "{}") for n in range(4)]
        built.append(AssistantMessage(tuple(calls), "tool_calls"))
        for made in calls:
            built.append(ToolMessage(made.id, "look_up", "found " * 40))
        built.plan(FIXED, 300, "openai:gpt-5")
        built.fit()
        valid(list(built.view()))


def test_the_current_call_and_its_result_stay_in_the_view() -> None:
    built, _ = grown(limit=3_000)
    for message in turn(99, size=100):
        built.append(message)
    built.plan(FIXED, 300, "openai:gpt-5")
    built.fit()
    assert list(built.view())[-2:] == list(built.record())[-2:]


@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-4-5", "anthropic:claude-opus-5-5"])
def test_reasoning_is_sent_whole_or_not_at_all(model: str) -> None:
    built = engine(6_000)
    built.append(UserMessage("go"))
    thought = Reasoning("Hm. " * 20, signature="c2ln", provider="anthropic")
    for number in range(30):
        built.plan(FIXED, 300, model)
        built.fit()
        for message in built.view():
            if isinstance(message, AssistantMessage):
                assert [part for part in message.parts if part.kind == "reasoning"] in ([], [thought])
        valid(list(built.view()))
        for message in turn(number, thought):
            built.append(message)


def test_a_view_that_cannot_shrink_raises_an_error() -> None:
    built = engine(1_000)
    built.append(UserMessage("go"))
    with pytest.raises(ContextFloorError, match="Shorten the tools"):
        built.plan({"system prompt": "s", "tools": "t" * 9_000}, 300, "openai:gpt-5")
        built.fit()


def test_an_edit_frees_enough_for_several_requests() -> None:
    built, sent = grown(limit=6_000, turns=60, retention=Retention(price=0, summaries=False))
    assert 2 < len(edited(sent)) < len(sent) / 2, "not with every request"
    assert built.edits


def test_implausible_usage_figures_do_not_disable_edits() -> None:
    built = engine(6_000)
    built.append(UserMessage("go"))
    for number in range(40):
        built.plan(FIXED, 300, "openai:gpt-5")
        built.fit()
        assert sum(COUNTER.count(str(getattr(m, "content", ""))) for m in built.view()) < 6_000
        built.observe(Tokens(prompt=(0, 10, 10**9)[number % 3]))
        for message in turn(number):
            built.append(message)


@pytest.mark.parametrize("bad", ["", "   ", None, "Error " * 9_000])
def test_a_failed_summary_never_becomes_the_history(bad: str | None) -> None:
    built, jobs = engine(6_000, Retention()), 0
    built.append(UserMessage("go"))
    for number in range(20):
        plan = built.plan(FIXED, 300, "openai:gpt-5")
        built.fit()
        built.view()
        if plan.job is not None:
            jobs += 1
            before = list(built.view())
            assert not built.complete(plan.job, bad)
            assert list(built.view()) == before
        for message in turn(number):
            built.append(message)
    assert jobs
    told = [m.text for m in built.view() if isinstance(m, UserMessage) and m.text.startswith("[Record of")]
    assert all("messages are not shown" in text for text in told)


def test_merging_summaries_keeps_pinned_messages() -> None:
    """A pinned message may lie between two summaries."""
    built, merges = engine(9_000, Retention(frees=300)), 0
    built.append(UserMessage("The task"))
    for number in range(200):
        plan = built.plan(FIXED, 300, "openai:gpt-5")
        built.fit()
        shown = list(built.view())
        if plan.job is not None:
            merges += any(isinstance(edit, Summarize) for edit in built.edits)
            assert built.complete(plan.job, f"Notes of part {number}. " * 30)
            assert (f"Notes of part {number}." in str(built.prepared)) or built.prepared == []
        here = {id(message) for message in shown}
        pinned = [m for m in built.record() if isinstance(m, ToolMessage) and m.retain == "pin"]
        assert all(id(message) in here for message in pinned)
        pin = number % 3 == 0
        for message in turn(number, retain="pin" if pin else "window", size=4 if pin else 300):
            built.append(message)
    assert merges


def test_a_summary_survives_a_restart() -> None:
    retention = Retention()
    built, made = engine(4_000, retention), 0
    built.append(UserMessage("go"))
    for number in range(20):
        plan = built.plan(FIXED, 300, "openai:gpt-5")
        if plan.job is not None and not made:
            made += built.complete(plan.job, "They looked things up.")
        built.fit()
        built.view()
        for message in turn(number):
            built.append(message)
    assert made
    state = ContextState(**json.loads(json.dumps(dataclasses.asdict(built.state()))))
    again = engine(60_000, retention)
    assert again.start(list(built.record()), state)
    assert list(again.view()) == list(built.view())
    assert any("They looked things up." in m.text for m in again.view() if isinstance(m, UserMessage))


def test_reducing_shrinks_large_results_and_leaves_small_ones() -> None:
    built = engine(6_000)
    built.append(UserMessage("go"))
    for number, size in enumerate((4, 60, 200, 4_000)):
        for message in turn(number, size=size, retain="once"):
            built.append(message)
    built.append(AssistantMessage((Text("Seen."),)))
    before = built.tokens
    built.plan(FIXED, 300, "openai:gpt-5", recallable=True)
    built.fit()
    assert built.tokens < before / 2
    shown = [message.content for message in built.view() if isinstance(message, ToolMessage)]
    assert shown[:2] == [m.content for m in built.record() if isinstance(m, ToolMessage)][:2], "small ones stay"


def test_the_prefix_is_stable_between_edits() -> None:
    _, sent = grown(limit=100_000, turns=40, retention=Retention(summaries=False))
    assert len(edited(sent)) <= 6


def test_the_first_and_the_newest_user_message_stay_in_the_view() -> None:
    built, _ = grown(limit=3_000, turns=10)
    built.append(UserMessage("No: order 8."))
    for number in range(20, 40):
        built.plan(FIXED, 300, "openai:gpt-5")
        built.fit()
        shown = list(built.view())
        assert built.record()[0] in shown
        assert UserMessage("No: order 8.") in shown
        for message in turn(number):
            built.append(message)


async def test_a_long_run_completes_in_a_small_window() -> None:
    @tool(effect="read")
    async def look_up(n: int) -> str:
        """Look up."""
        return f"{n}: a long story. " * 60

    seen: list[ContextEdited] = []
    with ScriptedModel(*[call("look_up", n=n) for n in range(60)], "done") as model:
        small = Chat(model=model, message="The task.")
        observers = [lambda event: seen.append(event) if isinstance(event, ContextEdited) else None]
        result = await ToolOrchestrator(
            small,
            AgentConfig(),
            ToolRegistry([look_up]),
            observers=observers,
            resources=Resources(limits=lambda *_: Limits(context=2_500, output=200, tool_calls=99)),
        ).run()
    assert result.text == "done"
    assert seen
    for request in model.requests:
        valid([m for m in request.messages if not isinstance(m, SystemMessage)])


async def test_the_floor_error_names_what_fills_the_window() -> None:
    agent = type("Agent", (AgentConfig,), {"prompt": "rules " * 4_000})()
    small = Chat(model=ScriptedModel(), message="hi")
    with pytest.raises(RunError, match="Shorten the system prompt") as caught:
        await ToolOrchestrator(
            small, agent, resources=Resources(limits=lambda *_: Limits(context=2_000, output=200))
        ).run()
    assert isinstance(caught.value.__cause__, ContextFloorError)


async def test_the_floor_error_names_what_is_pinned() -> None:
    @tool(effect="read", retain="pin")
    async def look(n: int) -> str:
        """Look."""
        return f"result {n} " * 400

    model = ScriptedModel(*[call("look", n=n) for n in range(30)])
    resources = Resources(limits=lambda *_: Limits(context=8_000, output=500, tool_calls=50))
    chat = Chat(model=model, message="go")
    with pytest.raises(RunError, match=r"tokens: pinned result of look [\d,]+, .* Shorten the pinned result of look"):
        await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([look]), resources=resources).run()


def test_a_short_conversation_is_sent_unchanged() -> None:
    built = engine(60_000)
    built.append(UserMessage("go"))
    built.append(AssistantMessage((Text("yes"),)))
    built.plan(FIXED, 300, "openai:gpt-5")
    assert built.fit() == []
    assert list(built.view()) == list(built.record())
