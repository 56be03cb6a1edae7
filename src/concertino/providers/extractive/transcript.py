"""Transcript: what a request's messages say has happened since the user's last word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

_HIT = re.compile(
    r'"id":\s*"(?P<id>s[0-9a-f]{10})"\s*,\s*"title":\s*"(?P<title>(?:[^"\\]|\\.)*)"\s*,\s*'
    r'"location":\s*"(?P<location>(?:[^"\\]|\\.)*)"(?:\s*,\s*"snippet":\s*"(?P<snippet>(?:[^"\\]|\\.)*)")?'
)
_SOURCE_ID = re.compile(r"s[0-9a-f]{10}")


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer of a search."""

    id: str
    title: str
    location: str
    snippet: str
    place: int
    """Its rank in its search, from 0."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call and its outcome, which may be missing."""

    call: ToolCall
    result: ToolMessage | None

    @property
    def content(self) -> str:
        """The text of the outcome; nothing if the call failed or its outcome is gone."""
        return self.result.content if self.result and not self.result.is_error else ""

    def argument(self, *names: str) -> str:
        """The first of these arguments that is a text, or else the first text of all."""
        arguments = parse_object(self.call.arguments)
        values = [*(arguments.get(name) for name in names), *arguments.values()]
        return next((value for value in values if isinstance(value, str)), "")


@dataclass(slots=True)
class Transcript:
    """The user's messages, oldest first, and the steps since the last of them."""

    users: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    said: str = ""
    """The last text of the assistant since the user's last message."""

    @property
    def question(self) -> str:
        """The newest user message."""
        return self.users[-1] if self.users else ""

    def named(self, *names: str) -> list[Step]:
        """The steps that called one of these tools."""
        return [step for step in self.steps if step.call.name in names]


def read_transcript(messages: Sequence[Message]) -> Transcript:
    """Read *messages* in one pass; what is missing is simply not there."""
    found = Transcript()
    calls: list[ToolCall] = []
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, UserMessage):
            if message.text.strip():
                found.users.append(message.text)
                calls, results, found.said = [], {}, ""
        elif isinstance(message, AssistantMessage):
            calls += message.tool_calls
            found.said = message.text or found.said
        elif isinstance(message, ToolMessage):
            results[message.call_id] = message
    found.steps = [Step(call, results.get(call.id)) for call in calls]
    return found


def parse_object(text: str) -> dict[str, Any]:
    """The JSON object in *text*, whatever stands around it; an empty one if there is none."""
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end:
        return {}
    try:
        value = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def hits(content: str) -> list[Hit]:
    """The answers in a result of `web_search`, also if its JSON was cut."""
    results = parse_object(content).get("results")
    rows = results if isinstance(results, list) else list(_torn_hits(content))
    found: list[Hit] = []
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("id"), str) and _SOURCE_ID.fullmatch(row["id"]):
            title, location, snippet = (str(row.get(key) or "") for key in ("title", "location", "snippet"))
            found.append(Hit(row["id"], title, location, snippet, len(found)))
    return found


def _torn_hits(content: str) -> Iterator[dict[str, str]]:
    for match in _HIT.finditer(content):
        row = {}
        for key, value in match.groupdict(default="").items():
            try:
                row[key] = str(json.loads(f'"{value}"', strict=False))
            except ValueError:
                row[key] = value
        yield row
