"""The names of tools in the requests of all formats."""

from __future__ import annotations

import json

from concertino.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from concertino.providers import ModelRequest
from tests.wire_bodies import wire_bodies


def test_no_format_sends_a_dot_in_a_tool_s_name() -> None:
    """Calls and results of a dotted tool have the name under which the tool is declared."""
    asked = AssistantMessage((ToolCall("c1", "data.search", "{}"),))
    messages: list[Message] = [UserMessage("go"), asked, ToolMessage("c1", "data.search", "found")]
    for name, body in wire_bodies(ModelRequest(model="m", system="", messages=messages)).items():
        text = json.dumps(json.loads(body))
        assert "data.search" not in text, name
        assert "data_search" in text, name
