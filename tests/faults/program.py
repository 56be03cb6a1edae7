"""The program that the faults hit: a worker of a fleet, on either store and over any bell.

    python -m tests.faults.program SOCKET

is a fork server, as that of the crash tests. A process says when it is ready, works until it is killed or gets a line,
and then leaves the fleet.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from concertino import Resources, Retry, SqliteStore
from concertino.providers import price
from concertino.runtime import Fleet, Runtime
from concertino.storage import PostgresStore
from concertino.testing import FaultyModel, FaultyStore, Points
from concertino.usage import Tokens
from concertino.wiring import is_url, open_bell
from tests.crash.cast import Outside
from tests.crash.forks import say, serve

from .cast import TARGETS, RemoteModel, agents


@dataclass
class Orders:
    """What a process does, and what happens to it."""

    folder: str
    effects: str
    provider: str
    database: str
    nats: str = ""
    takes: tuple[str, ...] = ("desks", "batch")
    coroutines: int = 16
    signal: int = 0
    """Sent to itself at the *count*-th point whose name *at* matches; 0: none."""
    at: str = ".*"
    count: int = 0
    lease: float = 1.0
    sweep: float = 0.1
    patience: float = 20.0
    sessions: int = 4
    tries: int = 5
    grace: float = 0.0
    seconds: float | None = None
    """How long an approval may take."""
    silence: float = 60.0
    """Seconds after which a model's call without an answer fails."""
    unreachable: str = ""
    """Why the first model call cannot reach the provider."""
    skew: float = 0.0
    """Seconds by which its clock is wrong."""
    largest: int = 0
    """Most bytes of a file that it writes; 0: no limit."""
    without: tuple[str, ...] = ()
    """Tools that this version no longer has."""


async def live(orders: Orders, talk: socket.socket) -> dict[str, Any]:
    """Work until a line comes."""
    left = orders.count

    def at(name: str, number: int) -> None:
        nonlocal left
        if orders.signal and re.fullmatch(orders.at, name):
            left -= 1
            if left == 0:
                say(talk, {"point": name, "number": number})
                os.kill(os.getpid(), orders.signal)

    points, outside = Points(at), Outside(orders.folder, orders.effects, orders.provider)
    model = FaultyModel(RemoteModel(outside, orders.silence, orders.unreachable), points)
    async with await opened(orders) as store, open_bell(orders.database, orders.nats) as bell:
        resources = Resources(
            store=FaultyStore(store, points),
            model=model,
            models=lambda _: model,
            deps=outside,
            retry=Retry(first=0.01),
        )
        runtime = Runtime(
            agents(points, without=orders.without, seconds=orders.seconds),
            resources,
            lease=orders.lease,
            sweep=orders.sweep,
            tries=orders.tries,
            back_off=0.05,
        )
        runtime.join(Fleet(bell=bell, targets=TARGETS, takes=orders.takes, coroutines=orders.coroutines))
        drained, loop = asyncio.Event(), asyncio.get_running_loop()

        def drain() -> None:
            loop.remove_reader(talk.fileno())
            drained.set()

        loop.add_reader(talk.fileno(), drain)
        async with runtime:
            if orders.largest:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (orders.largest, resource.RLIM_INFINITY))
            say(talk, {"ready": True})
            await drained.wait()
            await runtime.close(orders.grace)
    return {"points": points.passed}


async def opened(orders: Orders) -> PostgresStore | SqliteStore:
    """Open the store of a case."""
    if is_url(orders.database):
        return await PostgresStore.open(orders.database, patience=orders.patience, sessions=orders.sessions)
    return await SqliteStore.open(orders.database)


def run(given: dict[str, Any], talk: socket.socket) -> dict[str, Any]:
    """Do what the orders *given* say."""
    orders = Orders(**given)
    if orders.skew:
        clock = time.time
        time.time = lambda: clock() + orders.skew
    return asyncio.run(live(orders, talk))


def warm() -> None:
    """Import and compile what is slow, once and not in each process."""
    for agent in agents(Points(lambda name, number: None)):
        for each in agent.tools:
            arguments = {"query": "x", "how": "x", "place": 1}
            each.validate({name: arguments[name] for name in each.parameters["properties"]})
    price("remote", "model", Tokens(prompt=1))


if __name__ == "__main__":
    warm()
    serve(sys.argv[1], run)
