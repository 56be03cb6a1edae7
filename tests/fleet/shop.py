"""The product of the fleet's tests: an agent that makes payments, one a step."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from concertino import AgentConfig, ModelRequest, Resources, Runtime, Tokens, tool
from concertino.messages import AssistantMessage, Text, ToolCall, ToolMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.storage import Store

STEPS = 12
EFFECTS = Path("effects")
HELD_AT, HOLD = 3, Path("hold")
"""The model does not answer after so many payments while this file exists."""


@tool(effect="once")
def pay(n: int) -> str:
    """Pay."""
    with EFFECTS.open("a") as file:
        file.write(f"{n} {os.getpid()}\n")
    return f"paid {n}"


def _is_held() -> bool:
    return HOLD.exists()


class Rules:
    """Asks for the next payment, until all are made."""

    provider, name = "scripted", "rules"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        made = 0
        for message in request.messages:
            made = made + 1 if isinstance(message, ToolMessage) else made
            made = 0 if message.role == "user" else made
        while made == HELD_AT and _is_held():  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(0.01)
        tokens = Tokens(prompt=10, completion=5)
        if made == STEPS:
            yield TextChunk("All is paid.")
            yield Reply(AssistantMessage((Text("All is paid."),), "end", self.name), tokens)
        else:
            called = ToolCall(f"call_{made}", "pay", f'{{"n": {made}}}')
            yield Reply(AssistantMessage((called,), "tool_calls", self.name), tokens)

    async def close(self) -> None:
        """See the port."""


class Desk(AgentConfig[None]):
    name = "desk"
    tools = (pay,)


def make_runtime(store: Store) -> Runtime:
    """Return the runtime of a web process or of a worker."""
    model = Rules()
    return Runtime([Desk()], Resources(store=store, model=model, models=lambda _: model), lease=2.0)
