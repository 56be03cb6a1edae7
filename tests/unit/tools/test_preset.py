"""`preset`: defaults, and values that no model sees or changes."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig, Chat, ToolContext, ToolOrchestrator, tool
from concertino.errors import ConfigurationError
from concertino.messages import ToolMessage
from concertino.testing import ScriptedModel, call
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
