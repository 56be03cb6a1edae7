"""The context window: budgets where counted and billed tokens differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino import AgentConfig, Chat, Limits, Resources, ToolOrchestrator, ToolRegistry
from concertino.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from concertino.testing import ScriptedModel
from concertino.token_engine import (
    EstimatingCounter,
    Retention,
    TiktokenCounter,
    TokenCounter,
    TokenEngine,
    TokenStatistics,
)
from concertino.token_engine.counting.calibration import Calibration
from concertino.token_engine.window import Gauge

UNSURE = 0.15
factors = st.floats(min_value=0.4, max_value=2.5)
sizes = st.integers(min_value=0, max_value=200_000)


@given(factors, sizes, sizes, st.integers(0, 5_000), st.integers(1_000, 150_000), st.booleans())
def test_the_budget_is_the_largest_size_that_fits(
    factor: float, then: int, now: int, fixed: int, most: int, measured: bool
) -> None:
    calibration = Calibration()
    calibration.factors = [factor] * 3
    gauge = Gauge(calibration, exact=False)
    if measured:
        gauge.observe((then, 0, 0), fixed, int(factor * then) + fixed, grown=True)

    def worst(tokens: int) -> float:
        used, estimated = gauge.read((tokens, 0, 0), fixed)
        return used + UNSURE * estimated

    budget = gauge.budget((now, 0, 0), fixed, most)
    if budget < 0:
        assert worst(0) > most - 2 or fixed > most - 2
        return
    assert worst(budget) <= most + 2
    if now >= then or not measured:
        assert worst(budget + 10) > most


def history(messages: int) -> list[Message]:
    found: list[Message] = [UserMessage("The task. " * 20)]
    for number in range(messages // 2):
        found.append(AssistantMessage((Text("Let me look. " * 15), ToolCall(f"c{number}", "look", "{}"))))
        found.append(ToolMessage(f"c{number}", "look", f"Result {number}: it is so. " * 12))
    return found


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.3, 2.0])
@pytest.mark.parametrize("messages", [100, 1_000, 10_000])
def test_the_first_request_of_a_long_history_fits(factor: float, messages: int) -> None:
    """A long history or a smaller window: the provider has billed nothing yet."""
    model = f"openai:a model of {factor}"
    statistics, counter = TokenStatistics(), EstimatingCounter()
    statistics.calibration(model, counter).factors = [factor] * 3
    engine = TokenEngine(counter, 22_000, Retention(summaries=False), lambda: 1.0, statistics)
    for message in history(messages):
        engine.append(message)
    engine.plan({"system prompt": "Be brief. " * 30}, 2_000, model)
    engine.fit()
    assert factor * engine.tokens <= 20_000
    if messages >= 1_000:
        assert factor * engine.tokens >= 6_000, "no more is left out than must be"
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


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.3, 2.5])
@pytest.mark.parametrize("counter", [EstimatingCounter(), TiktokenCounter()])
def test_a_long_message_is_truncated_to_a_share_of_the_window(factor: float, counter: TokenCounter) -> None:
    statistics = TokenStatistics()
    statistics.calibration("openai:m", counter).factors = [factor] * 3
    engine = TokenEngine(counter, 20_000, statistics=statistics)
    sent = engine.truncate("é wörd " * 100_000, {"system prompt": "Be brief."}, 2_000, "openai:m")
    assert 10_500 < max(factor, 1.0 if counter.exact else 0.0) * counter.count(sent) < 13_500


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
