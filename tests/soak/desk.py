"""The product of the soak: an airline's desk. `python -m tests.soak.desk SETTINGS` is a worker."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from concertino import AgentConfig, Allow, Ask, Done, ModelRequest, NotDone, Resources, Runtime, Tokens, ToolContext
from concertino.errors import ToolError
from concertino.messages import AssistantMessage, Text, ToolCall, UserMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.runtime import Fleet, NatsBell
from concertino.storage import PostgresStore, encode_message
from tests.airline.desk import DeskTool

Json = dict[str, Any]
TARGET = "desks"
LEASE, SWEEP = 3.0, 0.5
LOST = 0.3
"""The share of rings that are lost."""
ASKS_EVERY, ASK_SECONDS = 4, 4.0
"""Every fourth guest is asked before anything changes, and has so many seconds to answer."""


@dataclass
class Settings:
    """What the processes of the fleet share."""

    database: str
    bus: str
    socket: str
    """Of the world outside."""
    data: str
    """The folder of the published tasks."""
    seed: int


class Outside:
    """The world outside, as a process asks it."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    async def ask(self, **asked: Any) -> Json:
        """Return the answer."""
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=1 << 24)
        try:
            writer.write(json.dumps(asked).encode() + b"\n")
            answer: Json = json.loads(await reader.readline())
        finally:
            writer.close()
        return answer


class RemoteTool(DeskTool):
    """A tool whose work is done outside."""

    async def execute(self, arguments: Json, context: ToolContext) -> Any:
        """See `Tool.execute`."""
        asked = {"guest": context.scope.user, "tool": self.name, "arguments": arguments, "key": context.key}
        return _value(await context.deps.ask(do="execute", **asked))

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone:
        """See `Tool.probe`."""
        answer = await context.deps.ask(do="probe", key=key)
        return Done(_value(answer)) if answer else NotDone()


def _value(answer: Json) -> Any:
    if "error" in answer:
        raise ToolError(answer["error"])
    return answer["value"]


class RemoteModel:
    """The provider. It knows the guest by the first line of the first message."""

    provider, name = "outside", "gold"

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        spoken = [place for place, message in enumerate(request.messages) if isinstance(message, UserMessage)]
        answer = await self._outside.ask(
            do="ask",
            guest=request.messages[0].text.partition("\n")[0],
            turn=len(spoken),
            step=1 + sum(isinstance(message, AssistantMessage) for message in request.messages[spoken[-1] :]),
            messages=[encode_message(message) for message in request.messages],
        )
        tokens = Tokens(prompt=answer["prompt"], completion=answer["completion"])
        if "text" in answer:
            yield TextChunk(answer["text"])
            yield Reply(AssistantMessage((Text(answer["text"]),), "end", self.name), tokens)
        else:
            yield Reply(AssistantMessage((ToolCall(*answer["call"]),), "tool_calls", self.name), tokens)

    async def close(self) -> None:
        """See the port."""


class Desk(AgentConfig[None]):
    """The airline's agent."""

    name = "airline"

    def __init__(self, folder: Path) -> None:
        self.prompt = (folder / "policy.md").read_text()
        published = json.loads((folder / "tools.json").read_text())["assistant"]
        self.tools = tuple(RemoteTool(tool["function"]) for tool in published)

    def authorize_tool_call(self, run: Any, call: Any, arguments: Json) -> Allow | Ask:
        """Ask some guests before anything changes."""
        asks = int(run.chat.scope.user.rpartition("-")[2]) % ASKS_EVERY == 0
        effects = {tool.name: tool.effect for tool in self.tools}
        return Ask(seconds=ASK_SECONDS) if asks and effects[call.name] == "once" else Allow()


class LossyBell(NatsBell):
    """A bell that loses some of what it rings."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.bus)
        self._chance = random.Random(f"{settings.seed} {os.getpid()}")

    def ring(self, topic: str) -> None:
        """See the port."""
        if self._chance.random() >= LOST:
            super().ring(topic)


@asynccontextmanager
async def process(settings: Settings, *, takes: Collection[str]) -> AsyncIterator[Runtime]:
    """Open the runtime of a process of the fleet, which takes the work of these targets."""
    async with await PostgresStore.open(settings.database) as store, LossyBell(settings) as bell:
        outside = Outside(settings.socket)
        model = RemoteModel(outside)
        resources = Resources(store=store, model=model, models=lambda _: model, deps=outside)
        agent = Desk(Path(settings.data))
        # Whoever is killed did not die of its run: it is not postponed.
        runtime = Runtime([agent], resources, lease=LEASE, sweep=SWEEP, tries=1000, back_off=0.0)
        runtime.join(Fleet(bell=bell, targets={TARGET: [agent.name]}, takes=takes))
        async with runtime:
            yield runtime


async def work(settings: Settings) -> None:
    """Work until killed."""
    async with process(settings, takes=[TARGET]):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(Settings(**json.loads(sys.argv[1]))))
