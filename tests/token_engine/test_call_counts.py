"""Guards: the Python calls that one step costs the token engine, at any length of the conversation.

A ceiling may only fall; raising one needs a reason in tests/guards/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from concertino.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from concertino.token_engine import EstimatingCounter, Retention, TokenEngine
from concertino.usage import Tokens

FIXED = {"system prompt": "Be brief. " * 50, "tools": "{}"}
RESULT = "The committee decided to postpone the meeting. " * 21  # about 1 kB
PATIENT = Retention(price=0, summaries=False)
STEPS = 40


def python_calls(work: Callable[[], None]) -> int:
    """Return the number of calls to Python functions that *work* makes."""
    calls = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def step(number: int) -> list[Message]:
    call = ToolCall(f"call_{number}", "work", '{"n": 1}')
    return [AssistantMessage((call,), "tool_calls"), ToolMessage(call.id, "work", RESULT, handle=f"h{number}")]


def conversation(messages: int) -> list[Message]:
    return [UserMessage("go"), *(message for number in range(messages // 2) for message in step(number))]


def calls_of_a_step(messages: int, model: str) -> float:
    """Return the mean calls of a step after a history of *messages*; no edit is due in any of them."""
    engine = TokenEngine(EstimatingCounter(), 4_000_000, PATIENT, clock=lambda: 1.0)
    engine.start(conversation(messages))
    steps = [step(10_000 + number) for number in range(STEPS + 1)]

    def work(*numbers: int) -> None:
        for number in numbers:
            engine.plan(FIXED, 4_000, model)
            engine.fit()
            engine.view()
            sent = engine.tokens_before
            engine.observe(Tokens(prompt=sent, cached=sent))
            for message in steps[number]:
                engine.append(message)
            engine.allowance(1)

    work(0)
    edits, _ = engine.edits, engine.tokens  # the history is counted
    calls = python_calls(lambda: work(*range(1, STEPS + 1)))
    assert engine.edits == edits
    return calls / STEPS


@pytest.mark.parametrize(
    ("messages", "model", "ceiling"),
    [
        (50, "openai:gpt-5", 38),
        (50, "scripted:m", 38),
        (50, "anthropic:claude-sonnet-4-5", 60),
        (5_000, "openai:gpt-5", 41),
        (5_000, "scripted:m", 41),
        (5_000, "anthropic:claude-sonnet-4-5", 66),
    ],
)
def test_a_step_makes_few_calls_at_any_length(messages: int, model: str, ceiling: int) -> None:
    assert calls_of_a_step(messages, model) <= ceiling


def test_a_run_of_one_request_counts_nothing_and_makes_few_calls() -> None:
    counter = EstimatingCounter()

    def work() -> None:
        engine = TokenEngine(counter, 128_000, PATIENT, clock=lambda: 1.0)
        engine.append(UserMessage("What time is it?"))
        engine.plan(FIXED, 4_000, "openai:gpt-5")
        engine.fit()
        engine.view()
        engine.observe(Tokens(prompt=30))
        engine.append(AssistantMessage((Text("Half past ten."),)))
        engine.state()

    work()
    assert python_calls(work) <= 70


@pytest.mark.parametrize("messages", [50, 5_000])
def test_appending_a_call_and_its_result_makes_few_calls(messages: int) -> None:
    engine = TokenEngine(EstimatingCounter(), 4_000_000, PATIENT)
    engine.start(conversation(messages))
    call, result = step(9_999)

    def work() -> None:
        engine.append(call)
        engine.append(result)

    assert python_calls(work) <= 10


@pytest.mark.parametrize("messages", [50, 5_000])
def test_continuing_a_conversation_makes_few_calls(messages: int) -> None:
    counter = EstimatingCounter()
    engine = TokenEngine(counter, 4_000_000, PATIENT, clock=lambda: 1.0)
    engine.start(conversation(messages))
    engine.plan(FIXED, 4_000, "openai:gpt-5")
    engine.fit()
    engine.view()
    state = engine.state()
    record = [*engine.record(), *step(9_999)]
    following = TokenEngine(counter, 4_000_000, PATIENT, clock=lambda: 1.0)

    def work() -> None:
        assert following.start(record, state, last=engine)
        following.plan(FIXED, 4_000, "openai:gpt-5")

    assert python_calls(work) <= 111
