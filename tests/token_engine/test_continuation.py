"""The next run of a conversation: it continues the last run's view, and counts only what is new."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import pytest

from concertino.context_state import ContextState
from concertino.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from concertino.token_engine import (
    EstimatingCounter,
    Retention,
    Summarize,
    TokenEngine,
)
from concertino.usage import Tokens
from tests.token_engine.test_call_counts import python_calls

FIXED = {"system prompt": "Be brief.", "tools": ""}
MODEL = "openai:gpt-5"
FRUGAL = Retention(frees=300, price=1e9, floor=0)


class CountingCounter(EstimatingCounter):
    """Records the texts that it counts."""

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return super().count(text)


def step(number: int) -> list[Message]:
    call = ToolCall(f"call_{number}", "look", "{}")
    found = ToolMessage(call.id, "look", f"{number}: " + "found it " * 60)
    return [AssistantMessage((Text("Let me look. " * 20), call), "tool_calls"), found]


def run(engine: TokenEngine, first: int, steps: int) -> None:
    """Drive a run of *steps* steps; each summary is made at once."""
    engine.append(UserMessage(f"Question {first}"))
    for number in range(first, first + steps):
        plan = engine.plan(FIXED, 1_000, MODEL)
        if plan.job is not None:
            engine.complete(plan.job, f"They looked {number} times.")
        engine.fit()
        engine.view()
        engine.observe(Tokens(prompt=engine.tokens + 20))
        for message in step(number):
            engine.append(message)


def finished(counter: EstimatingCounter, steps: int = 20) -> tuple[TokenEngine, ContextState]:
    engine = TokenEngine(counter, 60_000, FRUGAL, clock=lambda: 1.0)
    run(engine, 0, steps)
    assert engine.tokens  # all messages are counted
    return engine, engine.state()


def started(
    counter: EstimatingCounter,
    messages: Sequence[Message],
    state: ContextState | None,
    last: TokenEngine | None = None,
    retention: Retention = FRUGAL,
) -> TokenEngine:
    engine = TokenEngine(counter, 60_000, retention, clock=lambda: 1.0)
    assert engine.start(messages, state, last=last)
    return engine


def test_a_continued_engine_gives_the_same_view_as_its_state() -> None:
    counter = CountingCounter()
    last, state = finished(counter)
    record, shown = list(last.record()), list(last.view())
    by_state, by_fold = started(counter, record, state), started(counter, record, state, last)
    assert list(by_state.view()) == list(by_fold.view()) == shown
    assert by_state.tokens == by_fold.tokens
    for engine in (by_state, by_fold):
        run(engine, 20, 20)
    assert list(by_state.view()) == list(by_fold.view())
    assert by_state.edits == by_fold.edits
    assert by_state.state() == by_fold.state()
    assert by_state.report == by_fold.report


def test_only_new_messages_are_counted_and_read_by_the_next_run() -> None:
    counter = CountingCounter()
    last, state = finished(counter, 200)
    record = [*last.record(), AssistantMessage((Text("That is all I found."),))]
    counter.counted.clear()
    engine = started(counter, record, state, last)
    engine.append(UserMessage("A question that is new to the counter"))
    assert engine.tokens > 0
    assert counter.counted == ["That is all I found.", "A question that is new to the counter"]


def test_several_runs_continue_one_engine() -> None:
    counter = EstimatingCounter()
    last, state = finished(counter)
    record = list(last.record())
    shown = list(last.view())
    first = started(counter, record, state, last)
    run(first, 20, 20)
    second = started(counter, record, state, last)
    assert list(second.view()) == shown
    assert len(second.record()) == len(record)


def test_an_engine_is_not_continued_where_it_does_not_apply() -> None:
    counter = CountingCounter()
    last, state = finished(counter)
    record, shown = list(last.record()), list(last.view())
    copies = [*record[:3], UserMessage("Another question"), *record[4:]]
    engine = TokenEngine(counter, 60_000, FRUGAL)
    assert not engine.start(copies, state, last=last)
    assert list(engine.record()) == copies
    shorter = TokenEngine(counter, 60_000, FRUGAL)
    assert not shorter.start(record[:9], state, last=last)
    other = CountingCounter()
    assert list(started(other, record, state, last).view()) == shown
    assert other.counted, "another counter counts anew"
    patient = started(counter, record, state, last, Retention(floor=0))
    assert list(patient.view()) == shown
    assert list(last.view()) == shown


@pytest.mark.parametrize("how", ["state", "journal"])
def test_the_next_summary_reaches_beyond_the_earlier_ones(how: str) -> None:
    counter = EstimatingCounter()
    last, state = finished(counter)
    summaries = [edit for edit in last.edits if isinstance(edit, Summarize)]
    assert summaries
    record = list(last.record())
    if how == "state":
        engine = started(counter, record, ContextState(**json.loads(json.dumps(vars_of(state)))))
    else:
        engine = TokenEngine(counter, 60_000, FRUGAL, clock=lambda: 1.0)
        for message in record:
            engine.append(message)
        engine.restore(last.edits, last.bill)
    jobs = []
    for number in range(50, 70):
        plan = engine.plan(FIXED, 1_000, MODEL)
        engine.fit()
        engine.view()
        if plan.job is not None:
            jobs.append(plan.job)
            break
        for message in step(number):
            engine.append(message)
    (job,) = jobs
    assert job.end > max(edit.end for edit in summaries)


def vars_of(state: ContextState) -> dict[str, object]:
    return {
        "edits": state.edits,
        "prepared": state.prepared,
        "sent_at": state.sent_at,
        "model": state.model,
        "bill": state.bill,
    }


def test_a_message_is_counted_once_for_the_window_and_the_journal() -> None:
    counter = CountingCounter()
    engine = TokenEngine(counter, 60_000)
    message = ToolMessage("c1", "look", "found it " * 100)
    engine.append(message)
    assert engine.estimated_tokens > 200
    assert counter.counted == []
    assert engine.tokens_of(message) == EstimatingCounter().count("c1" + message.content)
    assert engine.tokens > engine.tokens_of(message)
    assert counter.counted == ["c1" + message.content]


def test_messages_of_the_summary_stay_recallable_after_a_start() -> None:
    counter = EstimatingCounter()
    last, state = finished(counter)
    engine = started(counter, list(last.record()), state, last)
    handle = next(edit.handle for edit in last.edits if isinstance(edit, Summarize))
    found = engine.recall(handle)
    assert any("Let me look." in m.text for m in found if isinstance(m, AssistantMessage))
    assert any("They looked" in m.text for m in engine.view() if isinstance(m, UserMessage))


def test_earlier_summaries_cost_another_process_few_calls() -> None:
    """The fingerprint of the last summary is that of the messages of all: they are not read once for each."""
    engine, state = finished(EstimatingCounter(), 200)
    record = list(engine.record())
    last = dataclasses.replace(state, edits=state.edits[-1:])
    assert len(state.edits) > 5

    def calls(state: ContextState) -> int:
        return python_calls(lambda: void(started(EstimatingCounter(), record, state)))

    assert calls(state) - calls(last) <= 40 * len(state.edits)


def void(_: object) -> None:
    """Return nothing."""


def test_the_edits_up_to_a_change_are_applied() -> None:
    engine, state = finished(EstimatingCounter(), 60)
    record = list(engine.record())
    second = state.edits[1]
    record[second[2] - 1] = ToolMessage("other", "look", "another result")
    following = TokenEngine(EstimatingCounter(), 60_000, FRUGAL, clock=lambda: 1.0)
    assert not following.start(record, state)
    assert following.edits == engine.edits[:1]
