"""Agents behind an MCP server over HTTP, and clients of both generations of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from starlette.applications import Starlette
from starlette.requests import Request

from concertino import AgentConfig, Allow, Ask, Resources, Runtime, Scope, tool
from concertino.agents import AgentStep, HumanStep, ScriptedStep, Workflow, WorkflowAgent, ask_person
from concertino.server import create_app
from concertino.server.mcp import AgentServer
from concertino.tools import ToolContext
from tests.page.server import listening

ANN = Scope("acme", "ann")
NOTES = "Read the whole file and found one open TODO about checking the input."
ERAS = ("legacy", "2026-07-28")


class Desk(AgentConfig[Any]):
    """Its orders need an approval."""

    name = "desk"

    def __init__(self, who: tuple[str, ...] = ()) -> None:
        self.who = who
        self.ordered: list[str] = []
        self.started, self.release = asyncio.Event(), asyncio.Event()
        made = self

        @tool(effect="once")
        async def order(item: str) -> str:
            """Order an item."""
            made.ordered.append(item)
            return f"{item} is on its way"

        @tool(effect="read", timeout=None)
        async def wait() -> str:
            """Wait."""
            made.started.set()
            await made.release.wait()
            return "over"

        @tool(effect="idempotent", timeout=None)
        async def ask(context: ToolContext) -> str:
            """Ask the customer."""
            return f"They say: {await ask_person(context, 'Which colour?')}"

        self.tools = (order, wait, ask)

    def authorize_tool_call(self, run: Any, call: Any, arguments: dict[str, Any]) -> Any:
        return Ask(note="It costs money.", who=self.who) if call.name == "order" else Allow()


class Counter(AgentConfig[Any]):
    """Its answer is typed."""

    name = "counter"
    output_type = dict[str, int]


@tool(effect="read")
async def look(name: str) -> str:
    """Look at something."""
    return f"seen {name}"


FLOW = Workflow(
    name="flow",
    description="Reviews a change.",
    steps=[
        AgentStep(id="first", prompt="Read $goal.", sets={"risk": "high or low"}, outside=True),
        ScriptedStep(id="see", tool="look", arguments={"name": "$risk"}, output="seen"),
        HumanStep(id="agree", question="Report it?", output="how"),
        AgentStep(id="second", prompt="Report $seen $how.", outside=True),
    ],
    answer="$seen, $how",
)


def flow() -> WorkflowAgent:
    return WorkflowAgent(FLOW, [look])


def application(runtime: Runtime, agents: AgentServer) -> Starlette:
    """Return an application with an MCP server; the header `x-user` names the user."""

    def authenticate(request: Request) -> Scope | None:
        user = request.headers.get("x-user")
        return Scope("acme", user) if user else None

    return create_app(runtime, authenticate, routes={"/mcp": agents.routes()})


@asynccontextmanager
async def on_port(app: Starlette) -> AsyncIterator[str]:
    """Serve *app*, and yield the address of its MCP server."""
    async with listening(app) as address:
        yield f"{address}/mcp"


@asynccontextmanager
async def served(known: list[Any], resources: Resources, **settings: Any) -> AsyncIterator[tuple[Runtime, str]]:
    """Serve agents over HTTP."""
    async with (
        Runtime(known, resources, sweep=0.1) as runtime,
        AgentServer(runtime, **settings) as agents,
        on_port(application(runtime, agents)) as url,
    ):
        yield runtime, url


@asynccontextmanager
async def client(url: str, era: str, user: str = "ann", answer: Any = None) -> AsyncIterator[Client]:
    """Connect as *user*, who gives *answer* to each question."""

    async def elicited(context: Any, params: Any) -> types.ElicitResult:
        found = answer(params)
        return found if isinstance(found, types.ElicitResult) else types.ElicitResult(action="accept", content=found)

    async with create_mcp_http_client(headers={"x-user": user}) as http:
        callback = None if answer is None else elicited
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=era, elicitation_callback=callback) as found:
            yield found


def shown(result: types.CallToolResult) -> dict[str, Any]:
    """Return the structured content of a result."""
    assert result.structured_content is not None, result
    found: dict[str, Any] = result.structured_content
    return found


async def raw_call(http: Any, url: str, era: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the request of a call, for a client that does not care how it ends."""
    headers = {"Accept": "application/json, text/event-stream"}
    params: dict[str, Any] = {"name": name, "arguments": arguments, "_meta": {"progressToken": 1}}
    if era == "legacy":
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        answer = await http.post(url, json=message, headers=headers)
        headers |= {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post(url, json=ready, headers=headers)).status_code == 202
    else:
        prefix = "io.modelcontextprotocol/"
        params["_meta"] |= {f"{prefix}protocolVersion": era, f"{prefix}clientCapabilities": {}}
        headers |= {"MCP-Protocol-Version": era, "Mcp-Method": "tools/call", "Mcp-Name": name}
    return {"json": {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}, "headers": headers}
