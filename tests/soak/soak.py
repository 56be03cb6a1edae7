"""A fleet at work on published tasks, while workers are killed and frozen, bells lost and servers restarted."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import psycopg

from concertino import OPERATOR, Runtime, Scope
from concertino.errors import ConcertinoError
from concertino.storage.conversation_types import ENDED_STATES
from tests.airline.conftest import Published
from tests.fleet.nats_server import NatsServer
from tests.postgres.server import Server

from . import desk
from .audit import audit, lateness
from .heartbeat import heartbeat, starvation
from .outside import Guest, Outside
from .record import AWAY, KILL, Record

WORKERS, KILL_EVERY = 4, 2.0
OPEN = 12
"""Conversations in progress at the same time."""
LOOK_EVERY = 0.1
T = TypeVar("T")
_DUE = """
    SELECT h.run, h.ready_at, extract(epoch FROM clock_timestamp())::float8,
        format('state %s, claim %s of %s, lease %s, tries %s', h.state, h.epoch, h.owner, h.lease, h.tries)
    FROM concertino.heads AS h WHERE h.ready_at < extract(epoch FROM clock_timestamp()) AND h.tries = 0
"""
"""Runs that nobody has taken yet. One that was killed twice without progress has a back-off of its own."""
_CLAIMED = """
    SELECT number, not_before FROM concertino.turns
    WHERE due AND state = 'queued' AND not_before > extract(epoch FROM clock_timestamp())
"""
"""Turns that a worker is starting, and the ends of its claims."""


class Workers:
    """The processes of the fleet that work."""

    def __init__(self, settings: desk.Settings, log: Path, chance: random.Random, record: Record) -> None:
        self._settings, self._log, self._chance, self._record = settings, log, chance, record
        self._processes: list[asyncio.subprocess.Process] = []
        self._ready: set[asyncio.subprocess.Process] = set()
        self._frozen: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start a worker, and wait until it is ready; again if the database was away."""
        program = [sys.executable, "-m", "tests.soak.desk", json.dumps(asdict(self._settings))]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        while True:
            with self._log.open("ab") as log:
                started = await asyncio.create_subprocess_exec(
                    *program, env=environment, stdout=asyncio.subprocess.PIPE, stderr=log
                )
            self._processes.append(started)
            assert started.stdout is not None
            if await started.stdout.readline():
                self._ready.add(started)
                return
            self._processes.remove(started)
            await started.wait()

    async def kill(self) -> bool:
        """Kill one, unless half of them are frozen or not ready yet; return whether one was killed."""
        able = [each for each in self._processes if each in self._ready - {self._frozen}]
        if len(able) <= WORKERS // 2:
            return False
        killed = self._chance.choice(able)
        self._processes.remove(killed)
        self._ready.remove(killed)
        with self._record.fault(KILL):
            killed.kill()
            await killed.wait()
        return True

    async def freeze(self, seconds: float) -> None:
        """Stop one for some time."""
        self._frozen = self._chance.choice([each for each in self._processes if each in self._ready])
        with self._record.fault("freeze"):
            self._frozen.send_signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self._frozen.send_signal(signal.SIGCONT)
        self._frozen = None

    async def close(self) -> None:
        """Kill all."""
        for each in self._processes:
            with suppress(ProcessLookupError):
                each.kill()
            await each.wait()


async def soak(published: Published, data: Path, *, seconds: float, seed: int, show: Callable[[str], None]) -> Record:
    """Let a fleet work for *seconds*, with all faults, and then until every conversation has ended."""
    chance = random.Random(seed)
    database, bus = Server(), NatsServer()
    async with AsyncExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        opened.callback(database.close)
        opened.callback(bus.stop)
        await asyncio.to_thread(database.start)
        await asyncio.to_thread(bus.start)
        url, outside = database.database(), Outside(published, folder, seed)
        settings = desk.Settings(url, bus.url, str(folder / "socket"), str(data), seed)
        await opened.enter_async_context(outside.served(folder / "socket"))
        await opened.enter_async_context(heartbeat(url, folder / "heartbeat"))
        web = await opened.enter_async_context(desk.process(settings, takes=()))
        record = Record(outside, url)
        workers = Workers(settings, folder / "workers.log", chance, record)
        opened.push_async_callback(workers.close)
        await asyncio.gather(*(workers.start() for _ in range(WORKERS)))
        over = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(_look_for_late(record)), group.create_task(_answer(web, record))]
            faults = group.create_task(_faults(record, workers, database, bus, over, seconds))
            talks = [group.create_task(_talk_on(web, record, number, over)) for number in range(OPEN)]
            reporting = group.create_task(_report(record, show))
            await asyncio.wait([faults, *talks])
            for task in (*watching, reporting):
                task.cancel()
        machine = starvation(folder / "heartbeat")
        record.starved = machine.share
        record.problems, record.late = await audit(record, web), lateness(record, machine)
        if record.problems:
            show((folder / "workers.log").read_text()[-4000:])
        return record


async def _talk_on(web: Runtime, record: Record, place: int, over: float) -> None:
    """Have one conversation after another."""
    tasks = sorted(record.outside.published.gold, key=int)
    while asyncio.get_running_loop().time() < over:
        number = len(record.outside.guests)
        guest = record.outside.guest(f"guest-{number}", tasks[number % len(tasks)])
        await _talk(web, record, guest)


async def _talk(web: Runtime, record: Record, guest: Guest) -> None:
    """Send both messages at once, and wait until both turns have ended."""
    scope = Scope(tenant="airline", user=guest.name)
    first = f"{guest.name}\n{record.outside.published.asked(guest.task)}"
    conversation = await _patient(lambda: web.conversation(scope, guest.name, agent="airline"))
    turns = [
        await _patient(lambda text=text, key=key: conversation.send(text, key=key))  # type: ignore[misc]
        for key, text in (("first", first), ("second", "Go on."))
    ]
    record.turns[guest.name] = [turn.id for turn in turns]
    for turn in turns:
        while (await _patient(turn.read)).state not in ENDED_STATES:  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(0.2)


async def _patient(do: Callable[[], Awaitable[T]]) -> T:
    """Repeat what fails while the database restarts."""
    while True:
        with suppress(ConcertinoError):
            return await do()
        await asyncio.sleep(0.2)


async def _answer(web: Runtime, record: Record) -> None:
    """Approve what asks; but nobody answers the first question of every second guest that is asked."""
    ignored: dict[str, str] = {}
    while True:
        for wait in await _patient(lambda: web.approvals(OPERATOR)):
            turn = next((name for name, runs in record.turns.items() if wait.root_id in runs), None)
            if turn is None:
                continue
            if (
                int(turn.rpartition("-")[2]) % (2 * desk.ASKS_EVERY) == 0
                and ignored.setdefault(turn, wait.key) == wait.key
            ):
                continue
            with suppress(ConcertinoError):  # it is over, or the database restarts: it is tried again
                await web.approve(Scope(tenant="airline", user=turn), wait.key)
        await asyncio.sleep(0.2)


async def _faults(
    record: Record, workers: Workers, database: Server, bus: NatsServer, over: float, seconds: float
) -> None:
    """Kill a worker every two seconds, as long as two others work; freeze one, and restart each server, once."""
    loop, begun = asyncio.get_running_loop(), over - seconds

    async def once(share: float, name: str, do: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(begun + seconds * share - loop.time())
        await do()
        record.faults[name] += 1

    async def restart_database() -> None:
        with record.fault(AWAY):
            await asyncio.to_thread(database.stop)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(database.start)

    async def restart_bus() -> None:
        with record.fault("NATS was away"):
            await asyncio.to_thread(bus.stop)
            await asyncio.sleep(1.0)
            await asyncio.to_thread(bus.start)

    async def kill() -> None:
        while loop.time() + KILL_EVERY < over:
            await asyncio.sleep(KILL_EVERY)
            if await workers.kill():
                record.faults["kills"] += 1
                group.create_task(workers.start())

    async with asyncio.TaskGroup() as group:
        group.create_task(kill())
        group.create_task(once(0.25, "freezes", lambda: workers.freeze(desk.LEASE + 2.0)))
        group.create_task(once(0.5, "restarts of PostgreSQL", restart_database))
        group.create_task(once(0.7, "restarts of NATS", restart_bus))


async def _look_for_late(record: Record) -> None:
    """Note which runs are due, until when nobody has taken them, and claims of turns, by the database's clock."""
    while True:
        with suppress(psycopg.Error):
            async with await psycopg.AsyncConnection.connect(record.database, autocommit=True) as connection:
                while True:
                    found = await (await connection.execute(_DUE)).fetchall()
                    record.untaken |= {(run, ready): (now, seen) for run, ready, now, seen in found}
                    for turn, until in await (await connection.execute(_CLAIMED)).fetchall():
                        record.claims[turn].add(until)
                    await asyncio.sleep(LOOK_EVERY)
        await asyncio.sleep(LOOK_EVERY)


async def _report(record: Record, show: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(10)
        show(f"{len(record.turns)} conversations, {record.faults['kills']} kills, {dict(record.outside.seen)}")
