"""Summaries that fail: what they cost in one run, in the runs of a conversation, and in a resumed run."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    Limits,
    MemoryStore,
    Resources,
    Retry,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.context_state import ContextState
from concertino.errors import ContextFloorError, ProviderError, RateLimitError, RunError
from concertino.ids import new_run_id
from concertino.messages import AssistantMessage, Message, Text, UserMessage
from concertino.orchestrator import engine as orchestration
from concertino.testing import Answer, ScriptedModel, asks_for_summary, call
from concertino.token_engine import TokenEngine
from concertino.usage import Tokens

from .kit import COUNTER, FIXED

MODEL = "anthropic:claude-sonnet-4-5"
CUT = Answer(text="cut", stop_reason="length")
SMALL = Resources(limits=lambda *_: Limits(context=8_000, output=500, tool_calls=500), retry=Retry(attempts=1))


async def converse(answers: Sequence[Any], turns: int = 60, words: int = 200) -> list[int]:
    """Send *turns* messages, each in a run with one request; return the runs that asked for a summary."""
    history: list[Message] = []
    context, asked, left = None, [], list(answers)
    for turn in range(turns):
        model = ScriptedModel("word " * words, summaries=left)
        chat = Chat(model=model, message="and " * words, history=history, context=context)
        result = await ToolOrchestrator(chat, AgentConfig(), resources=SMALL).run()
        made = sum(map(asks_for_summary, model.requests))
        asked += [turn] * made
        left = left[made:]
        history, context = [*history, *result.messages], result.context
        assert context is not None
        context = ContextState(**json.loads(json.dumps(dataclasses.asdict(context))))
    return asked


@pytest.mark.parametrize(
    "answer",
    [
        CUT,
        "",
        "\u200b\0" * 50,
        "word " * 9_000,
        [call("look", n=1)],
        ProviderError("no answer"),
        Answer(text="ab", error=OSError()),
    ],
    ids=["cut", "empty", "blank", "too long", "a call", "a provider's error", "a broken stream"],
)
async def test_a_summarizer_that_always_fails_is_asked_twice_in_a_conversation(answer: Any) -> None:
    assert len(await converse([answer] * 100)) == 2


async def test_a_summarizer_that_refused_without_a_bill_is_asked_again_by_the_next_runs() -> None:
    """An outage of some minutes must not end the summaries of a long conversation."""
    asked = await converse([RateLimitError("busy")] * 3 + ["notes"] * 50)
    assert len(asked) > 4


async def test_a_slow_summarizer_is_asked_again_after_runs_that_did_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orchestration, "PATIENCE", 0.0)
    slow = Answer(text="notes", before=asyncio.Event().wait)
    assert len(await converse([slow, slow, *["notes"] * 50], turns=50, words=60)) == 3


async def test_a_summary_that_succeeds_forgets_the_failure_before_it() -> None:
    assert len(await converse([CUT, "notes"] * 50, 90)) > 5


def test_failures_cost_a_small_share_of_the_bill() -> None:
    engine = TokenEngine(COUNTER, 16_000, model=MODEL)
    cost, asked = 0.0, []
    for turn in range(600):
        engine.append(UserMessage("and " * 150))
        plan = engine.plan(FIXED, 1_000, MODEL)
        if plan.job is not None:
            cost += 0.1 * engine.tokens + 5 * 1_000
            asked.append(turn)
            engine.complete(plan.job, None)
            assert len(asked) <= 2 or cost <= 0.1 * engine.bill
        engine.fit()
        prompt = engine.tokens + 60
        engine.view()
        engine.observe(Tokens(prompt=prompt, completion=100))
        engine.append(AssistantMessage((Text("word " * 150),)))
        engine = continued(engine)
    assert len(asked) > 2, "a working summarizer is found again"
    assert asked[2] - asked[1] < 60, "soon enough"


def continued(engine: TokenEngine) -> TokenEngine:
    """Return the engine of the next run."""
    state = ContextState(**json.loads(json.dumps(dataclasses.asdict(engine.state()))))
    following = TokenEngine(COUNTER, 16_000, model=MODEL)
    assert following.start(list(engine.record()), state)
    return following


async def test_a_resumed_run_remembers_its_failures() -> None:
    store, run_id = MemoryStore(), new_run_id()
    assert sum([await summaries_of_a_process(store, run_id, resume=number > 0) for number in range(6)]) == 2


async def summaries_of_a_process(store: MemoryStore, run_id: str, *, resume: bool) -> int:
    """Work on the run until its 20th call; return the number of requests for a summary."""
    calls: list[int] = []

    @tool(effect="read")
    async def look(n: int) -> str:
        """Look something up; the process ends in the 20th call."""
        calls.append(n)
        if len(calls) == 20:
            orchestrator.park()
            await asyncio.Event().wait()
        return "a line of text\n" * 120

    model = ScriptedModel(*[call("look", n=n) for n in range(20)], summaries=[CUT] * 100)
    chat = Chat(model=model) if resume else Chat(model=model, message="go")
    resources = dataclasses.replace(SMALL, store=store)
    tools = ToolRegistry([look])
    orchestrator = ToolOrchestrator(chat, AgentConfig(), tools, resources=resources, run_id=run_id, resume=resume)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(orchestrator.run())
    return sum(map(asks_for_summary, model.requests))


@pytest.mark.parametrize("words", [1, 60, 150])
@pytest.mark.parametrize("window", [400, 500, 600, 700, 800, 900, 1_000, 1_500, 2_000, 3_000])
async def test_a_tiny_window_asks_for_at_most_one_summary_for_each_request(window: int, words: int) -> None:
    """A summary that cannot make the request fit is not asked for again; the run goes on, or says what is too large."""

    @tool(effect="read")
    async def look(n: int) -> str:
        """Look."""
        return "line of text with error 42\n" * 300

    model = ScriptedModel(*[call("look", n=n) for n in range(10)], "done", summaries=["word " * words] * 600)
    resources = Resources(limits=lambda *_: Limits(context=window, output=window // 4, tool_calls=100))
    chat = Chat(model=model, message="go")
    try:
        result = await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([look]), resources=resources).run()
    except RunError as error:
        assert window <= 600
        assert isinstance(error.__cause__, ContextFloorError)
    else:
        assert result.text == "done"
    assert sum(map(asks_for_summary, model.requests)) < 11
