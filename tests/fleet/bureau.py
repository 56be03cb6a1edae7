"""The product of the tests with targets: a lead that lets the desk pay and a machine stamp, each on another target."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from concertino import AgentConfig, ModelRequest, Resources, Runtime, Tokens, ToolContext, delegate, tool
from concertino.messages import AssistantMessage, Text, ToolCall, ToolMessage
from concertino.providers import ModelEvent, Reply
from concertino.storage import Store
from concertino.tools import Done, NotDone

from .shop import Desk, Rules

STAMPS = Path("stamps")
STAMP_HELD = Path("hold_stamp")
"""The machine does not answer while this file exists."""


def _stamps() -> list[str]:
    return STAMPS.read_text().splitlines() if STAMPS.exists() else []


async def _stamped(key: str) -> Done | NotDone:
    return Done("stamped") if any(line.startswith(f"{key} ") for line in _stamps()) else NotDone()


@tool(effect="once", target="machines", probe=_stamped)
def stamp(context: ToolContext) -> str:
    """Stamp the receipt."""
    with STAMPS.open("a") as file:
        file.write(f"{context.key} {os.getpid()}\n")
    while STAMP_HELD.exists():  # another process ends it
        time.sleep(0.01)
    return "stamped"


class Lead(AgentConfig[None]):
    name = "lead"
    tools = (delegate(Desk(), description="Pays all.", target="desks"), stamp)


class LeadRules(Rules):
    """Lets the desk pay, then stamps; the desk's own requests are those of `Rules`."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        if "stamp" not in [spec.name for spec in request.tools]:
            async for event in super().stream(request):
                yield event
            return
        done = sum(isinstance(message, ToolMessage) for message in request.messages)
        tokens = Tokens(prompt=10, completion=5)
        if done == 2:
            answer = "; ".join(message.content for message in request.messages if isinstance(message, ToolMessage))
            yield Reply(AssistantMessage((Text(answer),), "end", self.name), tokens)
        else:
            name, arguments = ("stamp", "{}") if done else ("desk", '{"query": "Pay all."}')
            yield Reply(AssistantMessage((ToolCall(f"lead_{done}", name, arguments),), "tool_calls", self.name), tokens)


def make_runtime(store: Store) -> Runtime:
    """Return the runtime of a web process or of a worker of any target."""
    model = LeadRules()
    resources = Resources(store=store, model=model, models=lambda _: model)
    return Runtime([Lead(), Desk(), stamp], resources, lease=2.0)
