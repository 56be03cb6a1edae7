"""`preset`: defaults, and values that no model sees or changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Allow,
    Chat,
    Resources,
    RunContext,
    SqliteStore,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    tool,
)
from concertino.errors import ConfigurationError
from concertino.messages import ToolMessage
from concertino.testing import ScriptedModel, call
from concertino.testing.store_suite.kit import traces
from concertino.tools import Tool, preset


@tool(effect="read")
async def search(query: str, region: str, limit: int) -> str:
    """Search."""
    return f"{query} in {region}, {limit}"


class Typed(Tool):
    name, description, effect = "search", "Search.", "read"
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {each: {"type": "string"} for each in ("query", "region", "limit")},
        "required": ["query", "region", "limit"],
        "additionalProperties": False,
    }

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        return "{query} in {region}, {limit}".format_map(arguments)


@pytest.mark.parametrize(("made", "limit"), [(search, 5), (Typed(), "5")], ids=["function", "schema"])
async def test_a_model_sees_no_fixed_value_and_cannot_change_it(made: Tool, limit: Any) -> None:
    class Desk(AgentConfig[None]):
        tools = (preset(made, defaults={"limit": limit}, fixed={"region": "EU"}),)

    calls = [
        call("search", query="tea"),
        call("search", query="tea", limit=type(limit)(7)),
        call("search", query="tea", region="US"),
        call("search"),
    ]
    model = ScriptedModel(calls, "Done.")
    await ToolOrchestrator(Chat("search", model=model), Desk()).run()
    (spec,) = model.requests[0].tools
    assert list(spec.parameters["properties"]) == ["query", "limit"]
    assert spec.parameters["required"] == ["query"]
    assert spec.parameters["properties"]["limit"]["default"] == limit
    found = [each for each in model.requests[-1].messages if isinstance(each, ToolMessage)]
    assert [each.content for each in found[:3]] == ["tea in EU, 5", "tea in EU, 7", "tea in EU, 5"]
    assert found[3].is_error
    assert "region" in made.parameters["properties"], "the tool itself stays as it is"


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'search' has no parameter 'size'; it has: query, region, limit"):
        preset(search, fixed={"size": 1})


@tool(effect="read")
async def fetch(query: str, key: str, limit: int) -> str:
    """Fetch."""
    return f"{query}, {limit}, with a key of {len(key)} characters"


class TypedFetch(Tool):
    name, description, effect = "fetch", "Fetch.", "read"
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {"query": {"type": "string"}, "key": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query", "key", "limit"],
        "additionalProperties": False,
    }

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        return f"{arguments['query']}, {arguments['limit']}, with a key of {len(arguments['key'])} characters"


@pytest.mark.parametrize("made", [fetch, TypedFetch()], ids=["function", "schema"])
async def test_the_tool_alone_sees_the_value_of_an_environment_variable(
    made: Tool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[dict[str, Any]] = []

    class Desk(AgentConfig[None]):
        tools = (preset(preset(made, environment={"key": "DESK_KEY"}), fixed={"limit": 5}),)

        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow:
            seen.append(arguments)
            return Allow()

    async def answer(**arguments: str) -> ToolMessage:
        with ScriptedModel(call("fetch", query="tea", **arguments), "Done.") as model:
            result = await ToolOrchestrator(Chat("x", model=model), Desk(), resources=Resources(store=store)).run()
        assert list(model.requests[0].tools[0].parameters["properties"]) == ["query"]
        message = result.messages[2]
        assert isinstance(message, ToolMessage)
        return message

    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        monkeypatch.setenv("DESK_KEY", "k-canary")
        assert (await answer()).content == "tea, 5, with a key of 8 characters"
        assert (await answer(key="of the model")).content == "tea, 5, with a key of 8 characters"
        monkeypatch.setenv("DESK_KEY", "another")
        assert (await answer()).content == "tea, 5, with a key of 7 characters"
        monkeypatch.delenv("DESK_KEY")
        refused = await answer()
        assert refused.is_error
        assert "fetch cannot run here: the environment variable DESK_KEY is not set" in refused.content
        assert traces(tmp_path, "with a key of") != []
        assert traces(tmp_path, "canary") == []
    assert seen == [{"query": "tea", "limit": 5}] * 4


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"environment": {"size": "SIZE"}}, "'fetch' has no parameter 'size'; it has: query, key, limit"),
        ({"environment": {"limit": "LIMIT"}}, "parameter 'limit' of tool 'fetch' cannot come from"),
        ({"environment": {"key": "KEY"}, "fixed": {"key": "x"}}, "parameter 'key' of tool 'fetch' is set twice"),
        ({"defaults": {"limit": 3}, "fixed": {"limit": 5}}, "parameter 'limit' of tool 'fetch' is set twice"),
    ],
)
def test_an_invalid_setting_is_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        preset(fetch, **values)
