"""The conversation as the demo model reads it: the questions, and the calls since the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import json_repair

from ..messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolSpec, UserMessage


class PlannedCall(NamedTuple):
    """A tool call that the model makes."""

    name: str
    arguments: Mapping[str, Any]


class Step(NamedTuple):
    """A tool call of the conversation and its result."""

    name: str
    arguments: Mapping[str, Any]
    content: str  # empty without a result, or if the call failed
    is_error: bool

    @property
    def text(self) -> str:
        """The first argument that is text: the query, the location or the title."""
        return next((value for value in self.arguments.values() if isinstance(value, str)), "")


@dataclass(slots=True)
class Transcript:
    """The user's questions, oldest first, and the steps since the last one."""

    questions: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def question(self) -> str:
        """The newest question."""
        return self.questions[-1] if self.questions else ""

    def named(self, names: frozenset[str] | set[str]) -> list[Step]:
        """Return the steps that called one of these tools."""
        return [step for step in self.steps if step.name in names]


def read_transcript(messages: Sequence[Message]) -> Transcript:
    """Read *messages* in one pass."""
    found = Transcript()
    calls: list[ToolCall] = []
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, UserMessage) and message.text.strip():
            found.questions.append(" ".join(message.text.split()))
            calls, results = [], {}
        elif isinstance(message, AssistantMessage):
            calls += message.tool_calls
        elif isinstance(message, ToolMessage):
            results[message.call_id] = message
    for call in calls:
        result = results.get(call.id)
        content = result.content if result and not result.is_error else ""
        found.steps.append(Step(call.name, parse_object(call.arguments), content, bool(result and result.is_error)))
    return found


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object in *text*, also if the text was cut; an empty one without one."""
    start = text.find("{")
    try:
        value = json_repair.loads(text[start:]) if start >= 0 else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def make_call(spec: ToolSpec, text: str, **arguments: str) -> PlannedCall:
    """Return a call of *spec*; required arguments that are not given get *text* or an empty value of their type."""
    known = spec.parameters.get("properties")
    known = known if isinstance(known, Mapping) else {}
    values: dict[str, Any] = {name: value for name, value in arguments.items() if name in known or not known}
    for name in spec.parameters.get("required") or ():
        if name not in values:
            kind = str(known[name].get("type")) if isinstance(known.get(name), Mapping) else "string"
            values[name] = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}.get(kind, text)
    return PlannedCall(spec.name, values)
