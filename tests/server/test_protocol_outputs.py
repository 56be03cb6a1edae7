"""Typed answers of sub-agents and media of tools in the protocols."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from concertino import (
    AgentConfig,
    MemoryStore,
    ModelRequest,
    Resources,
    Runtime,
    ToolMessage,
    ToolResult,
    tool,
)
from concertino.agents import delegate
from concertino.messages import Media
from concertino.server import create_app
from concertino.server.protocols import ag_ui, ai_sdk
from concertino.testing import Answer, ScriptedModel, call

from .kit import User, authenticate
from .test_serving import served

Json = dict[str, Any]
LYON = {"name": "Lyon " * 40, "people": 520_000}
"""Long enough for partial values."""
ASKED = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "a city"}]}


class City(BaseModel):
    name: str
    people: int


class Guide(AgentConfig[None]):
    name = "guide"
    output_type = City


@tool(effect="read")
async def draw() -> ToolResult:
    """Draw a chart."""
    return ToolResult("a chart", media=(Media("image/png", data="aGVsbG8=", name="chart.png"),))


@tool(effect="read")
async def write() -> ToolResult:
    """Write a page that must not run in the origin of the server."""
    return ToolResult("a page", media=(Media("text/html", data="PGI+", name="a b.html"),))


class Desk(AgentConfig[None]):
    name = "desk"
    tools = (delegate(Guide(), description="Knows cities."), draw, write)


@asynccontextmanager
async def application(*script: Any) -> AsyncIterator[Any]:
    resources = Resources(model=ScriptedModel(*script), store=MemoryStore())
    async with Runtime([Desk(), Guide()], resources) as runtime:
        routes = {"/agui": ag_ui.routes(runtime), "/api/chat": ai_sdk.routes(runtime)}
        yield create_app(runtime, authenticate, routes=routes)


def events_of(text: str) -> list[Json]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(("agent", "own"), [("guide", True), ("desk", False)])
async def test_the_state_is_the_typed_answer_of_the_root(agent: str, own: bool) -> None:
    gate = asyncio.Event()
    answer = Answer(text=json.dumps(LYON), midway=gate.wait)
    script = [answer] if own else [call("guide", query="a city"), answer, "Lyon."]
    async with application(*script) as app, served(app) as (client, task):
        lines = []
        async with client.stream("POST", f"/agui/{agent}", json=ASKED) as stream:
            async for line in stream.aiter_lines():
                lines.append(line)
                if "STATE_DELTA" in line or ("CUSTOM" in line and '"output"' in line):
                    gate.set()
        signal.raise_signal(signal.SIGTERM)
        await task
    events = events_of("\n".join(lines))
    deltas = [event["delta"][0] for event in events if event["type"] == "STATE_DELTA"]
    partial = [event for event in events if event["type"] == "CUSTOM" and event["name"] == "output"]
    if own:
        assert (deltas[-1]["value"], partial) == (LYON, [])
        assert events[-1]["result"] == LYON
    else:
        assert (deltas, {event["subagentRunId"] for event in partial} != set()) == ([], True)
        assert [event["result"] for event in events if event["type"] == "SUBAGENT_FINISHED"] == [LYON]
        assert "result" not in events[-1]


async def test_media_of_a_tool_are_named_and_read_from_the_api() -> None:
    def answers(request: ModelRequest) -> Any:
        return "Done." if isinstance(request.messages[-1], ToolMessage) else [call("draw"), call("write")]

    async with application(answers, answers, answers, answers) as app:
        ann = User(app)
        events = events_of((await ann("POST", "/agui", json=ASKED)).text)
        named = [event["value"] for event in events if event["type"] == "CUSTOM" and event["name"] == "media"]
        assert [(each["mimeType"], each["name"]) for each in named] == [
            ("image/png", "chart.png"),
            ("text/html", "a b.html"),
        ]
        image, page = [await ann.http.get(f"/api/runs/{each['runId']}/media/{each['digest']}") for each in named]
        assert (image.content, image.headers["content-type"]) == (b"hello", "image/png")
        assert image.headers["content-disposition"] == "inline; filename*=UTF-8''chart.png"
        assert (page.content, page.headers["content-type"]) == (b"<b>", "application/octet-stream")
        assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20b.html"
        assert page.headers["content-security-policy"] == "default-src 'none'; sandbox"
        for session in ("acme/bob", "globex/ann"):
            await User(app, session)("GET", f"/api/runs/{named[0]['runId']}/media/{named[0]['digest']}", 404)
        assert (await ann("GET", f"/api/runs/{named[0]['runId']}/media/{'0' * 64}", 404))["error"][
            "code"
        ] == "not_found"

        message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "a city"}]}
        chunks = events_of((await ann("POST", "/api/chat", json={"id": "c", "messages": [message]})).text)
        outputs = [chunk["output"] for chunk in chunks if chunk["type"] == "tool-output-available"]
        (medium,) = outputs[0]["media"]
        found = await ann.http.get(f"/api/runs/{medium['runId']}/media/{medium['digest']}")
        assert found.content == b"hello"
