"""A shop whose backend is the web API: agents, users, and clients without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from starlette.requests import Request

from concertino import AgentConfig, Ask, MemoryStore, Resources, RunContext, Runtime, Scope, ToolCall, tool
from concertino.agents import WorkerAgent, WorkerDefinition
from concertino.server import create_app
from concertino.storage import Store
from concertino.testing import ScriptedModel

Json = dict[str, Any]


@tool(effect="idempotent")
async def refund(order: str, euros: int) -> str:
    """Pay the money for an order back."""
    return f"{euros} euros for order {order}"


class Desk(AgentConfig[None]):
    name = "desk"
    prompt = "You are the help desk of a shop."
    tools = (refund,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask(who=("lead",) if arguments["euros"] > 100 else (), note="a refund")


def analyst() -> WorkerAgent:
    """Return a worker that may refund, too."""
    definition = WorkerDefinition(
        id="analyst",
        name="Analyst",
        system_prompt="You analyse orders.",
        sections={"findings": ""},
        starter_prompts=["Which orders are late?"],
    )
    return WorkerAgent(definition, _registry())


def _registry() -> Any:
    from concertino import ToolRegistry

    return ToolRegistry([refund])


def authenticate(request: Request) -> Scope | None:
    """Return the scope that a header names, `tenant/user`, as a product's session would."""
    tenant, slash, user = request.headers.get("x-session", "").partition("/")
    return Scope(tenant, user) if slash else None


class User:
    """A user's client of an application."""

    def __init__(self, app: Any, session: str = "acme/ann") -> None:
        headers = {"x-session": session} if session else {}
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app, raise_app_exceptions=False), base_url="http://shop", headers=headers
        )

    async def __call__(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        """Return the JSON of an answer after a check of its status."""
        answer = await self.http.request(method, path, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content and "json" in answer.headers["content-type"] else answer

    async def new_conversation(self, **body: Any) -> str:
        """Create a conversation and return its path."""
        return f"/api/conversations/{(await self('POST', '/api/conversations', 201, json=body))['id']}"

    async def send(self, conversation: str, text: str, **options: Any) -> Json:
        """Send a message, and return its turn as soon as it has ended or waits."""
        turn = await self("POST", f"{conversation}/turns", 202, json={"text": text}, **options)
        await self.events(f"{conversation}/turns/{turn['id']}/events?until=suspended")
        return await self("GET", f"{conversation}/turns/{turn['id']}")  # type: ignore[no-any-return]

    async def events(self, path: str, **options: Any) -> list[tuple[int, Json]]:
        """Return the numbered events of a stream that ends."""
        return parsed((await self("GET", path, **options)).text)


def parsed(text: str) -> list[tuple[int, Json]]:
    """Return the events of a stream's complete frames."""
    found = []
    for frame in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if not line.startswith(":"))
        if fields:
            found.append((int(fields["id"]), json.loads(fields["data"])))
    return found


@asynccontextmanager
async def shop(*script: Any, store: Store | None = None, **options: Any) -> AsyncIterator[Any]:
    """Yield the application of a shop whose model follows *script*."""
    model = ScriptedModel(*script)
    async with Runtime([Desk(), analyst()], Resources(model=model, store=store or MemoryStore())) as runtime:
        app = create_app(runtime, authenticate, **options)
        app.state.model = model
        yield app
