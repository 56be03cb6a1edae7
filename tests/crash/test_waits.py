"""Waits: expired, answered at once by several, too early, too late, out of order. The first answer wins."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from concertino import OPERATOR, Ask, MemoryStore, Operator, Pending, Resources, ToolContext, tool
from concertino.errors import RunEndedError, UnknownWaitError
from concertino.runtime import Runtime
from concertino.storage import Entry, Head
from concertino.testing import ScriptedModel, call

from .kit import Desk, chat, ended, results, two, until
from .reference import Evidence, audit, gather
from .world import World, kill_self

EXPIRED = "no result arrived in time"


@tool(effect="once", remote=True)
async def wait_for(what: str, seconds: float | None = None) -> Pending:
    """Wait for a result from outside."""
    return Pending(seconds, what)


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Careful(Desk):
    """Asks Ann before each call."""

    def authorize_tool_call(self, run: object, call: object, arguments: object) -> Ask:
        """Ann has 0.2 seconds."""
        return Ask(seconds=0.2, who=("ann",))


async def test_a_tool_that_never_answers_expires_once_of_two_watchdogs(tmp_path: Path) -> None:
    model = ScriptedModel(call("wait_for", what="a", seconds=0.2), "done")
    async with two(tmp_path, [Desk(wait_for)], model) as (one, other):
        run = await one.start(chat(model), "desk", run_id="run_1")
        assert (await run.result()).status == "suspended"

        async def looked() -> bool:
            await asyncio.gather(one.look(), other.look())
            stored = await one.store.run(OPERATOR, "run_1")
            return stored is not None and stored.end is not None

        await until(looked)
        assert await results(one.store, "run_1") == [EXPIRED]
        assert len(model.requests) == 2
        late = await other.resolve(OPERATOR, "run_1:1.0", "too late")
        assert not late.won
        assert late.wait.resolution.verdict == "expired"
        assert await results(one.store, "run_1") == [EXPIRED]


async def test_many_watchdogs_and_many_waits_expire_each_once(tmp_path: Path) -> None:
    model = ScriptedModel(*[call("wait_for", what="a", seconds=0.1)] * 10, *["done"] * 10)
    async with two(tmp_path, [Desk(wait_for)], model, sweep=0.02) as (one, other):
        for number in range(10):
            run = await one.start(chat(model), "desk", run_id=f"run_{number}")
            assert (await run.result()).status == "suspended"
        async with one, other:
            for number in range(10):
                assert (await ended(one.store, f"run_{number}")).answer == "done"
        for number in range(10):
            assert await results(one.store, f"run_{number}") == [EXPIRED]
        assert len(model.requests) == 20


def test_one_result_delivered_ten_times_by_each_of_two_processes(world: World) -> None:
    case = world.case("delivered")
    runs = [("run_w", "waiter")]
    waiting = case.life("until_waits", runs=runs).end()
    assert waiting is not None
    ((key,),) = [each["waits"] for each in waiting["ended"]]
    processes = [case.life("deliver", runs=[(key, "")], waits_to_go=True) for _ in range(2)]
    for process in processes:
        process.write({})
    said = [process.end() for process in processes]
    assert sum(won for each in said if each for won in each["won"]) == 1
    assert len({each["content"] for each in said if each}) == 1
    assert case.finish(runs=runs)["ended"][0]["text"] == "the waiter is done "
    evidence = gather(case, "run_w")
    assert audit(case, evidence, faults=0, root="run_w") == []
    assert len(evidence.calls) == 2


@pytest.mark.parametrize("at", ["append:calls_changed:before", "append:calls_changed:after", "append:suspended:after"])
def test_a_result_between_the_wait_and_the_suspension(world: World, at: str) -> None:
    """The process dies around the row of the wait, and the result comes while nobody is there."""
    case = world.case("between")
    runs = [("run_w", "waiter")]
    assert case.life(runs=runs, **kill_self(at)).end() is None
    said = case.life("deliver", runs=[("run_w:1.0", "")]).end()
    assert said is not None
    assert said["won"] == [True] + [False] * 9
    done = case.finish(runs=runs)
    assert done["ended"][0]["status"] == "completed"
    evidence: Evidence = gather(case, "run_w")
    problems = audit(case, evidence, faults=1, root="run_w")
    assert problems == []
    assert said["content"] in evidence.calls[-1]["request"]["messages"][-1]


async def test_a_result_that_is_there_before_its_wait() -> None:
    async with MemoryStore() as store:
        runtimes: list[Runtime] = []

        @tool(effect="once", remote=True)
        async def at_once(context: ToolContext) -> Pending:
            """Somebody is faster than we are."""
            assert (await runtimes[0].resolve(OPERATOR, context.key, "early")).won
            assert not (await runtimes[0].resolve(OPERATOR, context.key, "again")).won
            return Pending()

        model = ScriptedModel(call("at_once"), "done")
        runtimes.append(Runtime([Desk(at_once)], Resources(store=store, models=lambda _: model)))
        run = await runtimes[0].start(chat(model), "desk")
        assert (await run.result()).status == "completed"
        assert await results(store, run.id) == ["early"]


async def test_a_result_for_a_call_that_nobody_knows() -> None:
    async with MemoryStore() as store:
        runtime = Runtime((), Resources(store=store, models=lambda _: ScriptedModel()))
        with pytest.raises(UnknownWaitError):
            await runtime.resolve(OPERATOR, "run_nobody:1.0", "for whom?")
        model = ScriptedModel("done")
        run = await runtime.start(chat(model), Desk())
        await run.result()
        with pytest.raises(UnknownWaitError):
            await runtime.resolve(OPERATOR, f"{run.id}:1.0", "too late")


async def test_results_out_of_order_and_one_missing(tmp_path: Path) -> None:
    """Two of three come, the last one first: it goes on when the third has expired; results stand in order."""
    turn = [call("wait_for", what="a"), call("wait_for", what="b", seconds=3_600), call("wait_for", what="c")]
    model = ScriptedModel(turn, "done")
    async with two(tmp_path, [Desk(wait_for)], model) as (one, other):
        run = await one.start(chat(model), "desk", run_id="run_1")
        assert len((await run.result()).waiting) == 3
        await other.resolve(OPERATOR, "run_1:1.2", "third")
        await other.look()
        await one.resolve(OPERATOR, "run_1:1.0", "first")
        await one.look()
        assert (await one.store.run(OPERATOR, "run_1")).state in ("suspended", "running")
        assert len(model.requests) == 1
        with closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
            database.execute("UPDATE operations SET expires = 0 WHERE expires IS NOT NULL")  # the hour is over

        async def looked() -> bool:
            await other.look()
            return (await one.store.run(OPERATOR, "run_1")).end is not None  # type: ignore[union-attr]

        await until(looked)
        assert await results(one.store, "run_1") == ["first", EXPIRED, "third"]


async def test_an_approval_that_nobody_answers() -> None:
    async with MemoryStore() as store:
        model = ScriptedModel(call("pay", amount=5), "done")
        async with Runtime([Careful(pay)], Resources(store=store, models=lambda _: model), sweep=0.02) as runtime:
            run = await runtime.start(chat(model), "desk", run_id="run_1")
            assert (await run.result()).status == "suspended"
            await ended(store, "run_1")
            assert await results(store, "run_1") == ["approval timed out"]
            assert not (await runtime.approve(Operator("ann"), "run_1:1.0")).won


async def test_an_approver_who_answers_twice_and_two_at_once(tmp_path: Path) -> None:
    model = ScriptedModel(call("pay", amount=5), "done")
    async with two(tmp_path, [Careful(pay)], model) as (one, other):
        run = await one.start(chat(model), "desk", run_id="run_1")
        await run.result()
        key = "run_1:1.0"
        answers = await asyncio.gather(
            one.approve(Operator("ann"), key),
            other.deny(Operator("ann"), key, "no"),
            one.deny(Operator("ann"), key, "no"),
        )
        assert [answer.won for answer in answers].count(True) == 1
        verdict = answers[0].wait.resolution.verdict
        await asyncio.gather(one.look(), other.look())
        await ended(one.store, "run_1")
        assert await results(one.store, "run_1") == ["paid 5" if verdict == "approved" else "not allowed by ann: no"]


async def test_an_approval_after_the_run_was_stopped() -> None:
    async with MemoryStore() as store:
        model = ScriptedModel(call("pay", amount=5))
        runtime = Runtime([Careful(pay)], Resources(store=store, models=lambda _: model))
        run = await runtime.start(chat(model), "desk", run_id="run_1")
        await run.result()
        await runtime.stop(OPERATOR, "run_1")
        answer = await runtime.approve(Operator("ann"), "run_1:1.0")
        assert not answer.won
        assert answer.wait.resolution.verdict == "cancelled"
        await runtime.look()
        assert await results(store, "run_1") != ["paid 5"]
        with pytest.raises(RunEndedError):
            await runtime.resume(OPERATOR, "run_1")


class Slow(MemoryStore):
    """Takes some passes of the event loop for each append, and notes which calls wait without a row of their wait."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: set[str] = set()
        self.without_row: list[str] = []

    async def append(self, entry: Entry) -> Head:
        """See the port."""
        self.opened.update(wait.key for wait in entry.waits)
        waiting = {operation.key for operation in entry.operations if operation.state == "waiting"}
        self.without_row += waiting - self.opened
        for _ in range(20):
            await asyncio.sleep(0)
        return await super().append(entry)


async def test_a_call_never_waits_without_the_row_of_its_wait() -> None:
    """Two calls record their starts in turn, while the third one begins to wait: a crash may follow each append."""
    store = Slow()
    model = ScriptedModel((call("pay", amount=1), call("pay", amount=2), call("wait_for", what="a")), "done")
    runtime = Runtime([Desk(pay, wait_for)], Resources(store=store, models=lambda _: model))
    run = await runtime.start(chat(model), "desk", run_id="run_1")
    assert (await run.result()).status == "suspended"
    assert store.opened == {"run_1:1.2"}
    assert store.without_row == []
    await runtime.close()
