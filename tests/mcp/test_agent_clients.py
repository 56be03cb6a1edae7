"""Agents for clients that start the server's process, and for the clients of the TypeScript SDK."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.shared._httpx_utils import create_mcp_http_client

from concertino import MemoryStore, Resources, Runtime
from concertino.errors import ConfigurationError
from concertino.server.mcp import AgentServer
from concertino.testing import ScriptedModel, call
from tests.npm import installed

from .agent_kit import ERAS, Desk, application, client, flow, on_port, raw_call, served, shown

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path])}
PROGRAM = ("-m", "tests.mcp.agent_program")


@asynccontextmanager
async def started(*arguments: str, era: str) -> AsyncIterator[Client]:
    """Start a server's process and connect to it."""
    program = StdioServerParameters(command=sys.executable, args=list(arguments), env=ENVIRONMENT, cwd=ROOT)
    async with Client(program, mode="legacy" if era == "legacy" else "auto") as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_run_survives_the_process_of_its_server(era: str, tmp_path: Path) -> None:
    database = str(tmp_path / "runs.db")
    async with started(*PROGRAM, database, "die", era=era) as found:
        with pytest.raises(MCPError):
            await found.call_tool("desk", {"message": "Wait."})
    async with started(*PROGRAM, database, "go", era=era) as found:
        (run,) = shown(await found.call_tool("list_runs"))["runs"]
        assert shown(await found.call_tool("get_run", {"run": run["run"]}))["answer"] == "Over."


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_stops_its_run(era: str, tmp_path: Path) -> None:
    called = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        if message == "wait: called":
            called.set()

    async with started(*PROGRAM, str(tmp_path / "runs.db"), "wait", era=era) as found:
        calling = asyncio.create_task(found.call_tool("desk", {"message": "Wait."}, progress_callback=progress))
        await called.wait()
        calling.cancel()
        await asyncio.wait([calling])
        (run,) = shown(await found.call_tool("list_runs"))["runs"]
        assert shown(await found.call_tool("get_run", {"run": run["run"]}))["status"] == "cancelled"


@pytest.mark.slow
async def test_the_program_serves_the_built_in_agents(tmp_path: Path) -> None:
    (tmp_path / "apples.md").write_text("# Apples\n\nApples are red fruits. An apple tree bears fruit in autumn.\n")
    start = "import sys; from concertino.cli import main; sys.exit(main())"
    arguments = ("--db", str(tmp_path / "runs.db"), "--corpus", str(tmp_path / "apples.md"), "--model", "demo:quotes")
    async with started("-c", start, "mcp", "serve", *arguments, era="2026-07-28") as found:
        tools = {tool.name: tool.description for tool in (await found.list_tools()).tools}
        assert tools["main_thread"].startswith("Searches your documents")
        assert tools["librarian"].startswith("Searches the sources")
        answer = shown(await found.call_tool("main_thread", {"message": "What colour are apples?"}))
        assert "red fruits" in answer["answer"]


async def test_a_client_of_an_earlier_protocol_answers_and_cancels() -> None:
    desk = Desk()
    model = ScriptedModel(call("order", item="tea"), "Ordered.", call("wait"))
    async with (
        served([desk], Resources(model=model, store=MemoryStore())) as (_, url),
        client(url, "legacy", answer=lambda params: {"approve": True}) as found,
    ):
        assert shown(await found.call_tool("desk", {"message": "Order tea."}))["answer"] == "Ordered."
        calling = asyncio.create_task(found.call_tool("desk", {"message": "Wait."}))
        await desk.started.wait()
        calling.cancel()
        await asyncio.wait([calling])
        run = shown(await found.call_tool("list_runs"))["runs"][0]["run"]
        assert shown(await found.call_tool("get_run", {"run": run}))["status"] == "cancelled"


@pytest.mark.slow
async def test_the_stream_of_a_session_ends_with_the_application() -> None:
    async with Runtime([Desk()], Resources(store=MemoryStore())) as runtime, AgentServer(runtime) as agents:
        app = application(runtime, agents)
        async with on_port(app) as url, create_mcp_http_client(headers={"x-user": "ann"}) as http:
            sent = await raw_call(http, url, "legacy", "desk", {"message": "Hello!"})
            async with http.stream("GET", url, headers=sent["headers"]) as stream:
                assert stream.status_code == 200
                app.state.server.closing.set()
                assert b"".join([piece async for piece in stream.aiter_bytes()]) == b""


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"agents": ["clerk"]}, "the runtime has no agent 'clerk'"),
        ({"agents": ["get_run"]}, "'get_run' is a tool of the server"),
        ({"agents": ["desk"], "seconds": 0}, "AgentServer(seconds=0): use seconds above 0"),
    ],
)
async def test_invalid_settings_are_refused(settings: dict[str, Any], problem: str) -> None:
    class Taken(Desk):
        name = "get_run"

    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        AgentServer(Runtime([Desk(), Taken()]), **settings)


async def drive(kind: str, *target: str) -> dict[str, Any]:
    """Return what a client of the TypeScript SDK prints."""
    folder = installed(HERE / "package.json")
    shutil.copy(HERE / "client.mjs", folder / "client.mjs")
    command = ("node", str(folder / "client.mjs"), kind, *target)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(*command, env=ENVIRONMENT, cwd=ROOT, **pipes)  # type: ignore[arg-type]
    printed, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    found: dict[str, Any] = json.loads(printed)
    return found


@pytest.mark.node
@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("kind", ["v1", "v2-legacy", "v2"])
async def test_the_clients_of_the_typescript_sdk(kind: str, transport: str, tmp_path: Path) -> None:
    if transport == "stdio":
        found = await drive(kind, sys.executable, *PROGRAM, str(tmp_path / "runs.db"))
    else:
        resources = Resources(model=ScriptedModel(call("order", item="tea"), "Ordered."), store=MemoryStore())
        async with served([Desk(), flow()], resources) as (_, url):
            found = await drive(kind, url)
    assert found["tools"] == ["desk", "flow", "continue_workflow", "get_run", "list_runs", "stop_run"]
    assert found["desk"]["answer"] == "Ordered."
    assert found["progress"][0] == f"desk: started ({found['desk']['run']})"
    assert found["asked"] == ['Allow the call order({"item": "tea"})? It costs money.', "Report it?"]
    assert [found[step]["prompt"] for step in ("first", "second")] == ["Read change 7.", "Report seen low today."]
    assert found["end"]["answer"] == "seen low, today"
    assert found["runs"] == [["flow", "completed"], ["desk", "completed"]]
