"""What is done when a model cannot be asked: once more, another one, in turn, or not; and each attempt is booked."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import aclosing
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Budget,
    Chat,
    MemoryStore,
    ModelRequest,
    Resources,
    Retry,
    RunError,
    Scope,
    ToolOrchestrator,
)
from concertino.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    OverloadedError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
)
from concertino.events import AttemptFailed, StepStarted, TextDelta
from concertino.orchestrator import requests
from concertino.providers import OutputSchema, RateLimit
from concertino.testing import Answer, ScriptedModel

AT_ONCE = Retry(first=0.0)


async def events(model: Any, **settings: Any) -> tuple[ToolOrchestrator, list[Any]]:
    chat = Chat(model=model, message="go", **{name: settings.pop(name) for name in settings.keys() & {"budget"}})
    orchestrator = ToolOrchestrator(chat, AgentConfig(), resources=Resources(**{"retry": AT_ONCE, **settings}))
    return orchestrator, [event async for event in orchestrator.stream()]


@pytest.mark.parametrize("store", [None, MemoryStore()])
async def test_what_passes_is_asked_again_and_each_attempt_is_booked(store: Any) -> None:
    with ScriptedModel(OverloadedError("busy", status=529), not_sent(ProviderConnectionError("cut")), "hello") as model:
        orchestrator, seen = await events(model, store=store)
    result = orchestrator.result
    assert result is not None
    assert result.text == "hello"
    assert [event.error.partition(":")[0] for event in seen if isinstance(event, AttemptFailed)] == [
        "OverloadedError",
        "ProviderConnectionError",
    ]
    assert [(record.tokens.total, record.how[:12]) for record in result.usage] == [
        (0, "not answered"),
        (0, "not answered"),
        (15, ""),
    ]
    if store is not None:
        journal = await store.load(OPERATOR, result.run_id)
        assert len(list(requests(journal))) == 3, "each attempt is announced"


async def test_in_the_end_the_error_stands() -> None:
    with ScriptedModel(*[OverloadedError("busy")] * 3) as model, pytest.raises(RunError, match="busy"):
        await ToolOrchestrator(Chat(model=model, message="go"), AgentConfig(), resources=Resources(retry=AT_ONCE)).run()


def not_sent(error: ProviderError) -> ProviderError:
    """Return *error* as raised before the request was sent."""
    error.sent = False
    return error


async def test_a_request_that_was_never_sent_costs_nothing() -> None:
    unreached, silent = not_sent(ProviderTimeoutError("no connection")), ProviderTimeoutError("no answer")
    with ScriptedModel(unreached, silent, "hello") as model:
        orchestrator, _ = await events(model)
    assert orchestrator.result is not None
    first, second, third = orchestrator.result.usage
    assert (first.tokens.total, first.how) == (0, "not answered, so not billed: ProviderTimeoutError")
    assert (second.source, second.cost) == ("unknown", None), "the provider may have read it"
    assert second.tokens.prompt > 0, "a hint"
    assert third.tokens.total == 15


async def test_a_run_stopped_before_its_request_is_sent_costs_nothing() -> None:
    limit = RateLimit(requests_per_minute=60)
    limit.pause(3600.0)
    resources = Resources(rate_limits={"scripted": limit}, retry=Retry(longest=7200.0))
    run = ToolOrchestrator(Chat("go", model=ScriptedModel()), AgentConfig(), resources=resources)
    async with aclosing(run.stream()) as seen:
        async for event in seen:
            if isinstance(event, StepStarted):
                break
    assert run.result is not None
    assert [(record.tokens.total, record.how) for record in run.result.usage] == [(0, "not sent, so not billed")]


async def test_what_is_wrong_is_not_asked_again() -> None:
    with ScriptedModel(BadRequestError("no such field")) as model, pytest.raises(RunError, match="no such field"):
        await ToolOrchestrator(Chat(model=model, message="go"), AgentConfig(), resources=Resources(retry=AT_ONCE)).run()


async def test_an_answer_that_was_seen_is_begun_again_only_if_the_chat_allows_it() -> None:
    broken = Answer(text="half of it", error=OverloadedError("busy"))
    orchestrator, seen = await events(ScriptedModel(broken))
    assert orchestrator.result is not None
    assert (orchestrator.result.status, orchestrator.result.text) == ("failed", "half of it")
    with ScriptedModel(broken, "whole") as model:
        orchestrator, seen = await events(model, retry=Retry(first=0.0, restart=True))
    assert orchestrator.result is not None
    assert (orchestrator.result.status, orchestrator.result.text) == ("completed", "whole")
    assert [record.source for record in orchestrator.result.usage] == ["unknown", "measured"]
    place = next(n for n, event in enumerate(seen) if isinstance(event, AttemptFailed))
    assert any(isinstance(event, TextDelta) for event in seen[:place])


async def test_another_model_is_asked_when_one_cannot_be() -> None:
    with ScriptedModel(AuthenticationError("wrong key")) as first, ScriptedModel("from the other", name="b") as other:
        orchestrator, _ = await events(first, fallback=["scripted:b"], models=lambda name: other)
    assert orchestrator.result is not None
    assert orchestrator.result.text == "from the other"
    assert other.requests[0].model == "b"
    assert [record.model for record in orchestrator.result.usage] == ["script", "b"]


async def test_a_second_attempt_is_paid_for_like_the_first() -> None:
    store = MemoryStore()
    with ScriptedModel(OverloadedError("busy", status=529), "hello") as model:
        orchestrator, _ = await events(model, store=store, budget=Budget(tokens=50_000))
    (account,) = await store.accounts(Scope(), run_id=orchestrator.run_id)
    assert (account.spent_tokens, account.reserved_tokens) == (15, 0)


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"first": -1.0}, {"first": "x"}, {"longest": float("nan")}])
def test_figures_that_make_no_sense(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Retry(**wrong)


async def test_users_are_admitted_in_turn() -> None:
    limit = RateLimit(max_concurrent=1)
    order: list[str] = []
    free = asyncio.Event()

    async def ask(user: str) -> None:
        async with limit.admit(user, 10):
            order.append(user)
            await free.wait()

    tasks = [asyncio.create_task(ask(user)) for user in ("a", "a", "a", "b", "c")]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*tasks)
    assert order == ["a", "a", "b", "c", "a"], "the first was alone; then one of each"


async def test_who_waits_and_leaves_keeps_nobody() -> None:
    limit, free = RateLimit(max_concurrent=1), asyncio.Event()

    async def ask(user: str) -> str:
        async with limit.admit(user, 1):
            await free.wait()
            return user

    first, second, third = (asyncio.create_task(ask(user)) for user in "abc")
    await asyncio.sleep(0)
    second.cancel()
    free.set()
    assert await first == "a"
    assert await third == "c"


async def test_a_run_goes_through_the_gate_of_its_provider() -> None:
    limit = RateLimit(requests_per_minute=60_000, tokens_per_minute=60_000_000, max_concurrent=1)
    with ScriptedModel("hello") as model:
        orchestrator, _ = await events(model, rate_limits={"scripted": limit})
    assert orchestrator.result is not None
    assert orchestrator.result.text == "hello"


@pytest.mark.parametrize(
    "wrong", [{"requests_per_minute": 0}, {"tokens_per_minute": "x"}, {"max_concurrent": float("nan")}]
)
def test_a_rate_limit_must_be_positive(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        RateLimit(**wrong)


async def test_what_an_agent_sets_in_a_request_is_on_record() -> None:
    class Set(AgentConfig[None]):
        def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
            schema = OutputSchema("answer", {"type": "object"}, strict=False)
            return dataclasses.replace(request, output_schema=schema, temperature=0.0, stop=("x",), breakpoints=(0,))

    store = MemoryStore()
    with ScriptedModel("hello") as model:
        result = await ToolOrchestrator(Chat(model=model, message="go"), Set(), resources=Resources(store=store)).run()
    journal = await store.load(OPERATOR, result.run_id)
    assert journal is not None
    ((_, _, request),) = requests(journal)
    assert dataclasses.replace(request, messages=list(request.messages)) == dataclasses.replace(
        model.requests[0], messages=list(model.requests[0].messages)
    )
