"""The program that is killed: a boss, its children and theirs, with tools of all effects.

    python -m tests.crash.program SOCKET

is a fork server: each connection brings one line of JSON (`Orders`), and gets a process of its own, which writes lines
back: its pid, what it stops at, and how it ended. A connection that ends without a last line was killed.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sqlite3
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from concertino import OPERATOR, Chat, Operator, Resources, Scope, SqliteStore
from concertino.errors import ConcertinoError, RunExistsError
from concertino.providers import price
from concertino.runtime import Runtime
from concertino.testing import FaultyModel, FaultyStore, Points
from concertino.usage import Tokens

from .cast import Outside, RemoteModel, agents
from .forks import say, serve

ROOT = "run_crash"


@dataclass
class Orders:
    """What a life is to do, and what happens to it."""

    folder: str
    effects: str
    provider: str
    do: str = "finish"
    runs: list[tuple[str, str]] = field(default_factory=lambda: [(ROOT, "boss")])
    """Their ids and agents."""
    signal: int = 0
    """Sent to itself at the *count*-th point whose name *at* matches; 0: none."""
    at: str = ".*"
    count: int = 0
    lease: float = 30.0
    busy_timeout: float = 10.0
    waits_to_go: bool = False
    """Whether it begins only when a line comes."""


# -- errands ---------------------------------------------------------------------------------------------------------


async def resume(runtime: Runtime, run_id: str) -> dict[str, Any]:
    """Resume a run, and say what came of it."""
    try:
        run = await runtime.resume(OPERATOR, run_id)
    except ConcertinoError as error:
        return {"error": type(error).__name__}
    return {"status": (await run.result()).status}


async def stop(runtime: Runtime, run_id: str) -> dict[str, Any]:
    """Stop a run; the receipt."""
    return asdict(await runtime.stop(OPERATOR, run_id))


async def deliver(runtime: Runtime, key: str) -> dict[str, Any]:
    """Deliver a result ten times."""
    answers = [await runtime.resolve(OPERATOR, key, f"from {os.getpid()}") for _ in range(10)]
    return {"won": [answer.won for answer in answers], "content": answers[-1].wait.resolution.content}


ERRANDS = {"resume": resume, "stop": stop, "deliver": deliver}


# -- a life ----------------------------------------------------------------------------------------------------------


async def live(orders: Orders, talk: socket.socket) -> dict[str, Any]:
    """One life: start what has not begun, take up what was left, approve what asks, until all has ended."""
    left = orders.count

    def at(name: str, number: int) -> None:
        nonlocal left
        if not orders.signal or not re.fullmatch(orders.at, name):
            return
        left -= 1
        if left == 0:
            say(talk, {"point": name, "number": number})
            os.kill(os.getpid(), orders.signal)

    points, outside = Points(at), Outside(orders.folder, orders.effects, orders.provider)
    model = FaultyModel(RemoteModel(outside), points)
    opened = await SqliteStore.open(Path(orders.folder) / "runs.db", busy_timeout=orders.busy_timeout)
    store = FaultyStore(opened, points)
    runtime = Runtime(
        agents(points), Resources(store=store, models=lambda _: model, deps=outside), lease=orders.lease, back_off=0.01
    )
    if orders.do in ERRANDS:
        return await ERRANDS[orders.do](runtime, orders.runs[0][0])
    for run_id, agent in orders.runs:
        if await store.run(OPERATOR, run_id) is None:
            with suppress(RunExistsError):  # a retry by whoever asked for it
                await runtime.start(Chat(model=model, message="go", scope=Scope(user="u")), agent, run_id=run_id)
    if orders.do == "start":
        await asyncio.Event().wait()  # until it is killed, or stopped and killed
    until_waits = orders.do == "until_waits"
    ended = [await drive(runtime, store, run_id, until_waits) for run_id, _ in orders.runs]
    await opened.close()
    return {"points": points.passed, "ended": ended}


async def drive(runtime: Runtime, store: FaultyStore, run_id: str, until_waits: bool) -> dict[str, Any]:
    """See *run_id* to its end, whoever runs it."""
    while True:
        stored = await store.run(OPERATOR, run_id)
        if stored.end is not None:
            await runtime.look()  # forgets what it had of the run, if somebody else has ended it
            result = await runtime.result(OPERATOR, run_id)
            return {"status": result.status, "text": result.text, "error": result.error}
        if stored.state == "dead_letter":
            return {"status": stored.state, "text": "", "error": stored.reason}
        going = runtime.live(OPERATOR, run_id)
        if going is not None and not going.done:
            await going.result()
        waits = await store.waits(OPERATOR, root_id=run_id)
        if until_waits and waits:
            return {"waits": [wait.key for wait in waits]}
        for wait in waits:
            if wait.kind == "approval":
                await runtime.approve(Operator("ann"), wait.key)
        with suppress(ConcertinoError):
            await runtime.look()
        going = runtime.live(OPERATOR, run_id)
        if going is None or going.done:
            await asyncio.sleep(0.01)  # somebody else has it: his lease ends, or he does


def lock(orders: Orders, talk: socket.socket) -> dict[str, Any]:
    """Take the write lock of the file, and stop with it."""
    connection = sqlite3.connect(Path(orders.folder) / "runs.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say(talk, {"point": "locked", "number": 0})
    os.kill(os.getpid(), signal.SIGSTOP)
    connection.execute("ROLLBACK")
    return {}


def run(given: dict[str, Any], talk: socket.socket) -> dict[str, Any]:
    """Do what the orders *given* say."""
    orders = Orders(**given)
    return lock(orders, talk) if orders.do == "lock" else asyncio.run(live(orders, talk))


def warm() -> None:
    """Import and compile what is slow, once and not in each life."""
    for agent in agents(Points(lambda name, number: None)):
        for each in agent.tools:
            each.validate({"query": "warm"} if each.name in ("child", "grandchild") else {"place": 1})
    price("remote", "model", Tokens(prompt=1))


if __name__ == "__main__":
    warm()
    serve(sys.argv[1], run)
