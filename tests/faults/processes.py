"""Faults 1 to 9, 24, 34, 36, 39 and 40: processes are killed, stopped, drained and poisoned."""

from __future__ import annotations

import asyncio
import signal
import sqlite3

from concertino import OPERATOR

from .table import fault
from .world import CARLA, Case, until

ANYWHERE = r"(append|begin|claim|claim_due|renew|release|due|model|tool|resolve|claim_calls).*"


async def killed_once(case: Case, at: str, most: int, text: str = "work") -> None:
    """Kill a worker at a point, and let another one finish."""
    async with case.web():
        turn = await case.send(text)
        assert await case.killed_at(at, most), f"{at} was not passed"
        await case.finish()
        assert (await turn.read()).state == "completed"


@fault(1, "kill -9 before the claim commits, and before the model call")
async def killed_at_the_claim(case: Case) -> None:
    at = case.chance.choice(["append:started:(before|after)", "append:model_requested:(before|after)", "model:before"])
    await killed_once(case, at, 2)


@fault(2, "kill -9 in the model call, and before its answer is committed")
async def killed_in_the_model_call(case: Case) -> None:
    at = case.chance.choice(["model:first", "model:end", "append:model_answered:before"])
    await killed_once(case, at, 4)


@fault(3, "kill -9 before the effect of a tool, and before its result is committed")
async def killed_in_a_tool(case: Case) -> None:
    side = case.chance.choice(["tool:(look|note|pay|mail):before", "tool:(look|note|pay|mail):after"])
    await killed_once(case, side, 5)


@fault(4, "kill -9 after a result is committed, at the suspension and at the resumption")
async def killed_at_a_wait(case: Case) -> None:
    case.late_answers = True
    at = ["append:model_answered:after", "append:calls_changed:(before|after)", "append:suspended:(before|after)"]
    await killed_once(case, case.chance.choice([*at, "append:resumed:(before|after)", "release:(before|after)"]), 1)


@fault(5, "kill -9 between the end and the event that tells of it")
async def killed_after_the_end(case: Case) -> None:
    async with case.web():
        turn = await case.send("pay")
        assert await case.killed_at("append:ended:(before|after)")
        await case.finish()
        first, second = [[number async for number, _ in turn.events()] for _ in range(2)]
        assert first == second


@fault(6, "kill -9 of each worker in turn")
async def killed_in_turn(case: Case) -> None:
    async with case.web():
        await case.send(case.chance.choice(["pay", "ask"]))
        kills = 0
        progress = "append:(model_answered|calls_changed|suspended|ended):after"
        step = case.chance.randint(1, 3)
        while await case.killed_at(progress, step, tries=1000, lease=0.5):
            kills += 1
            assert kills < 100, "it never ends"
        await case.finish()
        assert len(case.calls()) <= 4 + 4 * kills


@fault(7, "SIGSTOP, another worker takes over, SIGCONT")
async def stopped(case: Case) -> None:
    async with case.web():
        await case.send("pay")
        first = await case.worker(ANYWHERE, case.chance.randint(4, 40), signal.SIGSTOP)
        if await first.stopped():
            if is_locked(case):  # it stands in the middle of a write: that is fault 9
                first.send(signal.SIGCONT)
            await case.finish()
            first.send(signal.SIGCONT)
            assert await first.drained()
        await case.settled()


def is_locked(case: Case) -> bool:
    """Return whether a process holds the write lock of a SQLite file."""
    if case.site.server is not None:
        return False
    connection = sqlite3.connect(case.database, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False


@fault(8, "SIGSTOP inside a transaction that has locked the run's row", "postgres")
async def stopped_in_a_transaction(case: Case) -> None:
    async with case.web():
        turn = await case.send("pay")
        assert await case.killed_at("model:first")
        holder = await asyncio.to_thread(case.connect)
        holder.execute("SET idle_in_transaction_session_timeout = 500")  # as a store sets it, to 5 s
        holder.execute("BEGIN")
        holder.execute("SELECT 1 FROM heads FOR UPDATE")  # and now it is silent, as a stopped process is
        await case.finish()
        assert (await turn.read()).state == "completed"
        holder.close()


@fault(9, "SIGSTOP with SQLite's write lock", "sqlite")
async def stopped_with_the_lock(case: Case) -> None:
    async with case.web():
        turn = await case.send("pay")
        first = await case.worker()
        await until(case.calls)
        holder = await asyncio.create_subprocess_exec(
            *("python3", "-c", LOCK, case.database, str(case.chance.uniform(0.1, 0.5)))
        )
        assert await holder.wait() == 0
        await case.settled()
        assert (await turn.read()).state == "completed"
        assert await first.drained()


LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


@fault(24, "a run kills its process each time")
async def poisoned(case: Case) -> None:
    async with case.web() as runtime:
        poison, other = await case.send("poison"), await case.send("pay", "c2")

        async def is_given_up() -> bool:
            run = await case.store.run(OPERATOR, poison.id)
            return run is not None and run.state == "dead_letter"

        for _ in range(12):
            worker = await case.worker(tries=3)
            dies = asyncio.create_task(worker.killed())
            given_up = asyncio.create_task(until(is_given_up))
            await asyncio.wait([dies, given_up], return_when=asyncio.FIRST_COMPLETED)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            if await is_given_up():
                worker.send(signal.SIGTERM)
                break
        assert await is_given_up()
        stored = await case.store.run(OPERATOR, poison.id)
        assert stored is not None
        assert stored.reason == "its process ended 3 times without progress"
        await runtime.stop(CARLA, poison.id)
        await case.finish()
        assert (await other.read()).state == "completed"


@fault(34, "SIGTERM while many runs are in progress")
async def drained(case: Case) -> None:
    async with case.web():
        turns = [await case.send(case.chance.choice(["pay", "hello", "work"]), f"c{number}") for number in range(10)]
        first = await case.worker(lease=3600.0)  # what is taken at once did not wait for a lease
        many = case.chance.randint(1, 10)
        await until(lambda: len(case.calls()) >= many)
        assert await first.drained()
        await case.finish()
        assert {(await turn.read()).state for turn in turns} == {"completed"}


@fault(36, "the worker of a sub-agent dies, that of its parent, or both")
async def families(case: Case) -> None:
    async with case.web():
        turn = await case.send("ask")
        hit = case.chance.choice([("desks",), ("batch",), ("desks", "batch")])
        points = {"desks": "(append|model|release).*", "batch": "(append|model|claim_calls|tool).*"}
        workers = []
        for target in ("desks", "batch"):
            at, count = (points[target], case.chance.randint(1, 8)) if target in hit else ("", 1)
            workers.append(await case.worker(at, count, takes=(target,)))
        last = await case.worker()
        await case.settled()
        for each in (*workers, last):
            await each.drained()
        assert (await turn.read()).answer == "the clerk has answered"


@fault(36, "the parent is cancelled while its sub-agent waits")
async def orphaned(case: Case) -> None:
    async with case.web() as runtime:
        turn = await case.send("ask")
        worker = await case.worker()
        await until(lambda: case.store.waits(OPERATOR))
        await runtime.stop(CARLA, turn.id)
        await case.settled(approve=False)
        assert await worker.drained()
        runs = await case.store.runs(OPERATOR, roots=True)
        assert {run.state for run in runs} == {"cancelled"}


@fault(39, "kill -9 of one of two processes at any moment", "sqlite", "postgres")
async def killed_at_any_moment(case: Case) -> None:
    async with case.web():
        turns = [await case.send("pay", f"c{number}") for number in range(3)]
        one, two = await case.worker(), await case.worker()
        await asyncio.sleep(case.chance.uniform(0.0, 0.3))
        one.send(signal.SIGKILL)
        await one.killed()
        await case.settled()
        assert await two.drained()
        assert {(await turn.read()).state for turn in turns} == {"completed"}


@fault(40, "the process dies with rings queued")
async def killed_before_the_ring(case: Case) -> None:
    """The first worker dies in its first look, before it claims: there is no bell but the second one's first sweep."""
    async with case.web():
        turn = await case.send("pay")
        assert await case.killed_at("due:.*|claim_turns:before", 3)
        await case.finish(sweep=3600.0)
        assert (await turn.read()).state == "completed"
