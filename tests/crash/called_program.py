"""A desk that has work done on another target, by an agent or as a tool, and one of the two processes, which kills
itself at a point."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from concertino import OPERATOR, AgentConfig, Chat, Resources, Runtime, SqliteStore, delegate
from concertino.errors import RunExistsError
from concertino.runtime import Fleet, LocalBell
from concertino.storage import PostgresStore, Store
from concertino.testing import FaultyModel, FaultyStore, FaultyTool, Points, call
from concertino.tools import Done, NotDone, Tool, ToolContext
from tests.runtime.kit import Steady

from .lives import ANN, lines, write

ROLES = ("desk", "clerk")
RUN = "run_of_the_desk"
_POLLS = ("due:", "claim_calls:", "claim_due:", "claim_turns:")
"""Points that a process passes as often as it looks."""


class Pay(Tool):
    """A payment that is made once, as its own ledger tells."""

    name, description, effect = "pay", "Pay.", "once"
    parameters: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, folder: Path) -> None:
        self._ledger = folder / "paid"

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """See the port."""
        write(self._ledger, context.key)
        return "paid"

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone:
        """See the port."""
        return Done("paid") if key in lines(self._ledger) else NotDone()


class TargetPay(Pay):
    """A payment that the processes of the clerks make."""

    target = "clerks"


class Clerk(AgentConfig[None]):
    name = "clerk"

    def __init__(self, *tools: Tool) -> None:
        self.tools = tools


class Desk(AgentConfig[None]):
    name = "desk"
    tools = (delegate(Clerk(), description="Ask the clerk.", target="clerks"),)


class PayingDesk(AgentConfig[None]):
    """A desk that pays itself, with a tool of the other target."""

    name = "desk"

    def __init__(self, folder: Path) -> None:
        self.tools = (TargetPay(folder),)


def points_of(kill: tuple[str, int] | None) -> Points:
    """Return points that kill the process when it passes the named one for so many times."""
    passed: Counter[str] = Counter()

    def at(name: str, _number: int) -> None:
        passed[name] += 1
        if kill == (name, passed[name]):
            os.kill(os.getpid(), signal.SIGKILL)

    return Points(at)


def moments(passed: list[str]) -> list[tuple[str, int]]:
    """Return the points at which a process can be killed, each with its number among those of its name."""
    many: Counter[str] = Counter()
    found = []
    for name in passed:
        many[name] += 1
        if not name.startswith(_POLLS):
            found.append((name, many[name]))
    return found


def runtime_of(role: str, called: str, folder: Path, store: Store, points: Points) -> Runtime:
    """Return the runtime of a process: it knows the agent, or the tool, of its role only."""
    first = call("clerk", query="pay") if role == "desk" and called == "agent" else call("pay")
    model = FaultyModel(Steady(first, "All is paid." if role == "desk" else "It is paid."), points)
    faulty: Any = FaultyStore(store, points)
    resources = Resources(store=faulty, models=lambda _: model)
    agents: list[AgentConfig[None] | Tool] = []
    if role == "desk":
        agents.append(Desk() if called == "agent" else PayingDesk(folder))
    elif called == "agent":
        agents.append(Clerk(FaultyTool(Pay(folder), points)))
    else:
        agents.append(FaultyTool(TargetPay(folder), points))
    runtime = Runtime(agents, resources, sweep=0.02, lease=0.5)
    targets = {"desks": ["desk"], "clerks": ["clerk"] if called == "agent" else []}
    runtime.join(Fleet(bell=LocalBell(), targets=targets, takes=[f"{role}s"]))
    return runtime


async def open_store(folder: Path) -> SqliteStore | PostgresStore:
    """Open the store of *folder*: a file, or the schema of a server that the file `database` names."""
    if (named := folder / "database").exists():
        url, schema = named.read_text().split()
        return await PostgresStore.open(url, schema=schema)
    return await SqliteStore.open(folder / "runs.db")


async def process(
    folder: Path, points: Points, role: str, called: str, kill: tuple[str, int] | None = None
) -> list[str]:
    """Do the work of one role until the run of the desk has ended. Return the points that were passed."""
    passed = points_of(kill) if kill else points
    async with (
        await open_store(folder) as store,
        runtime_of(role, called, folder, store, passed) as runtime,
    ):
        if role == "desk":
            with suppress(RunExistsError):  # a process before this one has started it
                await runtime.start(Chat("go", model="scripted:script", scope=ANN), "desk", run_id=RUN)
        while not await _is_over(store):  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(0.01)
    return passed.passed


async def _is_over(store: Store) -> bool:
    found = await store.runs(OPERATOR, roots=True)
    return any(each.end for each in found if each.start.agent == "desk")
