"""The reference servers of the protocol, from npm (2025-11-25) and from PyPI (2026-07-28)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from concertino import Chat, MemoryStore, Resources, Runtime
from concertino.messages import ToolMessage
from concertino.testing import ScriptedModel, call
from concertino.tools.mcp import McpServer, McpToolbox
from tests.npm import installed

from .conftest import ANN, agent, run
from .test_servers import results

HERE = Path(__file__).parent
Open = Callable[..., McpToolbox]


@pytest.fixture(scope="session")
def node() -> Callable[..., McpServer]:
    """Return a function that makes a server of a package from npm."""
    folder = installed(HERE / "package.json")

    def make(name: str, *arguments: str) -> McpServer:
        package = folder / "node_modules" / "@modelcontextprotocol" / f"server-{name}"
        (program,) = json.loads((package / "package.json").read_text())["bin"].values()
        return McpServer(name=name, command=["node", str(package / program), *arguments])

    return make


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., McpServer]]:
    """Return a function that makes a server of a package from PyPI, in an environment of its own."""
    folder = tmp_path_factory.mktemp("servers")
    packages = ["mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"]
    for command in (["venv", str(folder)], ["pip", "install", "--quiet", f"--python={folder}", *packages]):
        subprocess.run([sys.executable, "-m", "uv", *command], check=True)
    yield lambda name, *arguments: McpServer(name=name, command=[f"{folder}/bin/mcp-server-{name}", *arguments])


@pytest.mark.node
async def test_everything(opened: Open, node: Callable[..., McpServer], reports: list[str]) -> None:
    async with opened(node("everything")) as box:
        turn = [
            call("everything_echo", message="hello"),
            call("everything_get-structured-content", location="Chicago"),
            call("everything_get-tiny-image"),
            call("everything_trigger-long-running-operation", duration=1, steps=2),
            call("everything_get-resource-reference", resourceType="Text", resourceId=1),
        ]
        result = await run(box, turn, "Done.")
    echo, weather, image, _, resource = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert reports == []
    assert not any(message.is_error for message in result.messages if isinstance(message, ToolMessage))
    assert echo.content == "Echo: hello"
    assert "temperature" in result.data["everything.get-structured-content"]
    assert "temperature" in weather.content
    assert image.media[0].media_type == "image/png"
    assert "Resource 1" in resource.content


@pytest.mark.node
async def test_a_question_of_everything_waits_for_its_answer(opened: Open, node: Callable[..., McpServer]) -> None:
    async with opened(node("everything")) as box:
        model = ScriptedModel(call("everything_trigger-elicitation-request"), "Done.")
        async with Runtime([agent(box)], Resources(model=model), store=MemoryStore()) as runtime:
            live = await runtime.start(Chat("Go.", scope=ANN), "assistant")
            await live.result()
            (wait,) = await runtime.store.waits(ANN, open=True)
            await runtime.resolve(ANN, wait.key, {"name": "Ann"})
            result = await (await runtime.resume(ANN, live.id)).result()
    assert "Name: Ann" in results(result.messages)[0]


@pytest.mark.node
async def test_filesystem_and_memory(opened: Open, node: Callable[..., McpServer], tmp_path: Path) -> None:
    (tmp_path / "tea.txt").write_text("Tea is brewed at 80 degrees.")
    facts = [{"name": "tea", "entityType": "drink", "observations": ["green"]}]
    async with opened(node("filesystem", str(tmp_path)), node("memory")) as box:
        effects = {tool.name: tool.effect for tool in box.tools}
        turn = [
            call("filesystem_read_text_file", path=str(tmp_path / "tea.txt")),
            call("filesystem_read_text_file", path="/etc/hostname"),
            call("filesystem_write_file", path=str(tmp_path / "cake.txt"), content="Cake."),
            call("memory_create_entities", entities=facts),
        ]
        result = await run(box, turn, call("memory_search_nodes", query="tea"), "Done.")
    tea, outside, _, _, found = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert (effects["filesystem.read_text_file"], effects["filesystem.write_file"]) == ("read", "idempotent")
    assert "80 degrees" in tea.content
    assert outside.is_error
    assert (tmp_path / "cake.txt").read_text() == "Cake."
    assert "green" in found.content


@pytest.mark.slow
async def test_time_and_git(opened: Open, python: Callable[..., McpServer], tmp_path: Path) -> None:
    await (await asyncio.create_subprocess_exec("git", "init", "--quiet", str(tmp_path))).wait()
    (tmp_path / "tea.txt").write_text("Tea.")
    async with opened(python("time"), python("git")) as box:
        turn: list[Any] = [
            call("time_get_current_time", timezone="Europe/Vienna"),
            call("time_get_current_time", timezone="Nowhere"),
            call("git_git_status", repo_path=str(tmp_path)),
        ]
        result = await run(box, turn, "Done.")
    now, nowhere, status = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert "Europe/Vienna" in now.content
    assert nowhere.is_error
    assert "tea.txt" in status.content
