"""What is booked of an attempt that was under way when its process was killed: what is known, and no more."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Budget,
    Chat,
    Limits,
    MemoryStore,
    Message,
    ModelRequest,
    Resources,
    RunContext,
    Scope,
    ToolCall,
    ToolOrchestrator,
    tool,
)
from concertino.errors import StorageError, UnknownRunError
from concertino.runtime import Runtime
from concertino.storage import Claim
from concertino.testing import Answer, ScriptedModel, call
from concertino.token_engine import EstimatingCounter
from concertino.usage import Tokens, UsageRecord

from .kit import state

QUESTION = "word and more " * 500
OUTPUT = 200
COUNTED = "its prompt is estimated"


@tool(effect="read")
async def look(n: int) -> str:
    """Look for something that has a long description, so that it counts."""
    return f"seen {n}"


class Plain(AgentConfig[None]):
    name = "plain"
    prompt = "You help."
    tools = (look,)


class Prepares(Plain):
    async def prepare(self, run: RunContext[None]) -> Sequence[Message]:
        await run.ask(QUESTION)
        return ()


class Concludes(Plain):
    async def conclude(self, run: RunContext[None], text: str) -> str:
        return await run.ask(QUESTION)


class Asks(Plain):
    """Asks beside the request that is under way: of a call that begins before the answer is whole."""

    start_tools_early = True

    async def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow:
        await run.ask(QUESTION)
        return Allow()


def counted(request: ModelRequest) -> int:
    """Return the tokens of all texts of *request*."""
    texts = [request.system, *(spec.text for spec in request.tools), *(m.text for m in request.messages)]
    return sum(map(EstimatingCounter().count, texts))


async def killed(
    agent: AgentConfig[Any], model: ScriptedModel, requests: int, store: MemoryStore | None = None, **given: Any
) -> list[UsageRecord]:
    """What is booked as lost where a process is killed with the last of so many *requests* under way."""
    store = store or MemoryStore()
    chat = Chat(model=model, message="go", **given)
    first = ToolOrchestrator(chat, agent, resources=Resources(store=store, limits=lambda *_: Limits(output=OUTPUT)))
    task = asyncio.create_task(first.run())
    await state(lambda: len(model.requests) == requests)
    stored = await store.run(OPERATOR, first.run_id)
    assert stored is not None
    await store.release(Claim(root_id=first.run_id, scope=Scope(), epoch=stored.epoch, owner=stored.owner, seconds=0.0))
    await Runtime((), Resources(store=store)).stop(OPERATOR, first.run_id)
    found = [record for record in await store.usage(OPERATOR, first.run_id) if record.source == "unknown"]
    task.cancel()
    await asyncio.wait([task])
    return found


def hangs(*calls: Any) -> Answer:
    return Answer(calls=calls, midway=asyncio.Event().wait) if calls else Answer(before=asyncio.Event().wait)


@pytest.mark.parametrize("budget", [None, Budget(tokens=90_000)])
async def test_a_request_of_the_conversation_is_counted_with_its_tools(budget: Budget | None) -> None:
    model = ScriptedModel(hangs())
    (lost,) = await killed(Plain(), model, 1, budget=budget)
    exact = counted(model.requests[0])
    assert abs(lost.tokens.prompt - exact) <= max(20, exact // 5)
    assert lost.tokens.prompt > EstimatingCounter().count(look.spec.text)
    assert lost.how.endswith(COUNTED)


@pytest.mark.parametrize(("agent", "before"), [(Prepares(), ()), (Concludes(), ("said",))])
@pytest.mark.parametrize("reserved", [False, True])
async def test_a_question_beside_the_conversation_is_as_known_as_it_is(
    agent: AgentConfig[Any], before: tuple[str, ...], reserved: bool
) -> None:
    model = ScriptedModel(*before, hangs())
    budget = Budget(tokens=90_000) if reserved else None
    (lost,) = await killed(agent, model, len(before) + 1, budget=budget)
    assert lost.tokens.prompt == counted(model.requests[-1])
    assert lost.how.endswith(COUNTED)


async def test_a_question_beside_a_request_that_is_under_way() -> None:
    model = ScriptedModel(hangs(call("look", n=1)), hangs())
    request, question = await killed(Asks(), model, 2)
    exact = counted(model.requests[0])
    assert abs(request.tokens.prompt - exact) <= max(20, exact // 5)
    assert request.how.endswith(COUNTED)
    assert question.tokens.prompt == counted(model.requests[1])
    assert question.how.endswith(COUNTED)


async def test_a_lost_attempt_is_settled_when_the_bill_is_known() -> None:
    """The worst case leaves the budget, and the figures of the bill stay."""
    store, model = MemoryStore(), ScriptedModel(hangs())
    (lost,) = await killed(Plain(), model, 1, store, budget=Budget(tokens=90_000))
    (account,) = await store.accounts(Scope(), run_id=lost.run_id)
    assert account.spent_tokens >= lost.tokens.prompt + OUTPUT
    runtime = Runtime((), Resources(store=store))
    bill = dataclasses.replace(lost, tokens=Tokens(prompt=7, completion=2), source="measured", how="")
    await runtime.settle_usage(Scope(), bill)
    assert list(await store.usage(OPERATOR, lost.run_id)) == [bill]
    (account,) = await store.accounts(Scope(), run_id=lost.run_id)
    assert (account.spent_tokens, account.reserved_tokens) == (9, 0)
    with pytest.raises(StorageError, match="is measured"):
        await runtime.settle_usage(Scope(), bill)
    with pytest.raises(UnknownRunError):
        await runtime.settle_usage(Scope(), dataclasses.replace(bill, run_id="run_never"))
