"""Faults 16 to 21 and 31: the database, the bus, the network between and the disk."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from concertino import OPERATOR
from concertino.runtime import ConversationTurn

from .proxy import proxy_to
from .table import fault
from .world import SETTINGS, Case, Worker, until


async def begun(case: Case, **orders: Any) -> tuple[Worker, list[ConversationTurn]]:
    """Start a worker on three conversations, and return it when it is in the middle of them."""
    turns = [await case.send("pay", f"c{number}") for number in range(3)]
    worker = await case.worker(**orders)
    many = case.chance.randint(1, 5)
    await until(lambda: len(case.calls()) >= many)
    return worker, turns


async def completed(case: Case, worker: Worker, turns: list[ConversationTurn]) -> None:
    """Wait until the worker has done all that is left."""
    await case.settled()
    assert {(await turn.read()).state for turn in turns} == {"completed"}
    assert await worker.drained()


@fault(16, "PostgreSQL restarts, or ends like a crash, and is away for a while", "postgres")
async def restarted(case: Case) -> None:
    async with case.web():
        worker, turns = await begun(case)
        how = case.chance.choice([signal.SIGINT, signal.SIGQUIT])
        await asyncio.to_thread(case.server.stop, how)
        await asyncio.sleep(case.chance.uniform(0.0, 1.0))
        await asyncio.to_thread(case.server.start, **SETTINGS)
        await completed(case, worker, turns)


@fault(16, "a process of the server is killed, so that PostgreSQL ends all sessions and recovers", "postgres")
async def recovered(case: Case) -> None:
    async with case.web():
        worker, turns = await begun(case)
        with case.connect() as connection:
            ((victim,), *_) = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()
            os.kill(victim, signal.SIGKILL)
            with suppress(psycopg.OperationalError):
                while True:  # until the server ends this session, too
                    connection.execute("SELECT 1")
        await completed(case, worker, turns)


@fault(17, "acknowledgements of commits are lost", "postgres")
async def lost_acknowledgements(case: Case) -> None:
    async with case.web():
        worker, turns = await begun(case)
        for _ in range(4):
            case.proxy.swallows = 1
            await asyncio.sleep(case.chance.uniform(0.0, 0.1))
        case.proxy.swallows = 0
        await completed(case, worker, turns)


@fault(18, "connections are half-open: nothing passes, and nothing ends them", "postgres")
async def half_open(case: Case) -> None:
    async with case.web():
        worker, turns = await begun(case, patience=2.0, lease=5.0)
        case.proxy.half_open()
        await case.settled()
        await until(lambda: not case.proxy.half_opened)  # the worker has given up each by itself
        await completed(case, worker, turns)


@fault(18, "connections are silent, deaf, slow or cut", "postgres")
async def bad_network(case: Case) -> None:
    async with case.web():
        worker, turns = await begun(case, patience=1.0, lease=30.0)
        proxy = case.proxy
        match case.chance.choice(["frozen", "deaf", "delay", "cut"]):
            case "frozen":
                proxy.frozen = True
                await asyncio.sleep(case.chance.uniform(0.5, 3.0))
                proxy.frozen = False
            case "deaf":
                proxy.deaf = True
                await asyncio.sleep(case.chance.uniform(0.5, 3.0))
                proxy.deaf = False
                proxy.cut()  # what was dropped is missing in the streams
            case "delay":
                proxy.delay = 0.02
            case _:
                for _ in range(5):
                    proxy.cut()
                    await asyncio.sleep(case.chance.uniform(0.0, 0.1))
        await completed(case, worker, turns)


@fault(18, "the server ends the sessions of workers", "postgres")
async def terminated_sessions(case: Case) -> None:
    async with case.web():
        worker, turns = await begun(case)
        with case.connect() as connection:
            for _ in range(5):
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                await asyncio.sleep(case.chance.uniform(0.0, 0.1))
        await completed(case, worker, turns)


@fault(18, "the server can only be read for a while, as after a failover", "postgres")
async def read_only(case: Case) -> None:
    async with case.web():
        worker, turns = await begun(case)
        name = case.database.rpartition("/")[2]
        with case.connect() as connection:
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            case.proxy.cut()
            await asyncio.sleep(case.chance.uniform(0.1, 0.5))
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        case.proxy.cut()
        await completed(case, worker, turns)


@fault(19, "no connection is left, and calls are cancelled while they wait for one", "postgres")
async def exhausted_pool(case: Case) -> None:
    async with case.web():
        worker, turns = await begun(case, sessions=1)
        case.proxy.cut()
        others: list[psycopg.Connection[Any]] = []
        with suppress(psycopg.OperationalError):
            while len(others) < 100:
                others.append(await asyncio.to_thread(case.connect))
        asked = [asyncio.ensure_future(case.store.runs(OPERATOR)) for _ in range(200)]
        await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.sleep(case.chance.uniform(0.0, 0.3))
        for other in others:
            other.close()
        await completed(case, worker, turns)


@fault(20, "deadlocks", "postgres")
async def deadlocks(case: Case) -> None:
    async with case.web():
        turns = [await case.send("pay", f"c{number}") for number in range(3)]
        worker = await case.worker()
        done = asyncio.create_task(case.settled())
        tables = ["heads", "journal", "operations", "messages", "usage", "events"]
        while not done.done():
            with suppress(psycopg.errors.DeadlockDetected):
                await asyncio.to_thread(_lock, case, case.chance.sample(tables, 3))
            await asyncio.sleep(0.02)
        await done
        await completed(case, worker, turns)


def _lock(case: Case, tables: list[str]) -> None:
    with case.connect() as connection, connection.transaction():
        for table in tables:
            connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")


@fault(21, "NATS is away at the start or dies in the middle, and comes back", "postgres")
async def lost_bus(case: Case) -> None:
    nats = case.site.nats
    async with case.web():
        if case.chance.random() < 0.5:
            await asyncio.to_thread(nats.stop)
            worker, turns = await begun(case)
            await asyncio.to_thread(nats.start)
        else:
            worker, turns = await begun(case)
            await asyncio.to_thread(nats.stop)
            turns.append(await case.send("pay", "c9"))
            await until(lambda: case.store.run(OPERATOR, turns[-1].id))
            await asyncio.to_thread(nats.start)
        turns.append(await case.send("pay", "c10"))
        await completed(case, worker, turns)


@fault(21, "the connection to NATS is half-open", "postgres")
async def silent_bus(case: Case) -> None:
    async with case.web(), proxy_to(case.site.nats.port) as proxy:
        worker, turns = await begun(case, nats=f"nats://127.0.0.1:{proxy.port}")
        proxy.half_open()
        turns.append(await case.send("pay", "c9"))
        await case.settled()
        await until(lambda: proxy.connections > 1 and not proxy.half_opened)  # the worker has noticed by itself
        await completed(case, worker, turns)


@fault(31, "the disk of the server is full, and has space again", "postgres")
async def full_server(case: Case) -> None:
    """The server refuses whatever adds a row, as it does without space for a page."""
    async with case.web():
        worker, turns = await begun(case)
        tables = ["journal", "messages", "events", "usage", "runs"]
        with case.connect() as connection:
            connection.execute(FULL)
            for table in tables:
                # In a thread: the proxy of a worker whose lock this waits for is in the event loop.
                statement = f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} EXECUTE FUNCTION full_disk()"
                await asyncio.to_thread(connection.execute, statement)
            await asyncio.sleep(case.chance.uniform(0.0, 2.0))
            for table in tables:
                await asyncio.to_thread(connection.execute, f"DROP TRIGGER full_disk ON {table}")
        await completed(case, worker, turns)


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$
"""


@fault(31, "the disk is full", "sqlite")
async def full_disk(case: Case) -> None:
    async with case.web():
        turns = [await case.send("pay", f"c{number}") for number in range(3)]
        size = size_of_log(case)
        worker = await case.worker(largest=size + case.chance.randint(1, 40) * 4096)
        await until(lambda: size_of_log(case) > size)
        await asyncio.sleep(0.1)
        worker.send(signal.SIGKILL)
        await worker.killed()
        await case.finish()
        assert {(await turn.read()).state for turn in turns} == {"completed"}
        assert case.read("PRAGMA integrity_check") == "ok"


def size_of_log(case: Case) -> int:
    """Return the size of SQLite's write-ahead log."""
    return Path(f"{case.database}-wal").stat().st_size
