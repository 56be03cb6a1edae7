"""Runs behind the limit of a provider's key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    Retry,
    RunError,
    RunResult,
    Runtime,
    Scope,
    SharedRateLimit,
    ToolOrchestrator,
    ToolRegistry,
)
from concertino.agents import delegate
from concertino.errors import RateLimitError, StorageError
from concertino.events import AttemptFailed
from concertino.providers import RateLimit
from concertino.providers import rate_limit as rate_limit_module
from concertino.testing import Answer, ScriptedModel, call

ONCE = Retry(attempts=1)


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."


class Other(ScriptedModel):
    """A model of another provider."""

    provider = "other"


async def run(model: Any, limit: RateLimit, user: str = "u", tools: Any = None) -> RunResult:
    session = Scope(user=user)
    chat = Chat(model=model, message="go", scope=session)
    registry = None if tools is None else ToolRegistry(tools)
    return await ToolOrchestrator(
        chat, AgentConfig(), registry, resources=Resources(rate_limits={"scripted": limit}, retry=ONCE)
    ).run()


async def when(state: Callable[[], bool]) -> None:
    while not state():  # noqa: ASYNC110 - a state of the limit, which tells nobody
        await asyncio.sleep(0)


async def test_a_parent_that_waits_for_its_children_holds_no_place() -> None:
    limit = RateLimit(max_concurrent=1)
    child = delegate(Child(), description="Answers.")
    turn = Answer(calls=tuple(call("child", query=f"{number}?") for number in range(3)))
    scripts = {"the child": ["one", "two", "three"]}
    with ScriptedModel(turn, "All three answered.", scripts=scripts) as model:
        result = await run(model, limit, tools=[child])
    assert result.text == "All three answered."
    assert (limit.active, limit.waiting) == (0, 0)


async def test_one_user_with_many_runs_does_not_keep_another_out() -> None:
    limit, order = RateLimit(max_concurrent=1), list[str]()

    async def ask(user: str) -> None:
        with ScriptedModel("hello") as model:
            await run(model, limit, user)
        order.append(user)

    async with limit.admit("someone", 1):
        runs = [asyncio.create_task(ask("many")) for _ in range(4)]
        await when(lambda: limit.waiting == 4)
        runs.append(asyncio.create_task(ask("one")))
        await when(lambda: limit.waiting == 5)
    await asyncio.gather(*runs)
    assert order.index("one") <= 1


async def test_a_rate_limit_that_one_run_meets_holds_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(rate_limit_module, "monotonic", lambda: now[0])
    limit = RateLimit()
    with ScriptedModel(RateLimitError("slow", retry_after=30.0)) as model, pytest.raises(RunError, match="slow"):
        await run(model, limit, "a")
    with ScriptedModel("hello") as model:
        other = asyncio.create_task(run(model, limit, "b"))
        await when(lambda: limit.waiting == 1)
        assert model.requests == []
        now[0] += 30.0
        async with limit.admit("c", 1):
            assert (await other).text == "hello"


async def test_no_burst_follows_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(rate_limit_module, "monotonic", lambda: now[0])
    limit, sent = RateLimit(requests_per_minute=600), list[int]()
    limit.pause(30.0)

    async def ask(number: int) -> None:
        async with limit.admit("a", 1):
            sent.append(number)

    waiting = [asyncio.create_task(ask(number)) for number in range(20)]
    await when(lambda: limit.waiting == 20)
    for seconds, admitted in ((29.9, 0), (0.15, 0), (0.06, 1), (1.0, 11)):
        now[0] += seconds
        limit.pause(0.0)  # looks at the queue again
        await when(lambda: len(sent) == 20 - limit.waiting)
        assert len(sent) == admitted
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_the_usage_of_an_answer_corrects_its_estimate() -> None:
    limit = RateLimit(tokens_per_minute=10_000)
    for _ in range(5):  # by their estimates, each takes about half a minute
        with ScriptedModel("hello") as model:
            await run(model, limit)
    assert (limit.active, limit.waiting) == (0, 0)


async def test_a_request_that_no_minute_admits_fails_at_once_and_goes_to_the_fallback() -> None:
    limit = RateLimit(tokens_per_minute=1_000)
    with ScriptedModel() as model, pytest.raises(RunError, match=r"admits 1,000 a minute: raise tokens_per_minute"):
        await run(model, limit)
    chat, gates = Chat(model="other:big", message="go"), {"other": limit}
    with ScriptedModel("fine") as small, Other(name="big") as big:
        models = {"other:big": big, "scripted:script": small}
        resources = Resources(
            rate_limits=gates, fallback=["scripted:script"], models=models.__getitem__, retry=Retry(longest=inf)
        )
        result = await ToolOrchestrator(chat, AgentConfig(), resources=resources).run()
    assert result.text == "fine"


async def test_a_run_stays_open_while_the_quotas_cannot_be_read() -> None:
    class Away(MemoryStore):
        away = True

        async def draw_quota(self, *arguments: Any) -> Any:
            if self.away:
                raise StorageError("the server is away")
            return await super().draw_quota(*arguments)

    store, scope = Away(), Scope(user="u")
    with ScriptedModel("hello") as model:
        limits = {"scripted": SharedRateLimit(store, "key", requests_per_minute=60)}
        resources = Resources(store=store, model=model, models=lambda _: model, rate_limits=limits)
        async with Runtime([AgentConfig()], resources, sweep=3_600.0) as runtime:
            started = await runtime.start(Chat("go", scope=scope), "agent")
            result = await started.result()
            assert "'key' cannot be read: the server is away" in (result.error or "")
            stored = await store.run(scope, started.id)
            assert stored is not None
            assert stored.end is None, "any process may resume it"
            store.away = False
            assert (await (await runtime.resume(scope, started.id)).result()).text == "hello"


TOO_LONG = RateLimitError("no more of this one today", retry_after=3600.0)


async def asked(model: Any, limit: RateLimit, other: Any) -> tuple[RunResult | None, list[AttemptFailed]]:
    """What becomes of a run behind *limit*, with *other* as fallback; and what failed in it."""
    gates, fallback = {"scripted": limit}, [f"scripted:{other.name}"]
    chat = Chat(model=model, message="go")
    orchestrator = ToolOrchestrator(
        chat, AgentConfig(), resources=Resources(rate_limits=gates, fallback=fallback, models=lambda name: other)
    )
    failed = [event async for event in orchestrator.stream() if isinstance(event, AttemptFailed)]
    return orchestrator.result, failed


async def test_a_delay_that_is_too_long_to_wait_for_is_no_reason_to_hang() -> None:
    limit = RateLimit()
    with ScriptedModel(TOO_LONG) as big, ScriptedModel("one", "two", name="small") as small:
        result, _ = await asked(big, limit, small)
        assert result is not None
        assert result.text == "one", "another model of the same key is asked for real"
        result, (failed,) = await asked(big, limit, small)
    assert result is not None
    assert result.text == "two"
    assert failed.error.startswith("RateLimitError: not sent: ")
    assert "3600 s remain" in failed.error
    assert [(record.model, record.tokens.total) for record in result.usage] == [("script", 0), ("small", 15)]
    with ScriptedModel() as model, pytest.raises(RunError, match="s remain"):
        await run(model, limit)


async def test_who_waits_is_told_as_soon_as_a_model_is_closed() -> None:
    limit = RateLimit(max_concurrent=1)
    with ScriptedModel() as big, ScriptedModel("fine", name="small") as small:
        async with limit.admit("someone", 1):
            waiting = asyncio.create_task(asked(big, limit, small))
            await when(lambda: limit.waiting == 1)
            limit.pause(3600.0, "scripted:script")
            await when(lambda: limit.waiting == 0)
        result, failed = await waiting
    assert result is not None
    assert (result.text, len(failed)) == ("fine", 1)


async def test_a_run_that_is_cancelled_while_it_waits_leaves_its_place() -> None:
    limit = RateLimit(max_concurrent=1)
    with ScriptedModel() as model:
        orchestrator = ToolOrchestrator(
            Chat(model=model, message="go"), AgentConfig(), resources=Resources(rate_limits={"scripted": limit})
        )
        async with limit.admit("someone", 1):
            waiting = asyncio.create_task(orchestrator.run())
            await when(lambda: limit.waiting == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert limit.waiting == 0
    assert limit.active == 0
    assert orchestrator.result is not None
    (record,) = orchestrator.result.usage
    assert (record.tokens.total, record.how) == (0, "not sent, so not billed")
