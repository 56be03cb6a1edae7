"""One model call: a hook's question and a summary are retried, limited, reserved and booked like a turn's request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from concertino import (
    AgentConfig,
    Budget,
    Chat,
    Limits,
    MemoryStore,
    Message,
    Resources,
    Retention,
    Retry,
    RunContext,
    RunError,
    RunResult,
    Scope,
    ToolOrchestrator,
    tool,
)
from concertino.errors import AuthenticationError, BadRequestError, RateLimitError
from concertino.events import AttemptFailed, TextDelta
from concertino.providers import RateLimit
from concertino.testing import Answer, ScriptedModel, call

from .conftest import Reserving

AT_ONCE = Retry(first=0.0)


class Asks(AgentConfig[None]):
    """Asks the model before the conversation and after it."""

    async def prepare(self, run: RunContext[None]) -> Sequence[Message]:
        self.topic = await run.ask("What is this about?")
        return ()

    async def conclude(self, run: RunContext[None], text: str) -> str:
        return f"{self.topic}: {text} " + await run.ask("What follows?")


def limited() -> RateLimitError:
    return RateLimitError("429", provider="scripted")


def booked(result: RunResult) -> list[tuple[int, str]]:
    """Return tokens and source of each usage record."""
    return [(record.tokens.total, record.source) for record in result.usage]


@pytest.mark.parametrize("durable", [False, True])
async def test_a_question_is_retried_like_a_turn(durable: bool) -> None:
    resources = Resources(store=MemoryStore() if durable else None, retry=AT_ONCE)
    with ScriptedModel(limited(), "tea", limited(), "3.5", limited(), "buy") as model:
        run = ToolOrchestrator(Chat("go", model=model), Asks(), resources=resources)
        seen = [event async for event in run.stream()]
    assert run.result is not None
    assert (run.result.status, run.result.text) == ("completed", "tea: 3.5 buy")
    assert booked(run.result) == [(0, "measured"), (15, "measured")] * 3
    assert [event.error for event in seen if isinstance(event, AttemptFailed)] == ["RateLimitError: 429"] * 3


async def test_a_question_reserves_each_attempt() -> None:
    store = Reserving()
    with ScriptedModel(limited(), "tea", "3.5", limited(), "buy") as model:
        chat = Chat("go", model=model, budget=Budget(tokens=100_000))
        result = await ToolOrchestrator(chat, Asks(), resources=Resources(store=store, retry=AT_ONCE)).run()
    (account,) = await store.accounts(Scope(), run_id=result.run_id)
    assert (account.spent_tokens, account.reserved_tokens) == (45, 0)
    assert [each.id for each in store.reserved] == [record.id for record in result.usage]


async def test_a_question_turns_to_the_fallback() -> None:
    with ScriptedModel(AuthenticationError("no key"), "3.5", "buy") as model, ScriptedModel("tea", name="b") as other:
        resources = Resources(retry=AT_ONCE, fallback=["scripted:b"], models=lambda _: other)
        result = await ToolOrchestrator(Chat("go", model=model), Asks(), resources=resources).run()
    assert result.text == "tea: 3.5 buy"
    assert other.requests[0].model == "b"


async def test_a_question_that_is_refused_fails_with_the_reason() -> None:
    with ScriptedModel(BadRequestError("no such field")) as model, pytest.raises(RunError, match="no such field"):
        await ToolOrchestrator(Chat("go", model=model), Asks(), resources=Resources(retry=AT_ONCE)).run()


async def test_a_question_waits_for_the_rate_limit() -> None:
    limit, asked, free = RateLimit(max_concurrent=1), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        asked.set()
        await free.wait()

    first, second = ScriptedModel(Answer(text="x", before=hold)), ScriptedModel("tea", "3.5", "buy")
    resources = Resources(rate_limits={"scripted": limit})
    other = asyncio.create_task(ToolOrchestrator(Chat("go", model=first), AgentConfig(), resources=resources).run())
    await asked.wait()
    run = ToolOrchestrator(Chat("go", model=second), Asks(), resources=resources)
    task = asyncio.create_task(run.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert second.requests == [], "the only slot of the key is taken"
    free.set()
    assert (await task).text == "tea: 3.5 buy"
    assert (await other).text == "x"


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    return f"A line of what was found, number {n}. " * 40


async def test_a_summary_is_retried_like_a_turn() -> None:
    class Looks(AgentConfig[None]):
        tools = (look,)

    store = MemoryStore()
    model = ScriptedModel(*[call("look", n=n) for n in range(20)], "done", summaries=[limited(), *["part"] * 20])
    resources = Resources(
        store=store,
        retry=AT_ONCE,
        retention=Retention(frees=400, price=1e9, floor=0),
        limits=lambda *_: Limits(context=100_000, output=500, tool_calls=100),
    )
    chat = Chat("go", model=model, budget=Budget(tokens=10_000_000))
    run = ToolOrchestrator(chat, Looks(), resources=resources)
    seen = [event async for event in run.stream()]
    result = run.result
    assert result is not None
    assert result.report is not None
    assert (result.status, result.report.summaries > 0) == ("completed", True)
    assert [event.error for event in seen if isinstance(event, AttemptFailed)] == ["RateLimitError: 429"]
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["done"], "a summary is not shown"
    assert len(result.usage) == len(model.requests)
    assert booked(result).count((0, "measured")) == 1
    (account,) = await store.accounts(Scope(), run_id=run.run_id)
    assert (account.spent_tokens, account.reserved_tokens) == (sum(tokens for tokens, _ in booked(result)), 0)
