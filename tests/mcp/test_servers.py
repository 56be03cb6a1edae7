"""The tools of a friendly server: results, errors, progress, changes, cancellation, and the users' questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    Runtime,
    Scope,
    ToolError,
    ToolOrchestrator,
    ToolRegistry,
)
from concertino.agents import ASK_PERSON
from concertino.errors import ConfigurationError
from concertino.events import ToolProgress
from concertino.messages import ToolMessage, UserMessage
from concertino.testing import ScriptedModel, call
from concertino.tools.mcp import McpServer, McpToolbox

from .conftest import ANN, agent, bare, friendly, run


def results(messages: Any) -> list[str]:
    return [message.content for message in messages if isinstance(message, ToolMessage)]


async def test_tools_are_called_and_their_results_are_values_of_the_library(opened: Callable[..., McpToolbox]) -> None:
    async with opened(friendly()) as box:
        events: list[Any] = []
        turn = [call("own_add", a=1, b=2), call("own_picture"), call("own_fail"), call("own_count")]
        result = await run(box, turn, "Done.", events=events)
    total, picture, failure, counted = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert json.loads(total.content) == {"total": 3}
    assert result.data["own.add"] == {"total": 3}
    assert picture.media[0].media_type == "image/png"
    assert failure.is_error
    assert "no such thing" in failure.content
    assert counted.content == "counted"
    shown = [event.step["parts"][-1] for event in events if isinstance(event, ToolProgress) and event.step["parts"]]
    assert shown[-1] == "3 of 3 number 3"


async def test_effects_and_approvals_follow_from_annotations_and_the_product_has_the_last_word(
    opened: Callable[..., McpToolbox],
) -> None:
    async with opened(friendly(effects={"whoami": "read"})) as box:
        found = {tool.name: (tool.effect, getattr(tool, "destructive", False)) for tool in box.tools}
    assert found["own.add"] == ("read", False)
    assert found["own.fail"] == ("idempotent", False)
    assert found["own.wait"] == ("once", True)
    assert found["own.whoami"] == ("read", False)


async def test_a_destructive_tool_waits_for_an_approval(opened: Callable[..., McpToolbox]) -> None:
    async with opened(friendly()) as box:
        model = ScriptedModel([call("own_whoami"), call("own_add", a=1, b=1)], "Done.")
        async with Runtime([agent(box, approve=True)], Resources(model=model), store=MemoryStore()) as runtime:
            live = await runtime.start(Chat("Go.", scope=ANN), "assistant")
            suspended = await live.result()
            (wait,) = await runtime.approvals(ANN)
            await runtime.approve(ANN, wait.key)
            result = await (await runtime.resume(ANN, live.id)).result()
    assert suspended.status == "suspended"
    assert wait.tool == "own.whoami"
    assert result.status == "completed"
    assert results(result.messages)[0] == "None"


async def test_resources_and_prompts(opened: Callable[..., McpToolbox]) -> None:
    async with opened(friendly()) as box:
        result = await run(box, call("own_list_resources"), call("own_read_resource", uri="notes://today"), "Done.")
        assert await box.prompts("own") == (("greet", "Greet somebody."),)
        assert await box.prompt("own", "greet", {"name": "Ann"}) == (UserMessage("Greet Ann."),)
        assert (await box.read("own", "notes://today")).content == "Nothing happened."
        with pytest.raises(ToolError, match="nknown"):
            await box.read("own", "notes://never")
        with pytest.raises(ConfigurationError, match="choose from own"):
            await box.prompts("other")
    assert results(result.messages) == ["notes://today  Notes: What happened today.", "Nothing happened."]


async def test_a_changed_list_of_tools_is_seen_by_the_next_run(opened: Callable[..., McpToolbox]) -> None:
    async with opened(friendly()) as box:
        before = box.tools
        await run(box, call("own_grow"), "Done.")
        while box.tools is before:  # noqa: ASYNC110 - the server decides when it notifies
            await asyncio.sleep(0.01)
        result = await run(box, call("own_grown"), "Done.")
    assert results(result.messages) == ["new"]


async def test_a_stopped_run_cancels_its_call_on_the_server(opened: Callable[..., McpToolbox], tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with opened(friendly()) as box:
        model = ScriptedModel(call("own_wait", file=str(note)), call("own_add", a=1, b=1), "Done.")
        async with Runtime([agent(box)], Resources(model=model), store=MemoryStore()) as runtime:
            live = await runtime.start(Chat("Go.", scope=ANN), "assistant")
            while not note.exists():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)
            await runtime.stop(ANN, live.id)
            while note.read_text() != "cancelled":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert (await run(box, call("own_add", a=1, b=1), "Done.")).status == "completed"


async def test_the_product_chooses_tools_and_hears_of_missing_ones(
    opened: Callable[..., McpToolbox], reports: list[str]
) -> None:
    async with opened(friendly(tools=["add", "subtract"])) as box:
        assert [tool.name for tool in box.tools] == ["own.add"]
    assert reports == ["MCP server 'own' has no tool subtract"]


# -- questions of the server -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("accepted", [True, False])
async def test_a_question_waits_for_its_answer_and_the_call_goes_on(
    opened: Callable[..., McpToolbox], tmp_path: Path, protocol: str, *, accepted: bool
) -> None:
    ledger = tmp_path / "ledger"
    old = protocol == "2025-11-25"
    made = call("asking_go", file=str(ledger)) if old else call("own_pay", amount=5, file=str(ledger))
    async with opened(bare("asking") if old else friendly()) as box:
        model = ScriptedModel(made, "Done.")
        async with Runtime([agent(box)], Resources(model=model), store=MemoryStore()) as runtime:
            live = await runtime.start(Chat("Go.", scope=ANN), "assistant")
            assert (await live.result()).status == "suspended"
            (wait,) = await runtime.store.waits(ANN, open=True)
            assert not await runtime.store.waits(Scope("other", "ann"), open=True)
            if accepted:
                await runtime.resolve(ANN, wait.key, {"amount": 7})
            else:
                await runtime.resolve(ANN, wait.key, "no", failed=True)
            result = await (await runtime.resume(ANN, live.id)).result()
    asked = json.loads(wait.arguments)
    assert (wait.tool, asked["schema"]["required"]) == (ASK_PERSON, ["amount"])
    assert asked["message"] == ("How much?" if old else "Pay 5 euros?")
    assert ledger.exists() == accepted
    if accepted:
        assert ledger.read_text() == "7\n"
        assert results(result.messages) == ["accept 7" if old else "paid 7"]


async def test_an_agent_without_the_part_refuses_questions(opened: Callable[..., McpToolbox], tmp_path: Path) -> None:
    async with opened(bare("asking")) as box:
        with ScriptedModel(call("asking_go", file=str(tmp_path / "ledger")), "Done.") as model:
            tools = ToolRegistry(box.tools)
            result = await ToolOrchestrator(Chat("Go.", model=model), AgentConfig(), tools).run()
    assert results(result.messages) == ["asking asks the user: How much?"]


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"name": "a b", "url": "http://localhost"}, "invalid MCP server name 'a b'"),
        ({"name": "a_b", "url": "http://localhost"}, "invalid MCP server name 'a_b'"),
        ({"name": "a"}, "give either a command or a url"),
        ({"name": "a", "command": ["x"], "url": "http://localhost"}, "give either a command or a url"),
        ({"name": "a", "command": "npx x"}, "command is a list"),
        ({"name": "a", "url": "ftp://localhost"}, "invalid url"),
        ({"name": "a", "command": ["x"], "headers": {"A": "b"}}, "a command has no headers"),
        ({"name": "a", "command": ["x"], "effects": {"go": "none"}}, "invalid effect 'none' of 'go'"),
        ({"name": "a", "command": ["x"], "timeout": 0}, "invalid timeout 0"),
    ],
)
def test_an_invalid_setting_is_named(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        McpServer(**settings)


def test_two_servers_need_two_names() -> None:
    with pytest.raises(ConfigurationError, match="the same name"):
        McpToolbox(friendly(), friendly())
