"""A model that follows rules: it calls each tool of its step, and states in its notes what the results show."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from concertino import AssistantMessage, Message, ModelRequest, SystemMessage, Text, Tokens, ToolCall, ToolMessage
from concertino.providers import ModelEvent, Reply, TextChunk, ToolCallReady

_FINDING = re.compile(r"[\w./-]+:\d+: [a-z]+(?: [a-z]+)*")
_TIME = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* .*", re.MULTILINE)
_KINDS = {"Fixes": ("fix", "repair", "correct"), "Removals": ("remove", "delete", "drop"), "Changes": ("",)}


class RulesModel:
    """Does the steps of this package's workflows."""

    provider, name = "example", "rules"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        tokens = Tokens(prompt=sum(len(str(getattr(m, "text", ""))) for m in request.messages) // 4, completion=20)
        made: Text | ToolCall = self._step(request) if request.output_schema is None else Text(self._answer(request))
        yield ToolCallReady(made) if isinstance(made, ToolCall) else TextChunk(made.text)
        stop = "tool_calls" if isinstance(made, ToolCall) else "end"
        yield Reply(AssistantMessage((made,), stop, self.name), tokens)  # type: ignore[arg-type]  # one of two values

    async def close(self) -> None:
        """See the port."""

    def _step(self, request: ModelRequest) -> ToolCall:
        """Call the tools that the task names, one after another, and then complete the step."""
        messages = request.messages
        begin = max(n for n, each in enumerate(messages) if _text(each).startswith("# Step "))
        task, after = _text(messages[begin]), messages[begin + 1 :]
        results = [each.content for each in after if isinstance(each, ToolMessage)]
        calls = [
            (name, json.loads(text)) for name, text in re.findall(r"^Call (\w+) with (\{.*\})$", task, re.MULTILINE)
        ]
        number = f"call-{len(messages)}"
        if len(results) < len(calls):
            name, arguments = calls[len(results)]
            return ToolCall(number, name, json.dumps(arguments))
        notes, context = _report(task, results)
        sets = re.findall(r"^- (\w+):", task, re.MULTILINE)
        chosen = {name: context[name] for name in sets if name in context}
        return ToolCall(number, "complete_step", json.dumps({"notes": notes, "context": chosen}))

    def _answer(self, request: ModelRequest) -> str:
        text = _text(request.messages[-1])
        if "verify the work" in request.system:
            found = set(_FINDING.findall(text.partition("Its notes:")[0]))
            found = found if "Its notes:" in text else set()
            missing = sorted(each for each in found if each not in text.partition("Its notes:")[2])
            assessment, why = ("retry", f"name {missing[0]}") if missing else ("pass", "the notes name all findings")
            return json.dumps({"assessment": assessment, "reasoning": why, "instruction": why if missing else ""})
        if "You plan" in request.system:
            files = json.loads(re.findall(r"\[.*?\]", text)[0])
            items = [_item("errors_of", {"file": file}, f"the errors of {file}") for file in files]
            return json.dumps({"items": [*items, _item("complete_step", {}, "the errors of all logs")]})
        return json.dumps({"notes": _errors(text), "context": {"first": _first(text)}, "unmet": []})


def _item(name: str, params: dict[str, Any], expected: str) -> dict[str, Any]:
    return {"tool": name, "params": params, "expected_outcome": expected}


def _report(task: str, results: Sequence[str]) -> tuple[str, dict[str, Any]]:
    if "release notes" in task:
        subjects: list[str] = json.loads(re.findall(r"^\[.*\]$", task, re.MULTILINE)[0])
        parts = []
        left = subjects
        for title, words in _KINDS.items():
            own = [each for each in left if each.lower().startswith(words)]
            left = [each for each in left if each not in own]
            parts += [f"## {title}", *[f"- {each}" for each in own]] if own else []
        return "Notes of the last commits.\n\n" + "\n".join(parts) + "\n\nGrouped by subject.", {}
    text = "\n".join(results) or task
    found = sorted(set(_FINDING.findall(text)))
    lines = [f"- {each}" for each in found] or ["- no finding"]
    notes = f"Read {len(results) or 'all'} results of the step and found {len(found)} points in them:\n" + "\n".join(
        lines
    )
    return notes, {"findings": found, "risk": "high" if any("secret" in each for each in found) else "low"}


def _first(text: str) -> str:
    return min((found[0] for found in _TIME.finditer(text)), default="no error")


def _errors(text: str) -> str:
    counts = re.findall(r"Result: (\d+) errors", text)
    total = sum(map(int, counts))
    return f"{total} errors in {len(counts)} logs. The first of all, by its time: {_first(text)}"


def _text(message: Message) -> str:
    return message.text if isinstance(message, SystemMessage) else str(getattr(message, "text", ""))
