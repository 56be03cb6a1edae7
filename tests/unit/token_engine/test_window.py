"""The context window: budgets where counted and billed tokens differ."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from concertino import AgentConfig, Chat, Limits, Resources, ToolOrchestrator, ToolRegistry
from concertino.context_state import ContextState
from concertino.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from concertino.providers.openai import TiktokenCounter
from concertino.testing import ScriptedModel
from concertino.token_engine import EstimatingCounter, Retention, TokenCounter, TokenEngine
from concertino.token_engine.window import Window
from concertino.usage import Tokens

LEAST, MARGIN = 0.4, 0.15
factors = st.floats(min_value=0.4, max_value=2.5)
sizes = st.integers(min_value=0, max_value=200_000)


@given(factors, sizes, sizes, st.integers(0, 5_000), st.integers(1_000, 150_000), st.booleans())
def test_the_budget_is_the_largest_size_that_surely_fits(
    factor: float, then: int, removed: int, fixed: int, most: int, measured: bool
) -> None:
    """What is not billed yet may be more than counted, and what an edit removed may have been less."""
    counter = EstimatingCounter()
    window = Window(counter, most, Retention())
    window.select("a:model")
    window.fixed, billed = fixed, 0
    if not measured:
        factor = 1.0  # nothing is known of the tokenizer
    else:
        billed = round(factor * (then + fixed))
        assume(0 < LEAST * (then + fixed) <= billed <= 2.5 * (then + fixed))  # others are ignored
        window.observe(then, billed)
        window.removed = removed = min(removed, then)
        factor = billed / (then + fixed) if then + fixed >= 1_000 else 1.0  # the bill is a whole number

    def worst(tokens: int) -> float:
        growth = max(factor, 1.0) + MARGIN
        added = tokens - (then - removed)
        since = billed - LEAST * removed + growth * added
        return min(growth * (tokens + fixed), since if measured else math.inf)

    window.prepare("a:model", window.fixed_texts, most, 0)
    assert worst(window.budget) <= most + 3, "all but a counted token"
    assert worst(window.budget + 10) > most


def history(messages: int) -> list[Message]:
    found: list[Message] = [UserMessage("The task. " * 20)]
    for number in range(messages // 2):
        found.append(AssistantMessage((Text("Let me look. " * 15), ToolCall(f"c{number}", "look", "{}"))))
        found.append(ToolMessage(f"c{number}", "look", f"Result {number}: it is so. " * 12))
    return found


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.3, 2.0])
@pytest.mark.parametrize("messages", [100, 1_000, 10_000])
def test_a_long_history_after_a_billed_request_fits(factor: float, messages: int) -> None:
    """One bill shows how many tokens the provider makes of the counted ones, also of many messages at once."""
    engine = TokenEngine(EstimatingCounter(), 22_000, Retention(summaries=False), lambda: 1.0)
    for part in (history(20), history(messages)):
        for message in part:
            engine.append(message)
        engine.plan({"system prompt": "Be brief. " * 30}, 2_000, "openai:m")
        engine.fit()
        if part[1:] and len(part) < 30:
            engine.observe(Tokens(prompt=int(factor * (engine.tokens + engine.counter.count("Be brief. " * 30)))))
    assert factor * engine.tokens <= 20_000
    if messages >= 1_000:
        assert max(factor, 1.0) * engine.tokens >= 6_000, "no more is left out than must be"
    assert {message.call_id for message in engine.view() if isinstance(message, ToolMessage)} == {
        call.id for message in engine.view() if isinstance(message, AssistantMessage) for call in message.tool_calls
    }


async def test_a_run_with_a_long_history_completes() -> None:
    model = ScriptedModel("Done.")
    chat = Chat(model=model, message="Go on.", history=history(5_000))
    result = await ToolOrchestrator(
        chat, AgentConfig(), ToolRegistry(), resources=Resources(limits=lambda *_: Limits(context=22_000, output=2_000))
    ).run()
    assert result.status == "completed"
    assert len(model.requests[0].messages) > 80


def test_a_bill_says_nothing_of_another_conversation() -> None:
    """Equal conversations have equal views, whatever other runs of the process were billed."""

    def shown(factor: float) -> int:
        engine = TokenEngine(EstimatingCounter(), 22_000, Retention(summaries=False), lambda: 1.0)
        for message in history(1_000):
            engine.append(message)
        engine.plan({"system prompt": "Be brief. " * 30}, 2_000, "openai:m")
        engine.fit()
        engine.observe(Tokens(prompt=int(factor * engine.tokens)))
        return engine.tokens

    assert shown(1.9) == shown(1.0)


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.3, 2.5])
@pytest.mark.parametrize("counter", [EstimatingCounter(), TiktokenCounter()])
def test_a_long_message_is_truncated_to_a_share_of_the_window(factor: float, counter: TokenCounter) -> None:
    engine = TokenEngine(counter, 20_000)
    engine.start([], ContextState(model="openai:m", anchor=[2_000, int(2_000 * factor), 0]))
    sent = engine.truncate("é wörd " * 100_000, {"system prompt": "Be brief."}, 2_000, "openai:m")
    assert 10_500 < max(factor, 1.0) * counter.count(sent) < 13_500


async def test_a_truncated_message_is_sent_by_a_run() -> None:
    model = ScriptedModel("Done.")
    chat = Chat(model=model, message="é wörd " * 100_000)
    result = await ToolOrchestrator(
        chat, AgentConfig(), ToolRegistry(), resources=Resources(limits=lambda *_: Limits(context=20_000, output=2_000))
    ).run()
    assert result.status == "completed"
    sent = model.requests[0].messages[-1]
    assert isinstance(sent, UserMessage)
    assert EstimatingCounter().count(sent.text) < 15_000
