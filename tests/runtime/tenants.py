"""A product with two tenants, and a process of it that is killed: `python -m tests.runtime.tenants PATH`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    Chat,
    Resources,
    RunContext,
    Runtime,
    Scope,
    SqliteStore,
    ToolCall,
    ToolContext,
    tool,
)
from concertino.agents import delegate
from concertino.testing import Answer, ScriptedModel, call

from .kit import Steady

ANN = Scope("acme", "ann")
BOB = Scope("globex", "bob")


@tool(effect="once")
async def pay(context: ToolContext) -> str:
    """Pay."""
    return f"paid by {context.deps}"


@tool(effect="read")
async def whose(context: ToolContext) -> str:
    """Tell whose database this is."""
    return f"data of {context.deps}"


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    tools = (whose,)


class Clerk(AgentConfig[None]):
    name = "clerk"
    prompt = "You are the clerk."
    tools = (pay, delegate(Child(), description="A child."))

    async def authorize_tool_call(
        self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]
    ) -> Allow | Ask:
        """Ask for a payment."""
        return Ask() if call.name == "pay" else Allow()


@dataclass
class Tenants:
    """A product with a model per tenant and key, and what it was asked."""

    keys: dict[str, str] = field(default_factory=lambda: {"acme": "key of acme", "globex": "key of globex"})
    asked: list[tuple[Scope, str]] = field(default_factory=list)
    opened: list[ScriptedModel] = field(default_factory=list)
    steps: tuple[Any, ...] = ([call("pay"), call("child", query="go")], "done")
    more: Callable[[Scope], dict[str, Any]] = lambda scope: {}

    def __call__(self, scope: Scope, agent: AgentConfig[Any]) -> Resources:
        """Return the tenant's resources."""
        self.asked.append((scope, agent.name))
        key = self.keys[scope.tenant]
        return Resources(models=lambda name: self.open(name, key), deps=scope.tenant, **self.more(scope))

    def open(self, name: str, key: str) -> ScriptedModel:
        """Open a model with a key, which is the model's provider here."""
        scripts = {"the child": [call("whose"), "asked"]}
        model = Steady(*self.steps, scripts=scripts)
        model.name, model.key = name.partition(":")[2], key  # type: ignore[attr-defined]
        self.opened.append(model)
        return model

    def keys_used(self) -> set[str]:
        """Return the keys of the models that were sent a request."""
        return {model.key for model in self.opened if model.requests}  # type: ignore[attr-defined]


def name_of_run(scope: Scope) -> str:
    return f"run of {scope.tenant}"


def started(scope: Scope) -> Chat:
    return Chat("go", model="scripted:m", scope=scope)


async def hang(path: str) -> None:
    """Start a run of each tenant, print a line when its model is asked for the second time, and wait to be killed."""

    async def second() -> None:
        print("asked", flush=True)
        await asyncio.Event().wait()

    product = Tenants(steps=(call("child", query="go"), Answer(before=second)))
    async with await SqliteStore.open(path) as store, Runtime([Clerk()], product, store=store) as runtime:
        for scope in (ANN, BOB):
            await runtime.start(started(scope), "clerk", run_id=name_of_run(scope))
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(hang(sys.argv[1]))
