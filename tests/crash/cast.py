"""Who plays in the crash tests: the agents, their tools and their model, all of them with their work outside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    Done,
    ModelRequest,
    NotDone,
    Pending,
    RunContext,
    Tool,
    ToolContext,
    delegate,
    tool,
)
from concertino.messages import AssistantMessage, MessagePart, Text, ToolCall
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.storage import encode_message
from concertino.testing import FaultyTool, Points
from concertino.usage import Tokens


class Outside:
    """The way to the world outside; what the tools have as `deps`."""

    def __init__(self, folder: str, effects: str, provider: str) -> None:
        self._effects, self.provider = effects, provider
        self._effects_log = f"{folder}/effects"
        self.calls_log = f"{folder}/calls"

    async def ask(self, path: str, asked: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Send one line, read lines to the end."""
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            writer.write(json.dumps({**asked, "pid": os.getpid()}).encode() + b"\n")
            while line := await reader.readline():
                yield json.loads(line)
        finally:
            writer.close()

    async def effect(self, what: str, key: str, tool: str = "", place: int = 0) -> dict[str, Any]:
        """Have an effect, or probe one."""
        asked = {"log": self._effects_log, "what": what, "key": key, "tool": tool, "place": place}
        return [answer async for answer in self.ask(self._effects, asked)][-1]


class RemoteModel:
    """The model that the provider's process plays."""

    provider = "remote"
    name = "model"

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask the provider's process."""
        asked = {"log": self._outside.calls_log, "request": canonical(request)}
        async for answer in self._outside.ask(self._outside.provider, asked):
            if "end" not in answer:
                yield TextChunk(answer["text"])
                continue
            if request.system.split()[3] == "choked.":
                os.kill(os.getpid(), signal.SIGKILL)
            parts: list[MessagePart] = [Text(answer["text"]), *(ToolCall(*call) for call in answer["calls"])]
            stop = "tool_calls" if answer["calls"] else "end"
            yield Reply(AssistantMessage(tuple(parts), stop, self.name), Tokens(*answer["tokens"]))  # type: ignore[arg-type]

    async def close(self) -> None:
        """Nothing to release."""


def canonical(request: ModelRequest) -> dict[str, Any]:
    """All of a request, in a form of which there is only one."""
    return {
        "system": request.system,
        "messages": [encode_message(message) for message in request.messages],
        "tools": [[spec.name, spec.description, spec.parameters] for spec in request.tools],
        "choice": request.tool_choice if isinstance(request.tool_choice, str) else asdict(request.tool_choice),
        "max": request.max_output_tokens,
        "parallel": request.parallel_tool_calls,
    }


# -- tools and agents ------------------------------------------------------------------------------------------------


async def _effect(what: str, context: ToolContext, place: int) -> str:
    answer = await context.deps.effect(what, context.key, context.tool, place)
    return str(answer["text"])


@tool(effect="read")
async def look(place: int, context: ToolContext) -> str:
    """Look."""
    return await _effect("read", context, place)


@tool(effect="idempotent")
async def note(place: int, context: ToolContext) -> str:
    """Note, under the call's key."""
    return await _effect("idempotent", context, place)


@tool(effect="once")
async def mail(place: int, context: ToolContext) -> str:
    """Send a mail: nobody can tell afterwards."""
    return await _effect("once", context, place)


@tool(effect="once")
async def pay(place: int, context: ToolContext) -> str:
    """Pay: the bank can be asked."""
    return await _effect("once", context, place)


@tool(effect="once")
async def sign(place: int, context: ToolContext) -> str:
    """Sign, once somebody has allowed it."""
    return await _effect("once", context, place)


@tool(effect="read")
async def poison(place: int, context: ToolContext) -> str:
    """Kill the process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return await _effect("read", context, place)


@tool(effect="once", remote=True)
async def await_result(place: int) -> Pending:
    """Wait for a result from outside."""
    return Pending(None, "a result")


@tool(effect="once")
async def spawns(place: int, context: ToolContext) -> str:
    """A sub-agent below a tool whose effect nobody has declared."""
    return (await context.spawn(Agent("grandchild", [sign, look]), "deep")).text


class Probed(FaultyTool):
    """A tool whose effect can be asked for afterwards."""

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone | None:
        """Ask the receiver."""
        found = (await context.deps.effect("probe", key))["found"]
        await self._points(f"tool:{self.name}:probed")
        return NotDone() if found is None else Done(found)


class Agent(AgentConfig[None]):
    """An agent that its name makes known to the provider."""

    def __init__(self, name: str, tools: Sequence[Tool]) -> None:
        self.name, self.tools = name, tools
        self.prompt = f"You are the {name}."


class Grandchild(Agent):
    """Asks before it signs."""

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        """Ann must allow it."""
        return Ask(who=("ann",), note="a signature") if call.name == "sign" else Allow()


def agents(points: Points) -> list[Agent]:
    """All of them, with a point around each tool."""

    def made(*plain: Tool) -> list[Tool]:
        return [(Probed if one.name in ("pay", "sign") else FaultyTool)(one, points) for one in plain]

    grandchild = Grandchild("grandchild", made(sign, look))
    child = Agent("child", [*made(note, mail), delegate(grandchild, description="A grandchild.")])
    boss = Agent("boss", [*made(look, note, pay, mail), delegate(child, description="A child.")])
    others = [Agent("poisoned", [poison]), Agent("choked", ()), Agent("waiter", [await_result])]
    return [boss, *others, Agent("careless", [spawns])]
