"""The agents of the faults, their tools and their model, all with their work outside."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from concertino import AgentConfig, Allow, Ask, ModelRequest, Pending, RunContext, Tool, ToolContext, delegate, tool
from concertino.errors import BrokenStreamError, ProviderConnectionError, ProviderTimeoutError
from concertino.messages import AssistantMessage, MessagePart, Text, ToolCall
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.providers.errors import kind_by_status, provider_error
from concertino.testing import FaultyTool, Points
from concertino.usage import Tokens
from tests.crash.cast import Outside, Probed, canonical, look, mail, note, pay, sign

PATIENCE = 0.5
"""Seconds until a result from outside is too late."""


class RemoteModel:
    """The model that the provider's process plays. It fails as an adapter of a vendor does."""

    provider, name = "remote", "model"

    def __init__(self, outside: Outside, silence: float = 60.0, unreachable: str = "") -> None:
        """Fail after *silence* seconds without a piece of an answer; the first attempt, as *unreachable* names."""
        self._outside, self._silence, self._unreachable = outside, silence, unreachable

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        asked = {"log": self._outside.calls_log, "request": canonical(request)}
        answers = self._outside.ask(self._outside.provider, asked)
        try:
            if self._unreachable:
                reach, self._unreachable = UNREACHABLE[self._unreachable], ""
                await reach()
            while True:
                piece = await asyncio.wait_for(anext(answers), self._silence)
                if "status" in piece:
                    status, after = piece["status"], piece["retry_after"]
                    kind = kind_by_status(status)
                    raise provider_error(kind, "refused", provider="remote", status=status, retry_after=after)
                if "end" in piece:
                    break
                yield TextChunk(piece["text"])
        except StopAsyncIteration:
            raise BrokenStreamError("the answer was cut", provider="remote") from None
        except TimeoutError:
            raise ProviderTimeoutError("the answer stalled", provider="remote") from None
        except OSError:
            raise ProviderConnectionError("nobody listens", provider="remote") from None
        finally:
            await answers.aclose()  # type: ignore[attr-defined]
        parts: list[MessagePart] = [Text(piece["text"]), *(ToolCall(*call) for call in piece["calls"])]
        stop = "tool_calls" if piece["calls"] else "end"
        yield Reply(AssistantMessage(tuple(parts), stop, self.name), Tokens(*piece["tokens"]))  # type: ignore[arg-type]

    async def close(self) -> None:
        """Nothing to release."""


async def _no_such_name() -> None:
    loop = asyncio.get_running_loop()
    await loop.getaddrinfo("provider.invalid", 443, flags=socket.AI_NUMERICHOST)  # as if no server of names knew it


async def _no_handshake() -> None:
    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answered, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())


UNREACHABLE = {"name": _no_such_name, "handshake": _no_handshake}
"""Why a provider cannot be reached."""


# -- tools -----------------------------------------------------------------------------------------------------------


def _is_held(context: ToolContext) -> bool:
    return Path(context.deps.calls_log).with_name("hold").exists()


@tool(effect="idempotent")
async def hold(place: int, context: ToolContext) -> str:
    """Wait while the case has a file `hold`."""
    while _is_held(context):  # noqa: ASYNC110 - another process ends it
        await asyncio.sleep(0.005)
    answer = await context.deps.effect("idempotent", context.key, context.tool, place)
    return str(answer["text"])


@tool(effect="once", remote=True)
async def await_result(place: int) -> Pending:
    """Wait for a result from outside; the last one may come too late."""
    return Pending(PATIENCE if place == 2 else None, "a result")


@tool(effect="read")
async def poison(place: int) -> str:
    """Kill the process."""
    os.kill(os.getpid(), (signal.SIGKILL, signal.SIGSEGV)[place % 2])
    return ""


@tool(effect="once", timeout=1.0)
async def misuse(how: str) -> Any:
    """Do what no tool should do."""
    return await MISUSES[how]()


async def _raises() -> None:
    raise RuntimeError("the tool is broken")


async def _hangs() -> None:
    await asyncio.Event().wait()


async def _hangs_in_thread() -> None:
    await asyncio.to_thread(__import__("time").sleep, 1.0)


async def _ends_its_child() -> str:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    return f"the child ended with {await child.wait()}"


async def _exits() -> None:
    sys.exit(3)


async def _is_large() -> str:
    return "x" * 10_000_000


async def _has_no_end() -> list[str]:
    return ["y" * 1_000_000] * 20


async def _is_cyclic() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


async def _is_not_text() -> dict[str, Any]:
    return {"nul": "a\0b", "surrogate": "a\ud800b", "number": math.nan, "pointer": str(ctypes.c_void_p(0))}


MISUSES = {
    "raises": _raises,
    "hangs": _hangs,
    "hangs in a thread": _hangs_in_thread,
    "ends its child": _ends_its_child,
    "exits": _exits,
    "is large": _is_large,
    "has no end": _has_no_end,
    "is cyclic": _is_cyclic,
    "is not text": _is_not_text,
}
"""What the tool `misuse` can do."""


# -- agents ----------------------------------------------------------------------------------------------------------

TARGETS = {"desks": ["desk"], "batch": ["clerk"]}


class Agent(AgentConfig[None]):
    """An agent that its name makes known to the provider. A person must allow what it signs."""

    def __init__(self, name: str, tools: Sequence[Tool], seconds: float | None = None) -> None:
        self.name, self.tools = name, tools
        self.prompt = f"You are the {name}."
        self._seconds = seconds

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        """Ann must allow a signature."""
        return Ask(who=("ann",), note="a signature", seconds=self._seconds) if call.name == "sign" else Allow()


def agents(points: Points, *, without: Sequence[str] = (), seconds: float | None = None) -> list[Agent]:
    """Return all agents, with a point around each tool. *seconds*: how long an approval may take."""

    def made(*plain: Tool) -> list[Tool]:
        wrapped = [(Probed if one.name in ("pay", "sign") else FaultyTool)(one, points) for one in plain]
        return [one for one in wrapped if one.name not in without]

    child = Agent("child", made(note, mail))
    clerk = Agent("clerk", made(sign, look), seconds)
    parts = [delegate(child, description="A child."), delegate(clerk, description="A clerk.", target="batch")]
    desk = Agent("desk", [*made(look, note, pay, mail, sign, hold), await_result, poison, misuse, *parts], seconds)
    return [desk, clerk]
