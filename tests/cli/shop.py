"""A product with its own agents, for `--app shop:make_runtime`. As a program, DATABASE AGENT MESSAGE starts a run.

The model follows the message: in each step it calls the tools that one line names; after the last line it answers with
their results. The name `model` makes it wait until it is cancelled.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    AssistantMessage,
    Budget,
    Chat,
    DataPolicy,
    Pending,
    Resources,
    RunContext,
    Scope,
    ToolCall,
    ToolData,
    ToolMessage,
    UserMessage,
    tool,
)
from concertino.agents import delegate
from concertino.messages import Text
from concertino.providers.base import Model, ModelEvent, ModelRequest, Reply
from concertino.runtime import Runtime
from concertino.storage.sqlite import SqliteStore
from concertino.usage import Tokens

ARGUMENTS: dict[str, dict[str, Any]] = {
    "refund": {"amount": 5, "to": "Jürgen \x1b[31m🍎"},
    "supplier": {"question": "when?"},
    "lookup": {"name": "tea"},
    "broken": {"name": "cup"},
    "clerk": {"query": "refund"},
    "send": {},
}


async def _wait() -> None:
    sys.stderr.write("waiting\n")
    sys.stderr.flush()
    await asyncio.Event().wait()


@tool(effect="once")
async def refund(amount: int, to: str = "") -> str:
    """Pay back."""
    return f"paid {amount}"


@tool(effect="idempotent", remote=True)
async def supplier(question: str) -> Pending:
    """Ask the supplier."""
    return Pending(note="by mail")


@tool(effect="read")
async def lookup(name: str) -> str:
    """Look up."""
    return f"{name} is 7"


@tool(effect="read")
async def broken(name: str) -> str:
    """Fail."""
    raise ValueError(f"no \x1b[31m{name}")


@tool(effect="once", timeout=None)
async def send() -> str:
    """Send without end."""
    await _wait()
    return "never"


class Clerk(AgentConfig[None]):
    """Requires an approval for each refund."""

    name = "clerk"
    prompt = "You are a clerk."
    tools = (refund, supplier, lookup, broken, send)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        if call.name != "refund":
            return Allow()
        return Ask(who=("ann", "Bö"), note="it costs \x1b[31mmoney", seconds=None if "soon" not in run.id else 1)


class Chief(AgentConfig[None]):
    """Delegates to a clerk."""

    name = "chief"
    prompt = "You are the chief."
    tools = (delegate(Clerk(), description="A clerk."), lookup)


class Vault(Clerk):
    """A clerk whose data policy keeps little."""

    name = "vault"

    def get_data_policy(self) -> DataPolicy:
        never = ToolData(arguments="drop", results="drop")
        return DataPolicy(text="redact", tools={"refund": never}, other_tools=ToolData(arguments="redact"))


class Follows:
    """The model that follows its message."""

    provider, name = "shop", "follows"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        messages = list(request.messages)
        lines = next(m.text for m in messages if isinstance(m, UserMessage)).splitlines()
        step = sum(isinstance(m, AssistantMessage) for m in messages)
        names = lines[step].split() if step < len(lines) else []
        if "model" in names:
            await _wait()
        known = [name for name in names if name in ARGUMENTS]
        calls = tuple(ToolCall(f"c{index}", name, json.dumps(ARGUMENTS[name])) for index, name in enumerate(known))
        results = "; ".join(m.content for m in messages if isinstance(m, ToolMessage))
        parts = calls or (Text(f"Answer: {results or 'nothing'}"),)
        yield Reply(
            AssistantMessage(parts, "tool_calls" if calls else "end", self.name), Tokens(prompt=10, completion=5)
        )

    async def close(self) -> None:
        pass


def _price(provider: str, model: str, tokens: Tokens, *_: object) -> tuple[Decimal | None, str]:
    return Decimal("0.000000001") * tokens.total, "shop"


def _find(spec: str) -> Model:
    return Follows()


def make_runtime(store: SqliteStore) -> Runtime:
    """Build the runtime."""
    return Runtime([Clerk(), Chief(), Vault()], Resources(store=store, models=_find, price=_price))


class Interrupted(Follows):
    """The model, which receives Ctrl-C before it answers."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        signal.raise_signal(signal.SIGINT)
        async for event in super().stream(request):
            yield event


def make_interrupted(store: SqliteStore) -> Runtime:
    """Build a runtime whose models are interrupted."""
    return Runtime([Clerk()], Resources(store=store, models=lambda spec: Interrupted(), price=_price))


async def make_async(store: SqliteStore) -> Runtime:
    """Build the runtime asynchronously."""
    return make_runtime(store)


def make_nothing(store: SqliteStore) -> None:
    """Return no runtime."""


def make_trouble(store: SqliteStore) -> Runtime:
    """Raise an error."""
    raise RuntimeError("no \nkey")


async def start(file: str, agent: str, message: str, *, announce: bool = False) -> str:
    """Run *agent* until it ends or waits, and return the run's id."""
    store = await SqliteStore.open(Path(file))
    runtime = make_runtime(store)
    chat = Chat(
        model=Follows(),
        message=message,
        scope=Scope("shop", "Zoë"),
        conversation_id="conv_1",
        budget=Budget(tokens=1_000_000, money=Decimal("2.50")),
    )
    live = await runtime.start(chat, agent)
    if announce:
        sys.stdout.write(live.id + "\n")
        sys.stdout.flush()
    await live.result()
    await runtime.close()
    await store.close()
    return live.id


if __name__ == "__main__":
    asyncio.run(start(*sys.argv[1:], announce=True))
