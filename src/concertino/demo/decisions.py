"""The demo model in the part of a worker: it plans as in its other parts, and answers with a decision."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..messages import AssistantMessage, Message, ToolSpec, UserMessage
from ..providers.base import ModelRequest
from .roles import free_turn
from .transcript import Step, Transcript, parse_object


def is_decision(request: ModelRequest) -> bool:
    """Return whether *request* asks for a worker's decision."""
    schema = request.output_schema
    return schema is not None and {"tool_calls", "should_respond"} <= schema.schema.get("properties", {}).keys()


def decide(request: ModelRequest) -> str:
    """Return the decision that follows from the request, as JSON."""
    transcript = _read(request.messages)
    text, calls = free_turn(transcript, () if request.tool_choice == "none" and transcript.steps else _tools(request))
    queries = ", ".join(repr(next(iter(call.arguments.values()), "")) for call in calls)
    found = sum(bool(step.content) for step in transcript.steps)
    return json.dumps(
        {
            "thinking": f"Next: {queries}." if calls else "The sources have been read.",
            "tool_calls": [{"tool": call.name, "params": call.arguments} for call in calls],
            "should_respond": not calls,
            "response": None if calls else text,
            "confidence": "medium" if calls and found else "low" if calls else "high",
            "document_updates": {"plan": queries} if calls else {"findings": f"{found} results were read"},
        },
        ensure_ascii=False,
    )


def _tools(request: ModelRequest) -> list[ToolSpec]:
    assert request.output_schema is not None
    items = request.output_schema.schema["properties"]["tool_calls"]["items"]
    kinds = [kind["properties"] for kind in items.get("anyOf", ())]
    return [ToolSpec(kind["tool"]["enum"][0], "", kind["params"]) for kind in kinds]


def _read(messages: Sequence[Message]) -> Transcript:
    """Read a conversation of decisions: results follow as messages of the user, in the order of the calls."""
    found = Transcript()
    calls: list[tuple[str, Mapping[str, Any]]] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            made = parse_object(message.text).get("tool_calls")
            calls += [(str(each.get("tool")), each.get("params", {})) for each in made or () if isinstance(each, dict)]
        elif isinstance(message, UserMessage) and message.tool is None and message.text.strip():
            found.questions.append(" ".join(message.text.split()))
            found.steps, calls = [], []
        elif isinstance(message, UserMessage):
            name, arguments = next((call for call in calls if call[0] == message.tool), (message.tool or "", {}))
            if (name, arguments) in calls:
                calls.remove((name, arguments))
            found.steps.append(Step(name, arguments, message.text.partition("\n")[2], False))
    return found
