"""Stopping: wherever a run may stand, twice, from another process. There is a receipt, and no call is left open."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from concertino import OPERATOR, MemoryStore, Pending, Resources, ToolContext, ToolMessage, delegate, tool
from concertino.errors import RunEndedError
from concertino.events import StopReceipt
from concertino.runtime import Runtime
from concertino.testing import Answer, ScriptedModel, call

from .kit import Desk, calls, chat, ended, results, two, until
from .reference import Evidence, audit, gather
from .world import ROOT, Case, World, kill_self


@tool(effect="once", remote=True)
async def wait_for(what: str) -> Pending:
    """Wait for a result from outside."""
    return Pending(None, what)


def named(receipt: StopReceipt) -> dict[str, list[str]]:
    """What a receipt names, by what became of it."""
    return {
        "stopped": [work.name for work in receipt.stopped],
        "not_stopped": [work.name for work in receipt.not_stopped],
        "unknown": [work.name for work in receipt.unknown],
    }


async def check_stopped(runtime: Runtime, run_id: str) -> list[str]:
    """It has ended as cancelled, with a result for each call and nothing left to do; what the model was told."""
    end = await ended(runtime.store, run_id)
    assert end.status == "cancelled"
    told = await results(runtime.store, run_id)
    assert len(told) == len(await calls(runtime.store, run_id))
    assert list(await runtime.store.waits(OPERATOR, root_id=run_id)) == []
    due = await runtime.store.due(OPERATOR)
    assert (list(due.ready), list(due.orphaned)) == ([], [])
    stored = await runtime.store.run(OPERATOR, run_id)
    assert stored is not None
    assert stored.owner == ""
    assert [r.source for r in await runtime.store.usage(OPERATOR, run_id)].count("unknown") <= 1
    with pytest.raises(RunEndedError):
        await runtime.stop(OPERATOR, run_id)
    return told


async def test_before_it_starts() -> None:
    """The client cancels its start: either there is no run, or one that can be stopped."""
    async with MemoryStore() as store:
        model = ScriptedModel("done")
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        for turns in range(8):
            start = asyncio.create_task(runtime.start(chat(model), Desk(), run_id=f"run_{turns}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            if start.done():
                break
            start.cancel()
            await asyncio.wait([start])
            run = await store.run(OPERATOR, f"run_{turns}")
            if run is not None and run.end is None:
                await until(partial(free, store, f"run_{turns}"))
                await runtime.stop(OPERATOR, f"run_{turns}")
                await check_stopped(runtime, f"run_{turns}")


async def free(store: MemoryStore, run_id: str) -> bool:
    run = await store.run(OPERATOR, run_id)
    return run is not None and (run.owner == "" or run.end is not None)


async def test_in_the_model_call() -> None:
    async with MemoryStore() as store:
        never, begun = asyncio.Event(), asyncio.Event()

        async def midway() -> None:
            begun.set()
            await never.wait()

        model = ScriptedModel(Answer(text="half an answer", midway=midway))
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        run = await runtime.start(chat(model), Desk(), run_id="run_1")
        await begun.wait()
        receipt = await runtime.stop(OPERATOR, "run_1")
        assert named(receipt) == {"stopped": ["scripted:script"], "not_stopped": [], "unknown": []}
        result = await run.result()
        assert (result.status, result.text) == ("cancelled", "half an answer")
        assert [record.source for record in result.usage] == ["estimated"]
        await check_stopped(runtime, "run_1")


async def test_in_a_tool_of_each_effect() -> None:
    async with MemoryStore() as store:
        never, begun = asyncio.Event(), asyncio.Semaphore(0)

        async def hang() -> str:
            begun.release()
            await never.wait()
            return ""

        async def look() -> str:
            """Look."""
            return await hang()

        async def note() -> str:
            """Note."""
            return await hang()

        async def pay() -> str:
            """Pay."""
            return await hang()

        tools = [tool(effect="read")(look), tool(effect="idempotent")(note), tool(effect="once")(pay)]
        model = ScriptedModel([call("look"), call("note"), call("pay")])
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        await runtime.start(chat(model), Desk(*tools), run_id="run_1")
        for _ in tools:
            await begun.acquire()
        first, second = await asyncio.gather(
            runtime.stop(OPERATOR, "run_1"), runtime.stop(OPERATOR, "run_1"), return_exceptions=True
        )
        assert isinstance(first, StopReceipt)
        assert named(first) == {"stopped": ["look"], "not_stopped": [], "unknown": ["note", "pay"]}
        assert second == first
        assert len(await check_stopped(runtime, "run_1")) == 3


async def test_a_blocking_tool_in_a_thread_is_named() -> None:
    async with MemoryStore() as store:
        begun, release = threading.Event(), threading.Event()

        @tool(effect="once")
        def block() -> str:
            """Block a thread."""
            begun.set()
            release.wait()
            return ""

        model = ScriptedModel(call("block"))
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        await runtime.start(chat(model), Desk(block), run_id="run_1")
        await asyncio.to_thread(begun.wait)
        receipt = await runtime.stop(OPERATOR, "run_1", deadline=0.2)
        assert named(receipt) == {"stopped": [], "not_stopped": ["block"], "unknown": []}
        release.set()
        await check_stopped(runtime, "run_1")


async def test_a_tool_that_takes_no_notice_is_named() -> None:
    async with MemoryStore() as store:
        begun, release = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def deaf() -> str:
            """Take no notice of being cancelled."""
            begun.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return ""

        model = ScriptedModel(call("deaf"))
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        await runtime.start(chat(model), Desk(deaf), run_id="run_1")
        await begun.wait()
        receipt = await runtime.stop(OPERATOR, "run_1", deadline=0.1)
        assert named(receipt)["not_stopped"] == ["deaf"]
        release.set()
        await check_stopped(runtime, "run_1")


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_while_suspended(tmp_path: Path, elsewhere: bool) -> None:
    model = ScriptedModel([call("wait_for", what="a"), call("wait_for", what="b")])
    async with two(tmp_path, [Desk(wait_for)], model) as (one, other):
        run = await one.start(chat(model), "desk", run_id="run_1")
        assert (await run.result()).status == "suspended"
        who = other if elsewhere else one
        both = await asyncio.gather(who.stop(OPERATOR, "run_1"), one.stop(OPERATOR, "run_1"), return_exceptions=True)
        assert all(isinstance(each, StopReceipt | RunEndedError) for each in both), both
        assert any(isinstance(each, StopReceipt) for each in both)
        assert len(await check_stopped(one, "run_1")) == 2


async def test_from_another_process(tmp_path: Path) -> None:
    """Through the store: the process that has the run hears of it at its next look, and says what became of it."""
    never, begun = asyncio.Event(), asyncio.Event()

    @tool(effect="once")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        begun.set()
        await never.wait()
        return ""

    model = ScriptedModel(call("pay"))
    async with two(tmp_path, [Desk(pay)], model, sweep=0.05) as (one, other), one:
        await one.start(chat(model), "desk", run_id="run_1")
        await begun.wait()
        first, second = await asyncio.gather(other.stop(OPERATOR, "run_1"), other.stop(OPERATOR, "run_1"))
        assert named(first)["unknown"] == named(second)["unknown"] == ["pay"]
        await check_stopped(other, "run_1")


async def test_a_tree_is_stopped_to_its_leaves() -> None:
    async with MemoryStore() as store:
        never, begun = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def look() -> str:
            """Look for ever."""
            begun.set()
            await never.wait()
            return ""

        low = Desk(look, name="low")
        middle = Desk(delegate(low, description="Low."), name="middle")
        top = Desk(delegate(middle, description="Middle."), name="top")
        scripts = {
            "the low": [call("look")],
            "the middle": [call("low", query="b")],
            "the top": [call("middle", query="a")],
        }
        model = ScriptedModel(scripts=scripts)
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        await runtime.start(chat(model), top, run_id="run_1")
        await begun.wait()
        receipt = await runtime.stop(OPERATOR, "run_1")
        assert "look" in named(receipt)["stopped"]
        for run in await store.runs(OPERATOR, root_id="run_1"):
            assert run.end is not None, run.start.agent
            assert run.end.status == "cancelled"
            await results(store, run.start.run_id)
        assert len(await store.usage(OPERATOR, "run_1")) == 3
        await check_stopped(runtime, "run_1")


def known_results(case: Case) -> set[str]:
    """Return the names of the calls of the root whose results were recorded before the stop."""
    entries = gather(case).journals[ROOT].entries
    messages = [stored.message for entry in entries for stored in entry.messages]
    lost = ("OUTCOME_UNKNOWN", "not run", "interrupted")
    return {m.name for m in messages if isinstance(m, ToolMessage) and not m.content.startswith(lost)}


@pytest.mark.parametrize(
    "at",
    ["append:started:after", "model:first", "append:model_answered:after", "tool:pay:after", "append:suspended:after"],
)
def test_what_a_dead_process_has_left_can_be_stopped(world: World, reference: Evidence, at: str) -> None:
    case = world.case("stopped")
    assert case.life(**kill_self(at)).end() is None
    stopped = case.life("stop").end()
    assert stopped is not None, "it was stopped"
    problems = audit(case, reference, faults=1, status="cancelled")
    holds = ("I2", "I6", "I7", "I8", "I9")  # the others compare with what would have come
    assert [each for each in problems if each.startswith(holds) or " times" in each] == []
    assert gather(case).runs[ROOT].end.status == "cancelled"
    if at in ("append:model_answered:after", "tool:pay:after"):
        unknown = {work["name"] for work in stopped["unknown"]}
        assert "pay" in unknown
        # `mail` runs next to `pay`. It may have ended before the kill; then its result is on record.
        assert "mail" in unknown or (at == "tool:pay:after" and "mail" in known_results(case))
