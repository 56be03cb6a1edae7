"""Budgets hold, whatever the model, its tools and its sub-agents do; and reaching one ends in an answer."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import (
    OPERATOR,
    AgentConfig,
    Budget,
    Chat,
    Finish,
    Limits,
    MemoryStore,
    ModelRequest,
    Resources,
    Retry,
    RunContext,
    RunResult,
    Scope,
    TenantScope,
    Tokens,
    ToolOrchestrator,
    UsageRecord,
    UserMessage,
    tool,
)
from concertino.agents import delegate
from concertino.errors import ConfigurationError, OverloadedError, StorageError
from concertino.events import Notice, RunEvent
from concertino.runtime import Runtime
from concertino.storage import Entry, Head
from concertino.testing import Answer, ScriptedModel, call
from concertino.usage import total

from ..runtime.kit import state

OUTPUT = 200


def few(scope: object, model: object, agent: object) -> Limits:
    return Limits(output=OUTPUT, tool_calls=30)


@tool(effect="read")
async def add(a: int, b: int) -> str:
    """Add."""
    return str(a + b)


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    tools = (add,)


class Desk(AgentConfig[None]):
    name = "desk"
    prompt = "You are a desk."
    tools = (add, delegate(Child(), description="A child."))


def asked(request: ModelRequest) -> int:
    """Tokens of a request, rather too few than too many."""
    return len(request.system + "".join(str(getattr(m, "text", "")) for m in request.messages)) // 6


def priced(provider: str, model: str, tokens: Tokens, *_: object) -> tuple[Decimal | None, str]:
    return Decimal(tokens.prompt) / 1_000 + Decimal(tokens.completion) / 100, "test"


def unpriced(provider: str, model: str, tokens: Tokens, *_: object) -> tuple[Decimal | None, str]:
    return None, ""


def works(request: ModelRequest) -> Any:
    """Calls tools for as long as it may."""
    used = Tokens(prompt=asked(request), completion=request.max_output_tokens or OUTPUT)
    if request.tool_choice == "none":
        return Answer(text="final", tokens=used)
    return Answer(calls=(call("add", a=1, b=2),), tokens=used, before=_others)


async def _others() -> None:
    """Let other runs go on meanwhile, as a real model does: from Python 3.12 on, nothing else here waits."""
    await asyncio.sleep(0)


async def run(
    model: ScriptedModel, store: MemoryStore, agent: AgentConfig[Any] | None = None, **given: Any
) -> tuple[RunResult, list[RunEvent]]:
    shared = {name: given.pop(name) for name in given.keys() - {"budget", "scope"}}
    chat = Chat(model=model, message="go", **given)
    resources = Resources(store=store, **{"limits": few, **shared})
    orchestrator = ToolOrchestrator(chat, agent or Desk(), resources=resources)
    events = [event async for event in orchestrator.stream()]
    assert orchestrator.result is not None
    await settled(store, orchestrator.result, given.get("budget"))
    return orchestrator.result, events


async def settled(store: MemoryStore, result: RunResult, budget: Budget | None) -> None:
    """The account agrees with the ledger, is not overdrawn, and holds nothing back."""
    for account in await store.accounts(Scope(), run_id=result.run_id):
        assert budget == account.budget
        assert (account.reserved_tokens, account.reserved_money) == (0, Decimal(0))
        unknown = any(record.source == "unknown" for record in result.usage)
        assert unknown or account.spent_tokens == total(result.usage).tokens.total
        assert budget.tokens is None or account.spent_tokens <= budget.tokens
        assert budget.money is None or account.spent_money <= budget.money


def notices(events: Sequence[RunEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.code == "budget_reached"]


@pytest.mark.parametrize("tokens", [100, 700, 1_500, 4_000])
async def test_reaching_it_ends_in_an_answer(tokens: int) -> None:
    result, events = await run(ScriptedModel(*[works] * 40), MemoryStore(), budget=Budget(tokens=tokens))
    assert (result.status, result.text) == (("limited", "") if tokens == 100 else ("completed", "final"))
    assert len(notices(events)) == 1
    assert "the run's account" in notices(events)[0]


async def test_enough_is_not_noticed() -> None:
    result, events = await run(ScriptedModel(works, "end"), MemoryStore(), budget=Budget(tokens=100_000))
    assert (result.text, notices(events)) == ("end", [])


answers = st.sampled_from(["add", "two", "child", "text", "fails", "breaks", "silent", "cheap"])


def scripted(kinds: list[str]) -> Mapping[str, Any]:
    steps = iter(kinds)

    def step(request: ModelRequest) -> Any:
        most = request.max_output_tokens or 0
        used = Tokens(prompt=asked(request), completion=most)
        if request.tool_choice == "none":
            return Answer(text="final", tokens=used)
        one = call("add", a=1, b=2)
        children = tuple(call("child", query=f"task {n}") for n in range(3)) if "desk" in request.system else ()
        said = {
            "add": Answer(calls=(one,), tokens=used),
            "two": Answer(text="x", calls=(one, call("nobody")), tokens=used),
            "child": Answer(text="child", calls=children, tokens=used),
            "fails": OverloadedError("busy", status=529),
            "breaks": Answer(text="half", error=OverloadedError("busy")),
            "silent": Answer(calls=(one,), tokens=None),
            "cheap": Answer(calls=(one,), tokens=Tokens(prompt=1, completion=1, reasoning=1)),
        }
        return said.get(next(steps, "text"), Answer(text="said", tokens=used))

    return {"You are": [step] * 500}


@given(st.lists(answers, max_size=14), st.integers(0, 6_000), st.booleans())
@settings(max_examples=25, deadline=None)
def test_never_overdrawn(kinds: list[str], tokens: int, in_money: bool) -> None:
    async def go() -> None:
        budget = Budget(money=Decimal(tokens) * 3 / 1_000) if in_money else Budget(tokens=tokens)
        model = ScriptedModel(scripts=scripted(kinds))
        result, _ = await run(model, MemoryStore(), budget=budget, price=priced)
        assert result.status in ("completed", "limited", "failed")
        assert result.status != "failed" or {"fails", "breaks"} & set(kinds)
        assert result.status != "completed" or result.text
        assert result.text or result.error
        assert len(result.usage) == len(model.requests)

    asyncio.run(go())


@pytest.mark.parametrize("tokens", [1_000, 6_000, 9_000, 30_000])
async def test_sixteen_children_side_by_side(tokens: int) -> None:
    turn = Answer(
        calls=tuple(call("child", query=f"t{n}") for n in range(16)), tokens=Tokens(prompt=100, completion=100)
    )
    model = ScriptedModel(turn, *[works] * 40, scripts={"the child": [works] * 600})
    result, _ = await run(model, MemoryStore(), budget=Budget(tokens=tokens))
    assert (result.status, bool(result.text)) == (("limited", False) if tokens == 1_000 else ("completed", True))
    assert total(result.usage).tokens.total <= tokens
    results = [m for m in result.messages if m.role == "tool" and m.name == "child"]
    assert len(results) == 16
    unanswered = "child could give no answer within the limits"
    assert all(m.content == unanswered for m in results if m.is_error)


async def test_budgets_of_users_and_tenants_hold_across_runs() -> None:
    store = MemoryStore()
    user, tenant = Scope("o", "u"), TenantScope("o")
    await store.set_budget(user, Budget(tokens=3_000))
    await store.set_budget(tenant, Budget(tokens=5_000))

    async def one(name: str) -> tuple[RunResult, list[RunEvent]]:
        return await run(ScriptedModel(*[works] * 40), store, scope=Scope("o", name))

    (first, told), (second, _) = await one("u"), await one("u")
    assert (first.status, first.text, second.status) == ("completed", "final", "completed")
    assert "the user's account" in notices(told)[0]
    others = await asyncio.gather(*(one(f"other {n}") for n in range(4)))
    assert any("the tenant's account" in text for _, events in others for text in notices(events))
    accounts = {account.kind: account for account in await store.accounts(user)}
    spent = [total(result.usage).tokens.total for result, _ in [(first, 0), (second, 0), *others]]
    assert accounts["user"].spent_tokens == spent[0] + spent[1] <= 3_000
    assert accounts["tenant"].spent_tokens == sum(spent) <= 5_000
    assert {accounts["user"].reserved_tokens, accounts["tenant"].reserved_tokens} == {0}
    await store.set_budget(tenant, Budget(tokens=50_000))
    assert (await one("another"))[0].text == "final"


async def test_money() -> None:
    budget = Budget(money=Decimal(10))
    result, events = await run(ScriptedModel(*[works] * 40), MemoryStore(), budget=budget, price=priced)
    spent = total(result.usage).cost
    assert spent is not None
    assert Decimal(5) < spent <= Decimal(10)
    assert (result.status, result.text) == ("completed", "final")
    assert "$" in notices(events)[0]


async def test_money_where_no_price_is_known() -> None:
    model = ScriptedModel()
    result, events = await run(model, MemoryStore(), budget=Budget(money=Decimal(10)), price=unpriced)
    assert result.status == "limited"
    assert "no known price" in (result.error or "")
    assert "no known price" in notices(events)[0]
    assert model.requests == []


class Concludes(Desk):
    def conclude(self, run: RunContext[None], text: str) -> str:
        return text or "I could not even begin."


class Refuses(Desk):
    def on_limit(self, run: RunContext[None], reason: str) -> Finish:
        return Finish(f"ended: {reason}")


@pytest.mark.parametrize(
    ("agent", "status", "says"),
    [
        (Desk(), "limited", "go"),
        (Concludes(), "completed", "I could not even begin."),
        (Refuses(), "completed", "ended: budget"),
    ],
)
async def test_no_room_at_all(agent: AgentConfig[None], status: str, says: str) -> None:
    model = ScriptedModel()
    result, events = await run(model, MemoryStore(), agent, budget=Budget(tokens=1))
    assert (result.status, result.steps, result.usage) == (status, 0, ())
    assert bool(result.text) == (status == "completed") != bool(result.error)
    assert result.messages[-1].text == says
    assert len(notices(events)) == 1
    assert model.requests == []


@pytest.mark.parametrize("how", ["fails", "breaks", "stopped"])
async def test_what_was_reserved_is_given_back(how: str) -> None:
    store, never = MemoryStore(), asyncio.Event()
    endings = {
        "fails": OverloadedError("busy", status=529),
        "breaks": Answer(text="half of it", error=OverloadedError("busy")),
        "stopped": Answer(text="half of it", midway=never.wait),
    }
    model = ScriptedModel(endings[how])
    async with Runtime(
        [Desk()], Resources(store=store, models=lambda name: model, limits=few, retry=Retry(attempts=1))
    ) as process:
        live = await process.start(Chat(model=model, message="go", budget=Budget(tokens=9_000)), "desk")
        await state(lambda: bool(model.requests))
        if how == "stopped":
            (account,) = await store.accounts(Scope(), run_id=live.id)
            assert account.reserved_tokens > OUTPUT
            await process.stop(OPERATOR, live.id)
        result = await live.result()
    (record,) = result.usage
    assert record.source == {"fails": "measured", "breaks": "unknown", "stopped": "estimated"}[how]
    await settled(store, result, Budget(tokens=9_000))


class Interrupts(MemoryStore):
    """Stops the run while a request is written, and returns only after that."""

    def __init__(self) -> None:
        super().__init__()
        self.stop: Callable[[], None] = lambda: None

    async def append(self, entry: Entry) -> Head:
        head = await super().append(entry)
        if entry.reserve is not None:
            self.stop()
            await asyncio.sleep(0)
        return head


@pytest.mark.parametrize("how", ["stop", "park"])
async def test_a_request_that_is_stopped_before_it_is_sent_costs_nothing(how: str) -> None:
    model, budget = ScriptedModel("never asked"), Budget(tokens=9_000)
    async with Interrupts() as store:
        run = ToolOrchestrator(
            Chat(model=model, message="go", budget=budget), Desk(), resources=Resources(store=store, limits=few)
        )
        store.stop = getattr(run, how)
        await asyncio.wait([asyncio.create_task(run.run())])
        (account,) = await store.accounts(Scope(), run_id=run.run_id)
        assert (account.reserved_tokens, account.spent_tokens, model.requests) == (0, 0, [])
        if how == "park":
            store.stop = lambda: None
            again = ToolOrchestrator(
                Chat(model=model), Desk(), run_id=run.run_id, resume=True, resources=Resources(store=store, limits=few)
            )
            result = await again.run()
            assert [record.source for record in result.usage] == ["measured"]
            await settled(store, result, budget)


class Enlarges(Desk):
    """Puts as many messages of its own into the second request as the conversation has."""

    def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
        if run.state.step == 1:
            return request
        return dataclasses.replace(request, messages=(UserMessage("word and more " * 3_000), *request.messages[1:]))


async def test_an_agents_own_messages_are_counted_though_they_are_as_many() -> None:
    model = ScriptedModel(call("add", a=1, b=2), *[works] * 3)
    result, events = await run(model, MemoryStore(), Enlarges(), budget=Budget(tokens=3_000))
    assert (result.status, result.text) == ("limited", "")
    assert len(model.requests) == len(notices(events)) == 1


async def test_a_lost_attempt_costs_what_was_reserved_for_it() -> None:
    """As if the process had been killed: nobody settles."""
    store, never = MemoryStore(), asyncio.Event()
    model, second = ScriptedModel(Answer(text="x", before=never.wait)), ScriptedModel("end")
    first = ToolOrchestrator(
        Chat(model=model, message="go", budget=Budget(tokens=9_000)),
        Desk(),
        resources=Resources(store=store, limits=few),
    )
    task = asyncio.create_task(first.run())
    await state(lambda: bool(model.requests))
    (before,) = await store.accounts(Scope(), run_id=first.run_id)
    await store.release(_claim(first))
    result = await ToolOrchestrator(
        Chat(model=second), Desk(), run_id=first.run_id, resume=True, resources=Resources(store=store, limits=few)
    ).run()
    (after,) = await store.accounts(Scope(), run_id=first.run_id)
    assert [record.source for record in result.usage] == ["unknown", "measured"]
    assert after.spent_tokens == before.reserved_tokens + result.usage[1].tokens.total
    assert after.reserved_tokens == 0
    task.cancel()
    await asyncio.wait([task])
    assert (await store.run(OPERATOR, first.run_id)).end.status == "completed", "who has lost a run does not end it"


def _claim(orchestrator: ToolOrchestrator) -> Any:
    assert orchestrator._run is not None
    return orchestrator._run.tree.claim


async def test_a_budget_needs_a_store() -> None:
    with pytest.raises(ConfigurationError, match="store"):
        ToolOrchestrator(Chat(model=ScriptedModel(), message="go", budget=Budget(tokens=1)), Desk())


class Discounts(Desk):
    def calculate_usage(self, run: RunContext[Any], record: UsageRecord) -> UsageRecord:
        return dataclasses.replace(record, tokens=Tokens(-5_000, 0))


@pytest.mark.parametrize("budget", [None, Budget(tokens=9_000)])
async def test_negative_usage_never_lowers_a_bill(budget: Budget | None) -> None:
    credited = Answer(text="hello", tokens=Tokens(prompt=-5_000, completion=1))
    result, _ = await run(ScriptedModel(credited), MemoryStore(), budget=budget)
    assert (result.status, result.text) == ("completed", "hello")
    (record,) = result.usage
    assert (record.source, record.tokens.negative) == ("estimated", False)
    assert record.tokens.prompt > 0


async def test_negative_usage_of_a_failed_attempt_is_not_booked() -> None:
    failure = OverloadedError("busy", provider="scripted")
    failure.tokens = Tokens(prompt=-5_000)
    result, _ = await run(ScriptedModel(failure, "hello"), MemoryStore())
    assert result.text == "hello"
    assert all(not record.tokens.negative for record in result.usage)


async def test_a_hook_cannot_return_negative_usage() -> None:
    store = MemoryStore()
    result, _ = await run(ScriptedModel("hello"), store, Discounts(), budget=Budget(tokens=9_000))
    assert result.status == "failed"
    assert "calculate_usage" in (result.error or "")
    (record,) = result.usage
    assert record.tokens.total > 0
    with pytest.raises(StorageError, match="negative"):
        await store.settle_usage(Scope(), dataclasses.replace(record, tokens=Tokens(-1)))
