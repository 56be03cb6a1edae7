"""The summary that is due below or in a full window: its price, by the formula of docs/context.md, and its span."""

from __future__ import annotations

import pytest

from concertino.cache_rules import cache_rule
from concertino.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from concertino.token_engine import Retention, SummaryJob, TokenEngine
from concertino.token_engine.counting.sizes import FRAME
from concertino.usage import Tokens

from .kit import COUNTER, FIXED

PRICE = 0.5
"""Price of a summary, as a share of the bill so far."""


def due(model: str, bill: float, instructions: int) -> tuple[SummaryJob | None, int]:
    """Return the summary that is due at *bill*, and the tokens of the view; *instructions*: tokens that stay."""
    engine = TokenEngine(COUNTER, 100_000, Retention(floor=10_000, users=0.4, price=PRICE, frees=1_000))
    engine.append(UserMessage("abc" * instructions))
    for number in range(30):
        engine.append(AssistantMessage((ToolCall(f"c{number}", "work", "{}"),)))
        engine.append(ToolMessage(f"c{number}", "work", "abc" * 1_000))
    engine.append(UserMessage("go on"))
    engine.bill = bill
    return engine.plan(FIXED, 4_000, model).job, engine.tokens


@pytest.mark.parametrize("instructions", [10, 20_000])
@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-4-5", "openai:gpt-5"])
def test_a_summary_is_due_once_it_costs_the_share_of_the_bill(model: str, instructions: int) -> None:
    rule = cache_rule(*model.split(":"))
    job, view = due(model, 1e9, instructions)
    assert job is not None
    span = job.tokens
    assert view - span >= instructions, "the user's messages stay"
    written = min(0.08 * span, 1_500)
    price = rule.read * view + rule.output * (written + 600) + rule.write * written
    price += (rule.write - rule.read) * (view - span)
    assert due(model, 1.001 * price / PRICE, instructions)[0] is not None
    assert due(model, 0.999 * price / PRICE, instructions)[0] is None


def test_the_request_for_a_summary_leaves_tokens_for_its_own_instructions() -> None:
    """The window is nearly full: the last messages are not summarized yet."""
    most, fixed = 16_000, sum(map(COUNTER.count, FIXED.values()))
    for first in range(0, 120, 10):
        engine = TokenEngine(COUNTER, most + 4_000)
        engine.append(UserMessage("abc" * first))
        for number in range(1_000):
            engine.append(AssistantMessage((ToolCall(f"c{number}", "work", "{}"),)))
            engine.append(ToolMessage(f"c{number}", "work", "abc" * 80))
            if engine.tokens > most / 1.02 - fixed - 160:
                break
        job = engine.plan(FIXED, 4_000, "openai:gpt-5").job
        assert job is not None
        asked = sum(engine.tokens_of(message) + FRAME for message in engine.record()[: job.end])
        assert asked + fixed + 400 <= most / 1.02
        assert job.end > 200, "as much as possible"


def test_only_failures_in_a_row_end_the_summaries() -> None:
    engine = TokenEngine(COUNTER, 20_000)
    engine.append(UserMessage("go"))
    failed = []
    for number, text in enumerate((None, "The notes.", None, "More notes.", None, None, "Not asked for.")):
        while (job := engine.plan(FIXED, 4_000, "openai:gpt-5").job) is None and engine.tokens < 15_000:
            engine.append(AssistantMessage((ToolCall(f"c{number}", "work", "{}"),)))
            engine.append(ToolMessage(f"c{number}", "work", "abc" * 1_000))
        failed.append(None if job is None else not engine.complete(job, text))
        engine.fit()
    assert failed == [True, False, True, False, True, True, None]


def test_a_summary_of_messages_that_were_omitted_meanwhile_is_not_applied() -> None:
    engine = TokenEngine(COUNTER, 20_000)
    engine.append(UserMessage("go"))
    for number in range(14):
        engine.append(AssistantMessage((ToolCall(f"c{number}", "work", "{}"),)))
        engine.append(ToolMessage(f"c{number}", "work", "abc" * 1_000))
    job = engine.plan(FIXED, 4_000, "openai:gpt-5").job
    assert job is not None
    assert engine.fit() == []
    engine.append(AssistantMessage((ToolCall("large", "work", "{}"),)))
    engine.append(ToolMessage("large", "work", "abc" * 6_000))
    assert engine.plan(FIXED, 4_000, "openai:gpt-5").job is None, "it is being made"
    assert len(engine.fit()) == 1
    assert not engine.complete(job, "The notes.")
    engine.plan(FIXED, 4_000, "openai:gpt-5")
    assert engine.fit() == []


def grow(engine: TokenEngine, model: str) -> int:
    """Add steps until an edit is made; return the tokens of the last view without one."""
    largest = 0
    while engine.plan(FIXED, 4_000, model) and not engine.fit():
        largest = engine.tokens
        call_id = f"c{len(engine.record())}"
        engine.append(AssistantMessage((ToolCall(call_id, "work", "{}"),)))
        engine.append(ToolMessage(call_id, "work", "abc" * 80))
    return largest


def test_a_rejection_lowers_the_limit_of_its_model_by_a_quarter() -> None:
    engine = TokenEngine(COUNTER, 20_000, Retention(summaries=False))
    engine.append(UserMessage("go"))
    most = grow(engine, "openai:gpt-5")
    engine.observe(Tokens(prompt=engine.tokens))
    rejected = engine.tokens
    engine.lower_limit()
    assert grow(engine, "openai:gpt-5") == 0
    assert 0.7 * rejected < grow(engine, "openai:gpt-5") <= 0.75 * rejected
    assert grow(engine, "openai:gpt-4.1") > 0.98 * most
