"""What the faults have in hand: servers, the processes outside, and workers that are killed, stopped and drained."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from concertino import OPERATOR, Operator, Resources, Runtime, Scope
from concertino.errors import ConcertinoError
from concertino.runtime import Bell, Conversation, ConversationTurn, Fleet
from concertino.storage import PostgresStore, Store
from concertino.testing import Points
from concertino.wiring import open_bell, open_store
from tests.auditor import Violation, audit, lines
from tests.crash.cast import Outside
from tests.crash.world import Life, World
from tests.fleet.nats_server import NatsServer
from tests.postgres.server import Server

from .cast import TARGETS, RemoteModel, agents
from .program import Orders
from .proxy import Proxy, proxy_to

if TYPE_CHECKING:
    from .table import Fault

CARLA = Scope(user="carla")
ANN = Operator("ann")
TEMPLATE = "empty"
SETTINGS = {"fsync": "off", "max_connections": "60"}
LONG = 240.0
"""Seconds after which a case hangs."""


class Site:
    """The servers and the processes outside, for all cases on one kind of store."""

    def __init__(self, kind: str) -> None:
        self.world = World("tests.faults")
        self.nats = NatsServer()
        self.server = Server() if kind == "postgres" else None
        self._made = 0

    async def open(self) -> None:
        """Start the servers, and make the empty database that each case gets a copy of."""
        if self.server is not None:
            await asyncio.to_thread(self.nats.start)
            await asyncio.to_thread(self.server.start, **SETTINGS)
            self._create(TEMPLATE, "template0")
            await (await PostgresStore.open(self.server.url(TEMPLATE))).close()

    def close(self) -> None:
        """Stop everything."""
        self.nats.stop()
        self.world.close()
        if self.server is not None:
            self.server.close()

    @asynccontextmanager
    async def case(self, seed: int, *, empty: bool = False) -> AsyncIterator[Case]:
        """Run a case with a database of its own; with *empty*, it has no schema yet."""
        self._made += 1
        folder = self.world.folder("case")
        folder.mkdir()
        async with AsyncExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            path = str(folder / "runs.db")
            proxy, reached = None, path
            if self.server is not None:
                name = f"case_{self._made}"
                self._create(name, "template0" if empty else TEMPLATE)
                stack.push_async_callback(asyncio.to_thread, self._tidy, name)
                path = self.server.url(name)
                proxy = await stack.enter_async_context(proxy_to(self.server.port))
                reached = self.server.url(name, port=proxy.port)
            case = Case(self, folder, path, reached, proxy, random.Random(seed))
            stack.callback(case.kill)
            yield case

    async def run(self, fault: Fault, seed: int) -> None:
        """Make a fault, and fail if an invariant does not hold then."""
        print(f"SEED={seed}")  # for a case that fails before it is audited
        async with self.case(seed, empty=fault.empty) as case:
            await fault.run(case)
            found = await case.audit()
        assert not found, "\n".join(map(str, found))

    def _create(self, name: str, template: str) -> None:
        assert self.server is not None
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")

    def _tidy(self, name: str) -> None:
        """Start servers that a case has left stopped, and remove its database: thousands would fill the disk."""
        assert self.server is not None
        if not self.server.running:
            self.server.start(**SETTINGS)
        if not self.nats.running:
            self.nats.start()
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Worker:
    """A worker process."""

    def __init__(self, life: Life) -> None:
        self.life = life

    async def killed(self) -> bool:
        """Wait for its end, and return whether it was killed."""
        return await asyncio.to_thread(self.life.end) is None

    async def stopped(self) -> bool:
        """Wait until it has stopped itself, and return False if it ended before."""
        return bool(await asyncio.to_thread(self.life.until_stopped))

    async def drained(self) -> bool:
        """Let it leave the fleet; return False if it was killed before."""
        with suppress(OSError):
            self.life.write({})
        return not await self.killed()

    def send(self, number: int) -> None:
        """Send it a signal."""
        self.life.send(number)


class Case:
    """A database, what the world outside has seen, and the processes that work on it."""

    def __init__(
        self, site: Site, folder: Path, database: str, reached: str, proxy: Proxy | None, chance: random.Random
    ) -> None:
        self.site, self.folder, self.database, self.chance = site, folder, database, chance
        self._reached, self._proxy = reached, proxy
        self.accepted: list[ConversationTurn] = []
        self.workers: list[Worker] = []
        self.late_answers = False
        """Whether a person answers only while no run is in progress: then each run that waits is suspended."""
        self._web: Runtime | None = None
        self._bell: Bell | None = None

    # -- servers ----------------------------------------------------------------------------------------------------

    @property
    def proxy(self) -> Proxy:
        """The proxy between the workers and PostgreSQL."""
        assert self._proxy is not None
        return self._proxy

    @property
    def server(self) -> Server:
        """The PostgreSQL server."""
        assert self.site.server is not None
        return self.site.server

    def connect(self) -> psycopg.Connection[Any]:
        """Connect to the database as nobody's store does."""
        return psycopg.connect(self.database, autocommit=True, options="-c search_path=concertino")

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read or change rows behind the store's back."""
        if self.site.server is not None:
            with self.connect() as connection:
                found = connection.execute(statement.replace("?", "%s"), values)  # type: ignore[arg-type]
                return found.fetchall() if found.description else []
        with closing(sqlite3.connect(self.database, timeout=60, isolation_level=None)) as file:
            return file.execute(statement, values).fetchall()

    def read(self, statement: str, *values: Any) -> Any:
        """Return the only value of a query."""
        return self.execute(statement, *values)[0][0]

    # -- processes --------------------------------------------------------------------------------------------------

    async def worker(self, at: str = "", count: int = 1, number: int = signal.SIGKILL, **orders: Any) -> Worker:
        """Start a worker; with *at*, it sends itself a signal at the *count*-th such point."""
        path = self.site.world.sockets
        given = Orders(str(self.folder), f"{path}/effects", f"{path}/provider", self._reached, **orders)
        if self.site.server is not None and not given.nats:
            given.nats = self.site.nats.url
        if at:
            given.at, given.count, given.signal = at, count, number
        made = Worker(await asyncio.to_thread(Life, f"{path}/program", given))
        self.workers.append(made)
        return made

    async def killed_at(self, at: str, most: int = 1, **orders: Any) -> bool:
        """Start a worker that dies at such a point, at one of the first *most*; return False if it does not come."""
        worker = await self.worker(at, self.chance.randint(1, most), **orders)
        dies = asyncio.create_task(worker.killed())
        done = asyncio.create_task(self.settled())
        await asyncio.wait([dies, done], return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        await asyncio.gather(done, return_exceptions=True)
        if not dies.done():
            with suppress(OSError):
                worker.life.write({})
        return await dies

    def kill(self) -> None:
        """Kill all workers."""
        for worker in self.workers:
            worker.send(signal.SIGKILL)
            worker.life.bury()

    # -- messages ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def web(self) -> AsyncIterator[Runtime]:
        """Be the web process, whose runtime and bell the case uses."""
        async with self.process() as (self._web, self._bell):
            yield self._web

    @asynccontextmanager
    async def process(self) -> AsyncIterator[tuple[Runtime, Bell]]:
        """Be a process of the fleet that takes no work."""
        nats = self.site.nats.url if self.site.server is not None else None
        async with await open_store(self.database) as store, open_bell(self.database, nats) as bell:
            model = RemoteModel(Outside(str(self.folder), "", ""))
            resources = Resources(store=store, model=model, models=lambda _: model)
            runtime = Runtime(agents(Points(lambda name, number: None)), resources, sweep=0.5)
            runtime.join(Fleet(bell=bell, targets=TARGETS))
            async with runtime:
                yield runtime, bell

    def ring(self, target: str) -> None:
        """Wake the workers of a target."""
        assert self._bell is not None
        self._bell.ring(f"cmd.agent.{target}.wakeup")

    @property
    def runtime(self) -> Runtime:
        """The runtime of the web process."""
        assert self._web is not None
        return self._web

    @property
    def store(self) -> Store:
        """The store of the web process."""
        return self.runtime.store

    async def send(self, text: str, conversation: str = "c1", **options: Any) -> ConversationTurn:
        """Send a message to the desk."""
        found: Conversation = await self.runtime.conversation(CARLA, conversation, agent="desk")
        turn = await found.send(text, **options)
        self.accepted.append(turn)
        return turn

    async def answer(self, turn: ConversationTurn) -> str:
        """Wait for the answer of a turn, and allow what it asks for."""
        await self.settled()
        stored = await turn.read()
        assert stored.state == "completed", f"turn {turn.id} is {stored.state}: {stored.error}"
        return stored.answer

    async def settled(self, *, approve: bool = True) -> None:
        """Wait until all runs and turns have ended; allow what they ask for."""
        try:
            async with asyncio.timeout(LONG):
                while left := await self._left():
                    if approve:
                        await self.approve()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"the case hangs: {left}") from None

    async def approve(self) -> None:
        """Allow what waits for an approval now."""
        if self.late_answers and await self.store.runs(OPERATOR, state="running", limit=1):
            return
        for wait in await self.store.waits(OPERATOR):
            if wait.kind == "approval":
                with suppress(ConcertinoError):
                    await self.runtime.approve(ANN, wait.key)

    async def _left(self) -> list[str]:
        runs = await self.store.runs(OPERATOR, roots=True, limit=10_000)
        left = [f"{run.start.run_id} is {run.state} {run.reason}" for run in runs if run.end is None]
        known = {run.start.run_id for run in runs}
        return left + [f"{turn.id} is queued" for turn in self.accepted if turn.id not in known]

    async def finish(self, **orders: Any) -> None:
        """Let a worker that no fault hits do the rest."""
        worker = await self.worker(**orders)
        await self.settled()
        assert await worker.drained()

    async def audit(self) -> list[Violation]:
        """Return what does not hold."""
        accepted = [turn.id for turn in self.accepted]
        return await audit(self.database, self.folder / "calls", self.folder / "effects", accepted=accepted)

    def refuse(self, *refusals: dict[str, Any]) -> None:
        """Let the provider refuse, cut or stall its next answers."""
        (self.folder / "refusals").write_text(json.dumps(refusals))

    def calls(self) -> list[dict[str, Any]]:
        """Return what the provider was asked."""
        return lines(self.folder / "calls")

    def effects(self, tool: str) -> int:
        """Return how often a tool took effect."""
        return sum(each["tool"] == tool and each["what"] != "probe" for each in lines(self.folder / "effects"))


async def until(asked: Callable[[], Awaitable[Any] | Any]) -> Any:
    """Return the first true answer."""
    async with asyncio.timeout(LONG):
        while True:
            answer = asked()
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(0.01)
