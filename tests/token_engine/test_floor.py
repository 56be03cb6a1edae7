"""The floor: a conversation that fills a small share of the window is never edited to save cost."""

from __future__ import annotations

import pytest

from concertino.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from concertino.token_engine import EstimatingCounter, Retention, TokenEngine
from concertino.usage import Tokens

from .kit import COUNTER

FIXED = {"system prompt": "Be brief.", "tools": ""}
MODELS = ("openai:gpt-4.1-mini", "anthropic:claude-sonnet-4-5", "google:gemini-3-pro", "vendor:unknown")


def step(number: int, result: str) -> list[Message]:
    call = ToolCall(f"call_{number}", "work", '{"n": 1}')
    return [AssistantMessage((call,), "tool_calls"), ToolMessage(call.id, "work", result)]


def drive(engine: TokenEngine, model: str, steps: int, result: str) -> tuple[int, int]:
    """Return the number of summaries requested and of edits made."""
    jobs = edits = 0
    engine.append(UserMessage("go"))
    for number in range(steps):
        jobs += engine.plan(FIXED, 4_000, model).job is not None
        edits += len(engine.fit())
        engine.view()
        engine.observe(Tokens(prompt=engine.tokens + 20))
        for message in step(number, result):
            engine.append(message)
    return jobs, edits


def test_a_conversation_of_3000_tokens_is_left_alone_in_a_window_of_128000() -> None:
    for model in MODELS:
        engine = TokenEngine(EstimatingCounter(), 128_000)
        assert drive(engine, model, 120, "ok") == (0, 0)
        assert 2_000 < engine.tokens < 6_000
        assert list(engine.view()) == list(engine.record())


def test_nothing_is_summarized_below_the_floor() -> None:
    engine = TokenEngine(EstimatingCounter(), 40_000, Retention(floor=0.5, price=1.0))
    jobs, _ = drive(engine, "openai:gpt-5", 140, "found it " * 60)
    assert 15_000 < engine.tokens < 18_000
    assert jobs == 0
    jobs, _ = drive(engine, "openai:gpt-5", 60, "found it " * 60)
    assert engine.tokens < 30_000, "the window is not full"
    assert jobs == 1


def test_a_floor_above_the_usual_start_holds() -> None:
    engine = TokenEngine(COUNTER, 40_000, Retention(floor=33_000, price=1.0))
    engine.append(UserMessage("go"))
    for number in range(400):
        if engine.plan(FIXED, 4_000, "openai:gpt-5").job is not None:
            break
        engine.fit()
        engine.view()
        engine.observe(Tokens(prompt=engine.tokens + 20))
        for message in step(number, "found it " * 60):
            engine.append(message)
    assert 33_000 <= engine.tokens <= 34_500


@pytest.mark.parametrize(("price", "jobs"), [(0.003, 0), (0.03, 1)])
def test_a_summary_waits_until_its_price_is_a_small_share_of_the_bill(price: float, jobs: int) -> None:
    engine = TokenEngine(EstimatingCounter(), 128_000, Retention(floor=0, frees=1_000, price=price))
    assert drive(engine, "openai:gpt-4.1-mini", 120, "ok")[0] == jobs


@pytest.mark.parametrize("window", [100_000, 2_000_000])
def test_a_floor_in_tokens_is_the_same_in_every_window(window: int) -> None:
    retention = Retention(floor=20_000, frees=10_000, price=1e9)
    engine = TokenEngine(EstimatingCounter(), window, retention)
    assert drive(engine, "google:gemini-3-pro", 145, "found it " * 60)[0] == 0
    assert drive(engine, "google:gemini-3-pro", 60, "found it " * 60)[0] == 1


def test_a_single_use_result_is_reduced_below_the_floor() -> None:
    engine = TokenEngine(EstimatingCounter(), 128_000)
    engine.append(UserMessage("go"))
    call = ToolCall("c", "read", "{}")
    for message in (AssistantMessage((call,)), ToolMessage("c", "read", "a page " * 200, retain="once")):
        engine.append(message)
    engine.plan(FIXED, 4_000, "openai:gpt-5")
    assert engine.fit() == []
    engine.view()
    engine.append(AssistantMessage((ToolCall("d", "read", "{}"),)))
    engine.append(ToolMessage("d", "read", "ok"))
    engine.plan(FIXED, 4_000, "openai:gpt-5")
    assert len(engine.fit()) == 1


def test_a_smaller_limit_takes_effect_with_the_next_plan() -> None:
    engine = TokenEngine(EstimatingCounter(), 128_000, Retention(summaries=False))
    drive(engine, "openai:gpt-5", 30, "found it " * 60)
    engine.plan(FIXED, 1_000, "openai:gpt-5")
    assert engine.fit() == []
    engine.view()
    engine.limit = 4_000
    engine.plan(FIXED, 1_000, "openai:gpt-5")
    assert engine.fit()
    assert engine.tokens <= 3_000
