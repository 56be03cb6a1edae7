"""Conversations that wait for an answer: what they cost, how soon one of them wakes, and all of them at once."""

from __future__ import annotations

import asyncio
import random
import resource
import statistics
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.fleet.reads import reads
from benchmarks.fleet.rows import multiply
from concertino import OPERATOR, AgentConfig, Ask, Resources, Runtime, Scope, tool
from concertino.runtime import Fleet, NatsBell
from concertino.storage import PostgresStore
from concertino.testing import ScriptedModel, call

_TEMPLATES = 100
"""Users, each with one real conversation that waits."""
_WAKES = 150
_PASSES = 20


@tool(effect="once")
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


class Clerk(AgentConfig[None]):
    """An agent that asks before it pays."""

    name = "clerk"
    tools = (pay,)

    def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Ask:
        """Ask for an approval."""
        return Ask()


async def prepare(url: str, *, answered: bool) -> None:
    """Let the users' conversations wait, and answer them if *answered*."""
    async with await PostgresStore.open(url) as store:
        model = ScriptedModel(*(call("pay", euros=3) for _ in range(_TEMPLATES)))
        async with Runtime([Clerk()], Resources(store=store, model=model)) as runtime:
            for number in range(_TEMPLATES):
                scope = Scope(tenant="shop", user=f"user-{number}")
                conversation = await runtime.conversation(scope, agent="clerk")
                await (await conversation.send("Please pay my bill.")).result()
        if answered:
            async with Runtime([], Resources(store=store)) as web:
                for number in range(_TEMPLATES):
                    scope = Scope(tenant="shop", user=f"user-{number}")
                    (wait,) = await store.approvals(scope)
                    await web.approve(scope, wait.key)


async def waiting(url: str, bus: str, copies: int) -> dict[str, Any]:
    """Measure a worker beside *copies* of waiting conversations, one of which is answered now and then."""
    empty = await asyncio.to_thread(_disk, url)
    await asyncio.to_thread(multiply, url, copies)
    called: asyncio.Queue[float] = asyncio.Queue()

    def answer(_: Any) -> str:
        called.put_nowait(time.perf_counter())
        return "It is paid."

    async with AsyncExitStack() as opened:
        worker = await _runtime(opened, url, bus, ScriptedModel(*[answer] * _WAKES), takes=True)
        web = await _runtime(opened, url, bus, ScriptedModel(), takes=False)
        resident = _resident()
        wakes = []
        for number in random.Random(1).sample(range(copies), min(_WAKES, copies)):
            scope = Scope(tenant="shop", user=f"user-{number % _TEMPLATES}")
            conversation = await web.conversation(scope, f"copy-{number}")
            (turn,) = await conversation.turns()
            begun = time.perf_counter()
            await web.approve(scope, f"{turn.run_id}:1.0")
            wakes.append(await called.get() - begun)
        grown = _resident() - resident
        passes = [await _timed_pass(worker.store) for _ in range(_PASSES)]
    await reads(url, _pass)  # closes the turns that have ended
    looked, woke = await reads(url, _pass), await reads(url, partial(_wake, number=copies // 2))
    return {
        "waiting": copies,
        "wake_ms": statistics.median(wakes) * 1e3,
        "wake_p95_ms": statistics.quantiles(wakes, n=20)[-1] * 1e3,
        "look_ms": statistics.median(passes) * 1e3,
        "look_rows": looked.rows,
        "look_pages": looked.pages,
        "wake_rows": woke.rows,
        "wake_pages": woke.pages,
        "grown_mib": grown,
        "disk_kb": (await asyncio.to_thread(_disk, url) - empty) / copies / 1e3,
        "tables_kb": await asyncio.to_thread(_tables, url, copies),
    }


async def woken(url: str, copies: int) -> dict[str, Any]:
    """Measure how long one worker takes for *copies* of answered conversations that all become due at once."""
    await asyncio.to_thread(multiply, url, copies)
    most, left, done = 0.0, copies + _TEMPLATES, asyncio.Event()

    def answer(_: Any) -> str:
        nonlocal most, left
        left -= 1
        if left % 100 == 0:
            most = max(most, _resident() - resident)
        if not left:
            done.set()
        return "It is paid."

    async with AsyncExitStack() as opened:
        store = await opened.enter_async_context(await PostgresStore.open(url))
        model = ScriptedModel(*[answer] * left)
        resident, wall, cpu = _resident(), time.perf_counter(), time.process_time()
        await opened.enter_async_context(Runtime([Clerk()], Resources(store=store, model=model)))
        await done.wait()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"woken": copies, "seconds": wall, "per_second": copies / wall, "cpu_ms": cpu / copies * 1e3, "mib": most}


async def _runtime(opened: AsyncExitStack, url: str, bus: str, model: Any, *, takes: bool) -> Runtime:
    store = await opened.enter_async_context(await PostgresStore.open(url))
    bell = await opened.enter_async_context(NatsBell(bus))
    runtime = Runtime([Clerk()], Resources(store=store, model=model))
    runtime.join(Fleet(bell=bell, targets={"desk": ["clerk"]}, takes=["desk"] if takes else []))
    return await opened.enter_async_context(runtime)


async def _pass(store: Any) -> None:
    """Do the queries of a pass of the watchdog that finds nothing."""
    await store.due(OPERATOR, agents=["clerk"], owner="nobody")
    await store.claim_turns(OPERATOR, 1.0, agents=["clerk"])
    await store.sweep(OPERATOR)


async def _timed_pass(store: Any) -> float:
    begun = time.perf_counter()
    await _pass(store)
    return time.perf_counter() - begun


async def _wake(store: PostgresStore, number: int) -> None:
    """Answer one conversation, and wait for the end of its turn."""
    scope = Scope(tenant="shop", user=f"user-{number % _TEMPLATES}")
    async with Runtime([Clerk()], Resources(store=store, model=ScriptedModel("It is paid."))) as runtime:
        conversation = await runtime.conversation(scope, f"copy-{number}")
        (turn,) = await conversation.turns()
        await runtime.approve(scope, f"{turn.run_id}:1.0")
        await (await conversation.turn(turn.run_id)).result()


def _disk(url: str) -> int:
    """Return the bytes of the database's files."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _tables(url: str, copies: int) -> dict[str, float]:
    """Return the kB of each table with its indexes for one conversation, the largest first."""
    query = """
        SELECT relname, pg_total_relation_size(relid) / 1e3 / %s AS kb FROM pg_stat_user_tables
        WHERE schemaname = 'concertino' ORDER BY kb DESC
    """
    with psycopg.connect(url) as connection:
        return {name: float(kb) for name, kb in connection.execute(query, (copies,)).fetchall() if kb > 0.1}


def _resident() -> float:
    """Return the resident memory of this process, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
