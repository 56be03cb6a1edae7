"""The floor: a conversation that fills a small share of the window is never edited to save cost."""

from __future__ import annotations

from concertino.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from concertino.token_engine import EstimatingCounter, Retention, TokenEngine
from concertino.usage import Tokens

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
        assert list(engine.preview()) == list(engine.record())


def test_results_are_reduced_once_the_view_has_passed_the_floor() -> None:
    engine = TokenEngine(EstimatingCounter(), 20_000, Retention(summaries=False, floor=0.5))
    drive(engine, "openai:gpt-5", 25, "found it " * 60)
    assert engine.tokens < 9_000
    assert engine.edits == []
    drive(engine, "openai:gpt-5", 100, "found it " * 60)
    assert engine.edits


def test_without_a_floor_cost_alone_decides() -> None:
    engine = TokenEngine(EstimatingCounter(), 128_000, Retention(floor=0))
    jobs, _ = drive(engine, "openai:gpt-4.1-mini", 120, "ok")
    assert jobs


def test_the_floor_of_a_very_large_window_is_bounded() -> None:
    engine = TokenEngine(EstimatingCounter(), 2_000_000, Retention(summaries=False))
    drive(engine, "google:gemini-3-pro", 200, "found it " * 150)
    assert engine.edits


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
