"""Stopping a run: its whole tree ends, the conversation stays valid, and the receipt says what became of the rest."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    MemoryStore,
    Pending,
    RunContext,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    tool,
)
from concertino.agents import delegate
from concertino.errors import RunEndedError, RunStateError, UnknownRunError
from concertino.events import CallWaiting, RunEnded, StopReceipt, ToolStarted
from concertino.runtime import LiveRun, Runtime
from concertino.storage import Claim, Entry, Head, Store
from concertino.testing import Answer, ScriptedModel, call

from .kit import Steady, ended, is_valid, runtime, state, texts, until

free = threading.Event()
begun: set[str] = set()


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    free.clear()
    begun.clear()
    yield
    free.set()


async def forever(context: ToolContext) -> str:
    """Work."""
    begun.add(context.tool)
    await asyncio.Event().wait()
    return "never"


reads = tool(effect="read", name="reads")(forever)
puts = tool(effect="idempotent", name="puts")(forever)
pays = tool(name="pays")(forever)


@tool(effect="read")
def blocks(context: ToolContext) -> str:
    """Work in a thread."""
    begun.add("blocks")
    free.wait()
    return "late"


@tool
async def stubborn(context: ToolContext) -> str:
    """Ignore being cancelled."""
    begun.add("stubborn")
    while not free.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
    return "late"


@tool(effect="read")
async def quick() -> str:
    """Be done."""
    return "done"


@tool(remote=True)
async def orders() -> Pending:
    """Wait for somebody."""
    return Pending()


TOOLS = (reads, puts, pays, blocks, stubborn, quick, orders)


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    tools = TOOLS


class Desk(AgentConfig[None]):
    name = "desk"
    prompt = "You are a desk."
    tools = (*TOOLS, delegate(Child(), description="A child."))

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        return Ask() if call.name == "puts" and run.chat.message == "ask" else Allow()


def names(receipt: StopReceipt) -> dict[str, list[str]]:
    return {how: sorted(w.name for w in getattr(receipt, how)) for how in ("stopped", "not_stopped", "unknown")}


async def at_work(process: Runtime, model: ScriptedModel, *wanted: str, message: str = "go") -> LiveRun:
    live = await process.start(Chat(model=model, message=message), "desk")
    await state(lambda: begun >= set(wanted))
    return live


async def check(store: Store, run_id: str) -> None:
    """Every run of the tree has ended, and its conversation is one that a provider takes."""
    for stored in await store.runs(OPERATOR, root_id=run_id, limit=100):
        assert stored.end is not None
        assert stored.end.status in ("cancelled", "completed")
        assert is_valid([m.message for m in await store.messages(OPERATOR, stored.start.run_id)])
        result = await runtime(store, ScriptedModel()).result(OPERATOR, stored.start.run_id)
        assert is_valid(result.messages)
    assert await store.waits(OPERATOR, root_id=run_id) == ()
    assert (await store.due(OPERATOR)).orphaned == ()


@pytest.mark.parametrize(
    ("made", "how"),
    [
        ("reads", "stopped"),
        ("puts", "unknown"),
        ("pays", "unknown"),
        ("blocks", "not_stopped"),
        ("stubborn", "not_stopped"),
    ],
)
async def test_in_a_tool(store: Store, made: str, how: str) -> None:
    model = Steady([call("quick"), call(made)], "end")
    async with runtime(store, model, Desk()) as process:
        live = await at_work(process, model, made)
        receipt = await process.stop(OPERATOR, live.id, deadline=0.05)
        result = await live.result()
        free.set()
    assert names(receipt) == {"stopped": [], "not_stopped": [], "unknown": [], how: [made]}
    (work,) = getattr(receipt, how)
    assert (work.agent_path, work.what, work.call_id) == ("desk", "tool", "call_2")
    assert work.effect == next(t.effect for t in TOOLS if t.name == made)
    assert (result.status, result.receipt) == ("cancelled", receipt)
    assert texts(result.messages) == ["done", "interrupted: the run was stopped before this tool had ended"]
    assert len(result.usage) == 1
    assert isinstance([event async for _, event in live.events()][-1], RunEnded)
    await check(store, live.id)


async def test_in_the_model(store: Store) -> None:
    never = asyncio.Event()
    model = ScriptedModel(Answer(text="half of it", midway=never.wait, tokens=None))
    async with runtime(store, model, Desk()) as process:
        live = await process.start(Chat(model=model, message="go"), "desk")
        async for _, event in live.events():
            if getattr(event, "text", "") == "it":
                break
        receipt = await process.stop(OPERATOR, live.id)
        result = await live.result()
    assert [(w.what, w.name) for w in receipt.stopped] == [("model", "scripted:script")]
    assert not receipt.unknown
    assert (result.text, result.messages[-1].stop_reason) == ("half of it", "broken")
    assert [(r.source, r.tokens.completion > 0) for r in result.usage] == [("estimated", True)]
    await check(store, live.id)


async def test_with_sub_agents_at_work(store: Store) -> None:
    never = asyncio.Event()
    model = Steady(
        [call("child", query="a"), call("child", query="b"), call("pays")],
        scripts={"the child": [[call("reads"), call("blocks")], Answer(text="x", midway=never.wait)]},
    )
    async with runtime(store, model, Desk()) as process:
        live = await at_work(process, model, "reads", "blocks", "pays")
        await state(lambda: len(model.requests) == 3)
        await until(live, ToolStarted, 7)
        receipt = await process.stop(OPERATOR, live.id, 0.5)
    got = names(receipt)
    assert got["not_stopped"] == ["blocks", "blocks"]
    assert [name for name in got["stopped"] if name == "reads"] == ["reads", "reads"]
    assert "pays" in got["unknown"]
    assert {w.agent_path for w in receipt.not_stopped} == {"desk/child-1", "desk/child-2"}
    await check(store, live.id)


@pytest.mark.parametrize("deep", [True, False])
async def test_while_suspended(store: Store, deep: bool) -> None:
    turn = [call("quick"), call("orders"), call("nobody"), call("puts")]
    scripts = {"the child": [turn, "end"]}
    model = Steady([call("child", query="a"), *turn] if deep else turn, "end", scripts=scripts)
    process = runtime(store, model, Desk())
    live = await process.start(Chat(model=model, message="ask"), "desk")
    if deep:  # the child's agent asks nobody: its call is parked in the middle
        await state(lambda: "puts" in begun)
        await until(live, CallWaiting, 3)
        await process.close()
    waiting = await store.waits(OPERATOR, root_id=live.id)
    before = await store.messages(OPERATOR, live.id)
    if not deep:
        assert (await live.result()).status == "suspended"
        waiting = await store.waits(OPERATOR, root_id=live.id)
    receipt = await runtime(store, ScriptedModel()).stop(OPERATOR, live.id)  # knows no agent and no model
    assert set(names(receipt)["unknown"]) == {"orders"}, "an idempotent or a read call that waits has had no effect"
    result = await runtime(store, ScriptedModel()).result(OPERATOR, live.id)
    assert (result.status, result.error, result.receipt) == ("cancelled", "the run was stopped", receipt)
    assert len(result.messages) == 2 + len(result.messages[1].tool_calls)
    assert len(before) <= 2
    await check(store, live.id)
    with pytest.raises(RunEndedError):
        await process.resume(OPERATOR, live.id)
    with pytest.raises(RunEndedError):
        await runtime(store, ScriptedModel()).stop(OPERATOR, live.id)
    assert waiting
    for wait in waiting:
        assert (await store.wait(OPERATOR, wait.key)).resolution.verdict == "cancelled"


async def test_twice_and_at_once(store: Store) -> None:
    model = Steady(call("pays"), "end")
    async with runtime(store, model, Desk()) as process:
        live = await at_work(process, model, "pays")
        receipts = await asyncio.gather(*(process.stop(OPERATOR, live.id) for _ in range(3)))
        assert len({str(receipt) for receipt in receipts}) == 1
        assert names(receipts[0])["unknown"] == ["pays"]
        with pytest.raises(RunEndedError):
            await process.stop(OPERATOR, live.id)
    await check(store, live.id)


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_again_while_a_tool_cleans_up(how: str) -> None:
    works, cleans, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def writes() -> str:
        """Write, and clean up when cancelled."""
        works.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleans.set()
            await cleaned.wait()
        return "never"

    class Writer(AgentConfig[None]):
        name = "writer"
        prompt = "You write."
        tools = (writes,)

    engine = ToolOrchestrator(Chat(model=ScriptedModel(call("writes"), "end"), message="go"), Writer())
    running = asyncio.create_task(engine.run())
    again = engine.stop if how == "stop" else running.cancel
    await works.wait()
    again()
    await cleans.wait()
    again()
    if how == "cancel":  # nobody waits for the tool any longer
        await asyncio.wait([running])
    cleaned.set()
    await asyncio.wait([running])
    assert engine.result is not None
    assert engine.result.receipt is not None
    assert names(engine.result.receipt)["unknown" if how == "stop" else "not_stopped"] == ["writes"]


async def test_what_cannot_be_stopped(store: Store) -> None:
    model = Steady(call("child", query="a"), "end", scripts={"the child": [call("pays"), "end"]})
    async with runtime(store, model, Desk()) as process:
        live = await at_work(process, model, "pays")
        child = next(run for run in await store.runs(OPERATOR, root_id=live.id) if run.start.parent_id)
        with pytest.raises(RunStateError, match=live.id):
            await process.stop(OPERATOR, child.start.run_id)
        with pytest.raises(UnknownRunError):
            await process.stop(OPERATOR, "nobody")
        await process.stop(OPERATOR, live.id)
        with pytest.raises(RunEndedError):
            await process.steer(OPERATOR, live.id, "too late")


@pytest.mark.parametrize("made", ["reads", "pays", "blocks"])
async def test_from_another_process(store: Store, made: str) -> None:
    model = Steady([call("quick"), call(made)], "end")
    other = runtime(store, ScriptedModel())
    async with runtime(store, model, Desk(), sweep=0.01) as process:
        live = await at_work(process, model, made)
        receipts = await asyncio.gather(*(other.stop(OPERATOR, live.id, 60.0) for _ in range(2)))
        result = await live.result()
    assert (result.status, result.receipt) == ("cancelled", receipts[0])
    assert receipts[1] == receipts[0]
    assert sum(map(len, names(receipts[0]).values())) == 1
    await check(store, live.id)


async def test_a_process_that_does_not_listen(store: Store) -> None:
    never = asyncio.Event()
    model = ScriptedModel(Answer(text="x", before=never.wait))
    process = runtime(store, model, Desk())  # without a watchdog
    live = await process.start(Chat(model=model, message="go"), "desk")
    with pytest.raises(RunStateError, match="has not stopped"):
        await runtime(store, model).stop(OPERATOR, live.id, 0.02)
    await process.look()
    assert (await live.result()).status == "cancelled"
    await check(store, live.id)


async def test_a_stop_outlives_the_process_that_did_not_heed_it(store: Store) -> None:
    never = asyncio.Event()
    model = ScriptedModel(Answer(text="x", before=never.wait))
    process = runtime(store, model, Desk())
    live = await process.start(Chat(model=model, message="go"), "desk")
    await store.send(OPERATOR, live.id, "stop")
    await process.close()
    async with runtime(store, ScriptedModel(), Desk()) as taken:
        await ended(store, live.id)
        assert (await taken.result(OPERATOR, live.id)).status == "cancelled"
    await check(store, live.id)


class Slow(MemoryStore):
    """Ends a run, and gives its claim back, when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.free = asyncio.Event(), asyncio.Event()

    async def append(self, entry: Entry) -> Head:
        head = await super().append(entry)
        if entry.end is not None:
            await self._wait()
        return head

    async def release(self, claim: Claim) -> None:
        await self._wait()
        await super().release(claim)

    async def _wait(self) -> None:
        self.reached.set()
        await self.free.wait()


@pytest.mark.parametrize("made", ["orders", "quick"])
async def test_at_the_very_moment_at_which_it_is_suspended_or_ends(made: str) -> None:
    store, model = Slow(), Steady(call(made), "end")
    process = runtime(store, model, Desk())
    live = await process.start(Chat(model=model, message="go"), "desk")
    await store.reached.wait()
    stopping = asyncio.create_task(process.stop(OPERATOR, live.id))
    await asyncio.sleep(0)
    store.free.set()
    if made == "quick":
        with pytest.raises(RunEndedError):
            await stopping
        return
    assert names(await stopping)["unknown"] == ["orders"]
    await check(store, live.id)
