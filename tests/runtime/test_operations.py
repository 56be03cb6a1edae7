"""Operations of the real engine: no suspension spins, no bad entry locks a run, and no answer is lost or forged."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    MemoryStore,
    ModelRequest,
    Operator,
    Pending,
    Resources,
    RunContext,
    Scope,
    SqliteStore,
    Tool,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    tool,
)
from concertino.agents import delegate
from concertino.errors import RunClaimedError, StorageError, UnknownWaitError
from concertino.messages import AssistantMessage, ToolMessage
from concertino.runtime import Runtime
from concertino.testing import ScriptedModel, call

from .kit import Steady


@tool(effect="once")
async def pay(n: int, context: ToolContext) -> str:
    """Pay."""
    context.deps.append(n)
    return f"paid {n}"


class Clerk(AgentConfig[None]):
    name = "clerk"
    tools: Sequence[Tool] = (pay,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Any:
        return Ask(who=("ann",)) if call.name == "pay" else Allow()


class Boss(Clerk):
    name = "boss"
    tools = (pay, delegate(Clerk(), description="A clerk."))


def boss_and_clerks(request: ModelRequest) -> Any:
    if any(isinstance(message, ToolMessage) for message in request.messages):
        return "done"
    if "clerk" not in {spec.name for spec in request.tools}:
        return call("pay", n=9)
    return [call("pay", n=1), call("clerk", query="a"), call("clerk", query="b")]


async def test_approvals_one_after_another_are_all_taken() -> None:
    """Once one of several approvals is answered, later suspensions still suspend, and the last answer counts."""
    paid: list[int] = []
    store, model = MemoryStore(), ScriptedModel(*[boss_and_clerks] * 20)
    runtime = Runtime([Boss()], Resources(store=store, models=lambda _: model, deps=paid))
    live = await runtime.start(Chat("x", model=model), "boss")
    assert (await live.result()).status == "suspended"
    for left in (2, 1, 0):
        wait, *_ = await store.waits(OPERATOR, root_id=live.id)
        assert (await runtime.approve(Operator("ann"), wait.key)).won
        live = await runtime.resume(OPERATOR, live.id)
        result = await live.result()
        assert len(result.waiting) == left
    assert (result.status, sorted(paid)) == ("completed", [1, 9, 9])
    assert await store.operations(Scope(), root_id=live.id) == ()


async def test_a_resume_without_a_new_answer_suspends_again() -> None:
    """The calls that wait are not started again, so the agent is asked about each of them once."""
    asked: list[str] = []

    class Cautious(Clerk):
        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Any:
            asked.append(call.arguments)
            return super().authorize_tool_call(run, call, arguments)

    model = Steady([call("pay", n=1), call("pay", n=2)], "done")
    store, paid = MemoryStore(), list[int]()
    runtime = Runtime([Cautious()], Resources(store=store, models=lambda _: model, deps=paid))
    live = await runtime.start(Chat("x", model=model), "clerk")
    await live.result()
    first, second = await store.waits(OPERATOR, root_id=live.id)
    await runtime.approve(Operator("ann"), first.key)
    for _ in range(3):
        live = await runtime.resume(OPERATOR, live.id)
        assert (await live.result()).status == "suspended"
    await runtime.deny(Operator("ann"), second.key, "no")
    live = await runtime.resume(OPERATOR, live.id)
    assert (await live.result()).status == "completed"
    assert paid == [1]
    assert asked == ['{"n": 1}', '{"n": 2}']


class Waits(AgentConfig[None]):
    name = "waits"

    def __init__(self, *tools: Any) -> None:
        self.tools = tools


@tool(effect="idempotent", remote=True)
async def order() -> Pending:
    """Order."""
    return Pending(seconds=3600)


async def damaged(path: Path, statement: str) -> tuple[SqliteStore, Runtime, str]:
    """Suspend a run, then damage its journal."""
    store = await SqliteStore.open(path)
    model = ScriptedModel(call("order"), "done")
    runtime = Runtime([Waits(order)], Resources(store=store, models=lambda _: model))
    live = await runtime.start(Chat("x", model=model, scope=Scope(user="ann")), "waits")
    assert (await live.result()).status == "suspended"
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    return store, runtime, live.id


DAMAGES = {
    "a newer entry": "UPDATE journal SET version = 9 WHERE seq = 1",
    "an entry without content": "UPDATE journal SET body = '{}' WHERE seq = 1",
    "an entry that is not JSON": "UPDATE journal SET body = 'x' WHERE seq = 2",
    "a damaged start": "UPDATE journal SET body = '{}' WHERE seq = 0",
    "damaged messages": "UPDATE messages SET body = 'x'",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_run_with_a_damaged_journal_can_be_stopped_and_erased(tmp_path: Path, damage: str) -> None:
    store, runtime, run_id = await damaged(tmp_path / "runs.db", DAMAGES[damage])
    async with store:
        with pytest.raises(StorageError):
            await runtime.resume(OPERATOR, run_id)
        receipt = await runtime.stop(OPERATOR, run_id)
        assert [work.name for work in receipt.stopped] == ["order"]
        stored = await store.run(OPERATOR, run_id)
        assert stored is not None and stored.end is not None
        assert stored.end.status == "cancelled"
        assert (await store.erase(Scope(user="ann"))).runs == 1


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_run_with_a_damaged_journal_can_be_erased_by_force(tmp_path: Path, damage: str) -> None:
    store, _, _ = await damaged(tmp_path / "runs.db", DAMAGES[damage])
    async with store:
        with pytest.raises(StorageError, match="stop"):
            await store.erase(Scope(user="ann"))
        assert (await store.erase(Scope(user="ann"), force=True)).runs == 1


async def test_a_run_of_a_newer_version_is_left_to_its_processes(tmp_path: Path) -> None:
    store, runtime, run_id = await damaged(tmp_path / "runs.db", DAMAGES["a newer entry"])
    async with store:
        wait, *_ = await store.waits(OPERATOR, root_id=run_id)
        await runtime.resolve(OPERATOR, wait.key, "ordered")
        await runtime.look()
        assert (await store.due(OPERATOR)).ready == (run_id,)


async def test_a_damaged_run_becomes_a_dead_letter(tmp_path: Path) -> None:
    """The watchdog does not try it at every pass, and the reason is on record."""
    path = tmp_path / "runs.db"
    store, runtime, run_id = await damaged(path, "UPDATE journal SET body = '#' || body WHERE seq = 1")
    async with store:
        wait, *_ = await store.waits(OPERATOR, root_id=run_id)
        await runtime.resolve(OPERATOR, wait.key, "ordered")
        await runtime.look()
        stored = await store.run(OPERATOR, run_id)
        assert stored is not None
        assert (stored.state, run_id in (await store.due(OPERATOR)).ready) == ("dead_letter", False)
        assert stored.reason
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE journal SET body = substr(body, 2) WHERE seq = 1")
        connection.close()
        await runtime.retry(OPERATOR, run_id)
        await runtime.look()
        live = runtime.live(OPERATOR, run_id)
        assert live is not None
        assert (await live.result()).status == "completed"


@tool(effect="once")
async def leave() -> str:
    """Leave."""
    raise GeneratorExit


@tool(effect="once", name="leave")
def leave_thread() -> str:
    """Leave from a thread."""
    raise GeneratorExit


@tool(effect="once", name="leave")
async def leave_stream() -> AsyncIterator[str]:
    """Leave in the middle of a stream."""
    yield "half"
    raise GeneratorExit


@tool(effect="read")
async def stay() -> str:
    """Stay."""
    return "here"


@pytest.mark.parametrize("leaves", [leave, leave_thread, leave_stream], ids=["coroutine", "thread", "generator"])
@pytest.mark.parametrize("durable", [True, False])
async def test_a_tool_that_raises_generator_exit_fails_alone(leaves: Tool, durable: bool) -> None:
    model = ScriptedModel([call("leave"), call("stay")], "done")
    resources = Resources(store=MemoryStore() if durable else None)
    result = await ToolOrchestrator(Chat("x", model=model), Waits(leaves, stay), resources=resources).run()
    assert (result.status, result.waiting) == ("completed", ())
    left, stayed = result.messages[2:4]
    assert isinstance(left, ToolMessage)
    assert isinstance(stayed, ToolMessage)
    assert (left.is_error, "GeneratorExit" in left.content, stayed.content) == (True, True, "here")


async def test_a_call_that_is_about_to_ask_cannot_be_answered_early() -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    class Slow(Clerk):
        async def authorize_tool_call(
            self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]
        ) -> Allow | Ask:
            asked.set()
            await go.wait()
            return Ask(who=("ann",))

    paid: list[int] = []
    store, model = MemoryStore(), ScriptedModel(call("pay", n=1), "done")
    runtime = Runtime([Slow()], Resources(store=store, models=lambda _: model, deps=paid))
    live = await runtime.start(Chat("x", model=model), "clerk")
    await asked.wait()
    (operation,) = [o for o in await store.operations(Scope(), run_id=live.id) if o.kind == "tool_call"]
    with pytest.raises(UnknownWaitError):
        await runtime.resolve(OPERATOR, operation.key, "forged")
    go.set()
    assert (await live.result()).status == "suspended"
    assert paid == []


async def test_a_remote_call_may_be_answered_while_it_runs() -> None:
    keys: list[str] = []
    answered = asyncio.Event()

    @tool(effect="once", remote=True)
    async def send(context: ToolContext) -> Pending:
        """Send."""
        keys.append(context.key)
        await answered.wait()
        return Pending()

    store, model = MemoryStore(), ScriptedModel(call("send"), "done")
    runtime = Runtime([Waits(send)], Resources(store=store, models=lambda _: model))
    live = await runtime.start(Chat("x", model=model), "waits")
    while not keys:  # noqa: ASYNC110 - the tool announces nothing else
        await asyncio.sleep(0)
    assert (await runtime.resolve(OPERATOR, keys[0], "early")).won
    assert not (await runtime.resolve(OPERATOR, keys[0], "late")).won
    answered.set()
    result = await live.result()
    assert (result.status, keys) == ("completed", keys[:1])
    message = result.messages[2]
    assert isinstance(message, ToolMessage)
    assert message.content == "early"


async def test_a_remote_call_may_be_answered_while_its_run_is_resumed() -> None:
    """After the resumption has read the open operations, and before it knows what became of the call."""
    keys: list[str] = []
    won: list[bool] = []

    @tool(effect="once", remote=True)
    async def send(context: ToolContext) -> Pending:
        """Send."""
        keys.append(context.key)
        await asyncio.Event().wait()
        return Pending()

    class Sender(Waits):
        async def initialize_agent_state(self, context: Any) -> None:
            if keys:
                won.append((await second.resolve(OPERATOR, keys[0], "early")).won)

    store, model = MemoryStore(), ScriptedModel(call("send"), "done")
    resources = Resources(store=store, models=lambda _: model)
    first, second = (Runtime([Sender(send)], resources, sweep=600) for _ in range(2))
    live = await first.start(Chat("x", model=model), "waits")
    while not keys:  # noqa: ASYNC110 - the tool announces nothing else
        await asyncio.sleep(0)
    await first.close()
    result = await (await second.resume(OPERATOR, live.id)).result()
    assert (result.status, len(keys), won) == ("completed", 1, [True])
    assert [message.content for message in result.messages if isinstance(message, ToolMessage)] == ["early"]


async def test_pending_without_a_declaration_fails_with_the_remedy() -> None:
    @tool(effect="read")
    async def undeclared() -> Pending:
        """Wait."""
        return Pending()

    store, model = MemoryStore(), ScriptedModel(call("undeclared"), "done")
    run = ToolOrchestrator(Chat("x", model=model), Waits(undeclared), resources=Resources(store=store))
    message = (await run.run()).messages[2]
    assert isinstance(message, ToolMessage)
    assert "remote=True" in message.content


actions = st.lists(
    st.tuples(st.sampled_from(["approve", "deny", "resolve", "resume", "look", "kill", "stop"]), st.integers(0, 3)),
    max_size=12,
)


@given(actions)
@settings(max_examples=60, deadline=None)
def test_a_walk_over_the_real_engine(walk: list[tuple[str, int]]) -> None:
    """Whatever happens to a run with approvals and remote results: no effect repeats, and its rows agree with it."""
    asyncio.run(_walk(walk))


async def _walk(walk: list[tuple[str, int]]) -> None:
    desk = Walked()
    await desk.start()
    for action, index in walk:
        await desk.act(action, index)
    await desk.check()


class Walked:
    """A run with two approvals and a remote result, and the process that has it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.paid: list[int] = []
        self.store = MemoryStore()
        self.model = Steady([call("pay", n=1), call("send"), call("pay", n=2)], "done")
        self.runtime = self.process()
        self.run_id = ""

    def process(self) -> Runtime:
        sent = self.sent

        @tool(effect="once", remote=True)
        async def send(context: ToolContext) -> Pending:
            """Send."""
            sent.append(context.key)
            return Pending()

        class Desk(Clerk):
            name = "desk"
            tools = (pay, send)

        return Runtime([Desk()], Resources(store=self.store, models=lambda _: self.model, deps=self.paid))

    async def start(self) -> None:
        live = await self.runtime.start(Chat("x", model=self.model), "desk")
        self.run_id = live.id
        await live.result()

    async def act(self, action: str, index: int) -> None:
        stored = await self.store.run(OPERATOR, self.run_id)
        assert stored is not None
        if action == "kill":
            await self.runtime.close()
            self.runtime = self.process()
        elif action == "look":
            await self.runtime.look()
        elif action == "stop" and stored.end is None:
            await self.runtime.stop(OPERATOR, self.run_id)
        elif action == "resume" and stored.end is None:
            with contextlib.suppress(RunClaimedError):
                await self.runtime.resume(OPERATOR, self.run_id)
        elif action in ("approve", "deny", "resolve"):
            await self._answer(action, index)
        if (live := self.runtime.live(OPERATOR, self.run_id)) is not None:
            await live.result()

    async def _answer(self, action: str, index: int) -> None:
        waits = await self.store.waits(OPERATOR, root_id=self.run_id)
        wait = waits[index % len(waits)] if waits else None
        if wait is None or (action == "resolve") != (wait.kind == "result"):
            return
        if action == "resolve":
            await self.runtime.resolve(OPERATOR, wait.key, "received")
        elif action == "approve":
            await self.runtime.approve(Operator("ann"), wait.key)
        else:
            await self.runtime.deny(Operator("ann"), wait.key)

    async def check(self) -> None:
        await self.runtime.close()
        stored = await self.store.run(OPERATOR, self.run_id)
        assert stored is not None
        operations = await self.store.operations(Scope(), root_id=self.run_id)
        assert len(self.paid) == len(set(self.paid))
        assert len(self.sent) == len(set(self.sent))
        if stored.end is None:
            open_waits = await self.store.waits(OPERATOR, root_id=self.run_id)
            assert {wait.key for wait in open_waits} == {o.key for o in operations if o.state == "waiting"}
            return
        assert operations == ()
        messages = [kept.message for kept in await self.store.messages(OPERATOR, self.run_id)]
        calls = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
        assert calls == [m.call_id for m in messages if isinstance(m, ToolMessage)]
