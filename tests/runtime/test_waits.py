"""Calls that wait: for a result from outside, or for somebody who allows them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    Deny,
    MemoryStore,
    Operator,
    Pending,
    RunContext,
    RunResult,
    Scope,
    TenantScope,
    Tool,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    tool,
)
from concertino.errors import ConfigurationError, NotAllowedError, RunStateError, UnknownRunError, UnknownWaitError
from concertino.events import CallWaiting, Notice, ToolDone, ToolFailed
from concertino.runtime import Runtime
from concertino.storage import Store
from concertino.testing import ScriptedModel, call
from concertino.waits import Wait

from .kit import Steady, ended, is_valid, runtime, seen, texts

paid: list[tuple[int, str]] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


@tool
async def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    paid.append((amount, context.key))
    return f"paid {amount}"


@tool(effect="idempotent", remote=True)
async def order(what: str, context: ToolContext) -> Pending:
    """Order; the shop answers later."""
    return Pending(note=what)


@tool(effect="idempotent", remote=True)
def order_in_time(what: str) -> Pending:
    """Order, with a time limit."""
    return Pending(seconds=0.01)


class Desk(AgentConfig[None]):
    """Asks before it pays."""

    name = "desk"
    prompt = "You are a desk."
    tools: Sequence[Tool] = (pay, order, order_in_time)
    asks: Ask = Ask(who=("ann", "eve"), note="large")

    def authorize_tool_call(
        self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]
    ) -> Allow | Deny | Ask:
        return self.asks if call.name == "pay" else Allow()


async def suspended(process: Runtime, model: ScriptedModel, agent: AgentConfig[Any] | str = "desk") -> list[Wait]:
    """Begin a run and wait until nothing but waits is left."""
    result = await (await process.start(Chat(model=model, message="go"), agent)).result()
    assert result.status == "suspended"
    return list(result.waiting)


async def taken_up(store: Store, model: ScriptedModel, agent: AgentConfig[Any], wait: Wait) -> RunResult:
    """The rest of a run, in another process."""
    result = await (await runtime(store, model, agent).resume(OPERATOR, wait.run_id)).result()
    assert is_valid(result.messages)
    return result


@pytest.mark.parametrize(
    ("answer", "failed", "wanted"),
    [
        ("sent", False, "sent"),
        ({"a": [1, "é"]}, False, '{"a": [1, "é"]}'),
        ("sold out", True, "sold out"),
        ("", True, "the call failed"),
    ],
)
async def test_a_result_from_outside(store: Store, answer: Any, failed: bool, wanted: str) -> None:
    model = Steady(call("order", what="tea"), "end")
    (wait,) = await suspended(runtime(store, model, Desk()), model)
    assert (wait.kind, wait.tool, wait.note, wait.agent_path, wait.call_id) == (
        "result",
        "order",
        "tea",
        "desk",
        "call_1",
    )
    assert json.loads(wait.arguments) == {"what": "tea"}
    stored = await store.run(OPERATOR, wait.run_id)
    assert (stored.state, stored.owner) == ("suspended", "")

    answered = await runtime(store, model).resolve(Operator("shop"), wait.key, answer, failed=failed)
    assert answered.won
    assert not (await runtime(store, model).resolve(OPERATOR, wait.key, "another")).won
    live = await runtime(store, model, Desk()).resume(OPERATOR, wait.run_id)
    events = await seen(live)
    result = await live.result()
    assert texts(result.messages) == [wanted]
    assert len([e for e in events if isinstance(e, ToolFailed if failed else ToolDone)]) == 1
    assert await store.waits(OPERATOR, root_id=wait.root_id) == ()


async def test_a_result_that_does_not_come_in_time(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "concertino")
    model = Steady(call("order_in_time", what="tea"), "end")
    async with runtime(store, model, Desk(), sweep=0.005) as process:
        live = await process.start(Chat(model=model, message="go"), "desk")
        await ended(store, live.id)
        (wait,) = await store.waits(OPERATOR, run_id=live.id, open=False)
        result = await process.result(OPERATOR, live.id)
        assert texts(result.messages) == ["no result arrived in time"]
        late = await process.resolve(OPERATOR, wait.key, "too late")
        assert (late.won, late.wait.resolution.verdict) == (False, "expired")
        assert process.counts.late_answers == 1
    assert f"an answer to {wait.key} changed nothing: 'result', and 'expired' counts" in caplog.messages


@pytest.mark.parametrize("asks", [Ask(seconds=0.01), Ask()])
async def test_an_approval_that_nobody_gives(store: Store, asks: Ask) -> None:
    model, agent = Steady(call("pay", amount=1), "end"), Desk()
    agent.asks = asks
    process = runtime(store, model, agent)
    (wait,) = await suspended(process, model)
    if asks.seconds is None:
        again = await (await process.resume(OPERATOR, wait.run_id)).result()
        assert (again.status, [w.key for w in again.waiting]) == ("suspended", [wait.key])
        return
    await process.look()  # forgets the suspended run
    while (live := process.live(OPERATOR, wait.run_id)) is None:  # until the wait has expired
        await process.look()
    assert texts((await live.result()).messages) == ["approval timed out"]
    assert paid == []


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (None, "paid 5"),
        ({"amount": 7}, "paid 7"),
    ],
)
async def test_allowed_as_it_is_or_edited(store: Store, arguments: dict[str, Any] | None, wanted: str) -> None:
    model = Steady(call("pay", amount=5), "end")
    (wait,) = await suspended(runtime(store, model, Desk()), model)
    assert (wait.kind, wait.who, wait.note) == ("approval", ("ann", "eve"), "large")
    answered = await runtime(store, model).approve(Operator("eve"), wait.key, arguments=arguments)
    result = await taken_up(store, model, Desk(), wait)
    (text,) = texts(result.messages)
    assert wanted in text
    assert paid == ([(int(text.split()[1]), wait.key)] if text.startswith("paid") else [])
    kept = (await store.wait(OPERATOR, wait.key)).resolution
    assert (kept.verdict, kept.by) == ("approved", "eve")
    assert kept.arguments == (None if arguments is None else json.dumps(arguments))
    assert answered.wait.resolution == kept
    assert [m.is_error for m in result.messages if m.role == "tool"] == [not text.startswith("paid")]


@pytest.mark.parametrize("arguments", [{"amount": "much"}, {"sum": 7}, {}])
async def test_arguments_that_do_not_fit_leave_the_approval_open(store: Store, arguments: dict[str, Any]) -> None:
    model = Steady(call("pay", amount=5), "end")
    (wait,) = await suspended(runtime(store, model, Desk()), model)
    desk = runtime(store, model)
    with pytest.raises(ConfigurationError, match=r"the arguments do not fit pay: "):
        await desk.approve(Operator("eve"), wait.key, arguments=arguments)
    assert (await store.wait(OPERATOR, wait.key)).resolution is None
    assert (await desk.approve(Operator("eve"), wait.key, arguments={"amount": 6})).won


async def test_denied(store: Store) -> None:
    model = Steady(call("pay", amount=5), "end")
    (wait,) = await suspended(runtime(store, model, Desk()), model)
    assert (await runtime(store, model).deny(Operator("ann"), wait.key, "too much")).won
    result = await taken_up(store, model, Desk(), wait)
    assert texts(result.messages) == ["not allowed by ann: too much"]
    assert paid == []


async def test_an_approver_answers_in_an_own_scope(store: Store) -> None:
    """The people whom the call names need not own the run; those of another tenant find nothing."""
    model = Steady(call("pay", amount=5), "end")
    process = runtime(store, model, Desk())
    chat = Chat(model=model, message="go", scope=Scope("acme", "carla"))
    (wait,) = (await (await process.start(chat, "desk")).result()).waiting
    for stranger in (
        Scope("rival", "ann"),
        Scope("acme", "bob"),
        Scope("acme"),
        Scope("", "ann"),
        TenantScope("rival"),
    ):
        for unknown in (wait.key, "nobody:1.0"):
            with pytest.raises(UnknownWaitError, match=f"no call waits under '{unknown}'"):
                await process.approve(stranger, unknown)
            with pytest.raises(UnknownWaitError, match=f"no call waits under '{unknown}'"):
                await process.deny(stranger, unknown)
            with pytest.raises(UnknownWaitError):
                await process.resolve(stranger, unknown, "paid")
    for reader in (Scope("acme", "carla"), TenantScope("acme"), TenantScope("acme", by="bob"), OPERATOR):
        with pytest.raises(NotAllowedError):  # it reaches the run, and is not named
            await process.approve(reader, wait.key)
    answered = await process.approve(Scope("acme", "ann"), wait.key)
    assert (answered.won, answered.wait.resolution and answered.wait.resolution.by) == (True, "ann")
    assert not (await process.deny(TenantScope("acme", by="eve"), wait.key)).won
    with pytest.raises(UnknownRunError):
        await process.resume(Scope("acme", "ann"), wait.run_id)
    assert (await (await process.resume(Scope("acme", "carla"), wait.run_id)).result()).text == "end"


async def test_a_call_without_names_is_answered_by_a_scope_that_reaches_it(store: Store) -> None:
    class Anyone(Desk):
        asks = Ask()

    model = Steady(call("pay", amount=5), call("pay", amount=6), "end")
    process = runtime(store, model, Anyone())
    chat = Chat(model=model, message="go", scope=Scope("acme", "carla"))
    (wait,) = (await (await process.start(chat, "desk")).result()).waiting
    with pytest.raises(UnknownWaitError):
        await process.approve(Scope("acme", "ann"), wait.key)
    answered = await process.approve(Scope("acme", "carla"), wait.key)
    assert (answered.won, answered.wait.resolution and answered.wait.resolution.by) == (True, "carla")
    (other,) = (await (await process.resume(TenantScope("acme"), wait.run_id)).result()).waiting
    assert (await process.deny(TenantScope("acme", by="dora"), other.key)).won


async def test_who_may_answer_and_how(store: Store) -> None:
    model = Steady([call("pay", amount=5), call("order", what="tea")], "end")
    process = runtime(store, model, Desk())
    pays, orders = sorted(await suspended(process, model), key=lambda wait: wait.key)
    for by in ("", "bob", "ANN"):
        with pytest.raises(NotAllowedError):
            await process.approve(Operator(by), pays.key)
        with pytest.raises(NotAllowedError):
            await process.deny(Operator(by), pays.key)
    with pytest.raises(RunStateError, match="use approve or deny"):
        await process.resolve(OPERATOR, pays.key, "paid")
    for method in (process.approve, process.deny):
        with pytest.raises(RunStateError, match="use resolve"):
            await method(Operator("ann"), orders.key)
        with pytest.raises(UnknownWaitError):
            await method(OPERATOR, "nobody:1.0")
    with pytest.raises(UnknownWaitError):
        await process.resolve(OPERATOR, "nobody:1.0", "x")
    assert len(await store.waits(OPERATOR, root_id=pays.root_id)) == 2


async def test_arguments_that_changed_after_they_were_shown_are_refused(store: Store) -> None:
    class Changed(Desk):
        def preprocess_tool_arguments(self, run: RunContext[None], call: ToolCall) -> dict[str, Any]:
            return {"amount": 5_000}

    model = Steady(call("pay", amount=5), "end")
    for arguments in (None, {"amount": 6}):
        (wait,) = await suspended(runtime(store, model, Desk()), model)
        await runtime(store, model).approve(Operator("ann"), wait.key, arguments=arguments)
        result = await taken_up(store, model, Changed(), wait)
        assert texts(result.messages) == ["refused: the arguments differ from those shown for approval"]
    assert paid == []


@pytest.mark.parametrize("store", ["file"], indirect=True)  # a store in memory answers at once
async def test_what_a_resumed_tree_needs_is_read_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    model, agent = Steady(call("pay", amount=5), "end"), Desk()
    (wait,) = await suspended(runtime(store, model, agent), model)
    await runtime(store, model).approve(Operator("ann"), wait.key)
    reads: list[str] = []
    for name in ("load", "open_tree", "accounts", "usage", "operations", "waits", "runs"):
        note_calls(monkeypatch, store, name, reads)
    await taken_up(store, model, agent, wait)
    assert {name for name in reads if "returned" not in name} == {"load", "open_tree"}


def note_calls(monkeypatch: pytest.MonkeyPatch, store: Store, name: str, reads: list[str]) -> None:
    """Note when a method of *store* is called, and when it has returned."""
    method = getattr(store, name)

    async def noted(*arguments: Any, **options: Any) -> Any:
        reads.append(name)
        result = await method(*arguments, **options)
        reads.append(f"{name} has returned")
        return result

    monkeypatch.setattr(store, name, noted)


async def test_the_hook_is_not_asked_again(store: Store) -> None:
    model, agent = Steady(call("pay", amount=5), "end"), Desk()
    (wait,) = await suspended(runtime(store, model, agent), model)
    await runtime(store, model).approve(Operator("ann"), wait.key)
    strict = Desk()
    strict.asks = Ask(who=("nobody",))
    assert texts((await taken_up(store, model, strict, wait)).messages) == ["paid 5"]


async def test_the_first_answer_wins_whoever_gives_it(store: Store) -> None:
    model = Steady(call("pay", amount=5), "end")
    async with runtime(store, model, Desk()) as one, runtime(store, model, Desk()) as two:
        (wait,) = await suspended(one, model)
        answers = await asyncio.gather(
            *(p.approve(Operator("ann"), wait.key, arguments={"amount": n}) for n, p in enumerate((one, two) * 4)),
            *(p.deny(Operator("eve"), wait.key, "no") for p in (one, two)),
        )
        assert [answer.won for answer in answers].count(True) == 1
        assert len({answer.wait.resolution.id for answer in answers}) == 1
        await ended(store, wait.run_id)
    assert len(paid) <= 1
    assert len(model.requests) == 2, "one of them took the run up"


async def test_an_answer_before_the_call_waits(store: Store) -> None:
    """The shop is faster than the tool that orders."""

    @tool(effect="idempotent", remote=True)
    async def fast(context: ToolContext) -> Pending:
        """Order."""
        assert (await process.resolve(OPERATOR, context.key, "here already")).won
        with pytest.raises(UnknownWaitError):
            await process.approve(OPERATOR, context.key + "1")
        return Pending()

    agent = Desk()
    agent.tools = (fast,)
    model = Steady(call("fast"), "end")
    process = runtime(store, model, agent)
    result = await (await process.start(Chat(model=model, message="go"), agent)).result()
    assert (result.status, texts(result.messages)) == ("completed", ["here already"])


@pytest.mark.parametrize(
    ("made", "says"), [(call("pay", amount=5), "an approval"), (call("order", what="tea"), "a result from outside")]
)
async def test_without_a_store_nothing_can_wait(made: Any, says: str) -> None:
    model = Steady(made, "end")
    run = ToolOrchestrator(Chat(model=model, message="go"), Desk())
    (notice,) = [event async for event in run.stream() if isinstance(event, Notice)]
    assert (notice.code, notice.text.endswith("pass Resources(store=...)")) == ("no_store", True)
    assert texts(run.result.messages) == [f"cannot wait for {says}: the run has no store"]
    assert paid == []


async def test_invalid_arguments_are_not_shown_to_anybody() -> None:
    store, model = MemoryStore(), Steady(call("pay", amount="much"), "end")
    live = await runtime(store, model, Desk()).start(Chat(model=model, message="go"), "desk")
    events = await seen(live)
    assert (await live.result()).status == "completed"
    assert not [event for event in events if isinstance(event, CallWaiting)]


async def test_an_approver_reads_the_arguments_as_the_user_wrote_them(store: Store) -> None:
    @tool
    async def mail(to: str) -> str:
        """Mail."""
        return to

    class Post(Desk):
        tools = (mail,)

        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
            return Ask()

    model = Steady(call("mail", to="Jürgen in Köln 🍎"), "end")
    (wait,) = await suspended(runtime(store, model, Post()), model)
    assert "Jürgen in Köln 🍎" in wait.arguments
    (stored,) = await store.waits(OPERATOR, run_id=wait.run_id)
    assert stored.arguments == wait.arguments
