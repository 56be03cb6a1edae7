"""Completions: what an agent step must state to be completed, as a tool call or in one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import InvalidOutputError
from ...records import record
from ...tools.base import Tool
from ..worker.decision import calls_schema, closed_object, parsed_json
from .step_tools import LEAST_NOTES, MOST_CONTEXT

_VALUE = {
    "anyOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "array", "items": {"type": "string"}},
        {"type": "null"},
    ]
}


def completion_problem(completion: Mapping[str, Any], sets: Iterable[str], optional: Iterable[str] = ()) -> str:
    """Return what is wrong with *completion* of a step that sets the variables *sets*; "" if nothing is."""
    notes, context, sets = completion.get("notes"), completion.get("context") or {}, tuple(sets)
    if not isinstance(notes, str) or len(" ".join(notes.split())) < LEAST_NOTES:
        return f"the notes need at least {LEAST_NOTES} characters: state what was done and found"
    if not isinstance(context, Mapping):
        return "context is not an object: give the variables by name"
    for name in context:
        if name not in sets and name not in optional:
            known = ", ".join(sets) or "none"
            return f"this step may not set {str(name)[:100]!r}: the variables that it sets are {known}"
    missing = [name for name in sets if context.get(name) is None]
    if missing:
        return f"context lacks {', '.join(missing)}"
    if len(json.dumps(context, default=str)) > MOST_CONTEXT:
        return f"context has more than {MOST_CONTEXT:,} characters: summarize"
    return ""


@record(kw_only=True)
class StepAnswer:
    """A model's structured answer in an agent step."""

    thought: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()
    """Names and arguments, as JSON text."""
    notes: str = ""
    context: Mapping[str, Any]
    is_complete: bool = False


def answer_type(tools: Iterable[Tool], names: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of an answer in structured mode, with calls of *tools* and the variables *names*."""
    context = closed_object(dict.fromkeys(names, _VALUE))
    context["required"] = []
    made = closed_object(
        {
            "thought": {"type": "string"},
            "tool_calls": calls_schema(tools),
            "notes": {"type": "string"},
            "context": context,
            "is_complete": {"type": "boolean"},
        }
    )
    made["required"] = ["thought", "tool_calls", "notes", "is_complete"]
    return {"title": "step", **made}


def read_answer(text: str) -> StepAnswer:
    """Read a structured answer. Raises `InvalidOutputError` if it cannot be understood."""
    value, _ = parsed_json(text)
    if not isinstance(value, dict) or not value.keys() & {"tool_calls", "notes", "is_complete"}:
        raise InvalidOutputError("it is not a JSON object with thought, tool_calls, notes, context and is_complete")
    calls = []
    for call in value.get("tool_calls") or ():
        name, params = (call.get("tool"), call.get("params")) if isinstance(call, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(params or {}, dict):
            raise InvalidOutputError("a call is not an object with tool and params")
        calls.append((name, json.dumps(params or {}, ensure_ascii=False)))
    context = value.get("context") or {}
    return StepAnswer(
        thought=str(value.get("thought") or ""),
        tool_calls=tuple(calls),
        notes=str(value.get("notes") or ""),
        context=context if isinstance(context, dict) else {"context": context},
        is_complete=value.get("is_complete") is True,
    )
