"""A product with agents of its own, for `--app shop:make_runtime`. As a program: DATABASE AGENT MESSAGE starts a run.

Its model follows the message: in each step it calls the tools that are named in a line of it; after the last line it
answers with what they gave. The word `model` makes it wait for ever.
"""

from __future__ import annotations

import asyncio
import json
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
    Run,
    Session,
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
    """Send, for ever."""
    await _wait()
    return "never"


class Clerk(AgentConfig[None]):
    """Asks before it pays."""

    name = "clerk"
    prompt = "You are a clerk."
    tools = (refund, supplier, lookup, broken, send)

    def authorize_tool_call(self, run: Run[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        if call.name != "refund":
            return Allow()
        return Ask(who=("ann", "Bö"), note="it costs \x1b[31mmoney", seconds=None if "soon" not in run.id else 1)


class Chief(AgentConfig[None]):
    """Has a clerk."""

    name = "chief"
    prompt = "You are the chief."
    tools = (delegate(Clerk(), description="A clerk."), lookup)


class Vault(Clerk):
    """Keeps little."""

    name = "vault"

    def get_data_policy(self) -> DataPolicy:
        never = ToolData(arguments="drop", results="drop")
        return DataPolicy(text="redact", tools={"refund": never}, other_tools=ToolData(arguments="redact"))


class Follows:
    """The model."""

    provider, name = "shop", "follows"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        messages = list(request.messages)
        lines = next(m.text for m in messages if isinstance(m, UserMessage)).splitlines()
        step = sum(isinstance(m, AssistantMessage) for m in messages)
        words = lines[step].split() if step < len(lines) else []
        if "model" in words:
            await _wait()
        known = [word for word in words if word in ARGUMENTS]
        calls = tuple(ToolCall(f"c{place}", word, json.dumps(ARGUMENTS[word])) for place, word in enumerate(known))
        said = "; ".join(m.content for m in messages if isinstance(m, ToolMessage))
        parts = calls or (Text(f"Answer: {said or 'nothing'}"),)
        yield Reply(
            AssistantMessage(parts, "tool_calls" if calls else "end", self.name), Tokens(prompt=10, completion=5)
        )

    async def close(self) -> None:
        pass


def _price(provider: str, model: str, tokens: Tokens) -> tuple[Decimal | None, str]:
    return Decimal("0.000000001") * tokens.total, "shop"


def _find(spec: str) -> Model:
    return Follows()


def make_runtime(store: SqliteStore) -> Runtime:
    """What `--app` names."""
    return Runtime(store, [Clerk(), Chief(), Vault()], models=_find, price=_price)


async def make_async(store: SqliteStore) -> Runtime:
    """As `make_runtime`."""
    return make_runtime(store)


def make_nothing(store: SqliteStore) -> None:
    """Not what is wanted."""


def make_trouble(store: SqliteStore) -> Runtime:
    """Fails."""
    raise RuntimeError("no \nkey")


async def _main(file: str, agent: str, message: str) -> None:
    store = await SqliteStore.open(Path(file))
    runtime = make_runtime(store)
    chat = Chat(
        model=Follows(),
        message=message,
        session=Session(user_id="Zoë", organization_id="shop"),
        conversation_id="conv_1",
        budget=Budget(tokens=1_000_000, money=Decimal("2.50")),
    )
    live = await runtime.start(chat, agent)
    sys.stdout.write(live.id + "\n")
    sys.stdout.flush()
    await live.result()
    await runtime.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
