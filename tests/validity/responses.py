"""Problems that OpenAI's Responses API would refuse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from openai.types.responses import response_create_params

from . import strict_tools
from .schema import Schema

Json = dict[str, Any]

_schema = Schema(
    response_create_params.ResponseCreateParamsStreaming,
    {
        "ResponseCreateParamsStreaming.stream": {"type": "bool"},
        "FunctionToolParam.strict": None,
        "ResponseInputImageParam.detail": None,
        "ResponseReasoningItemParam.id": None,
        "ResponseOutputMessageParam.id": None,
        "ResponseOutputMessageParam.status": None,
        "ResponseOutputMessageParam.type": None,
        "ResponseOutputTextParam.annotations": None,
        "ActionSearch.sources": None,
    },
)
"""With what recorded requests leave out, or have as null, and were answered."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST_ID = 64
_LEAST_TOKENS = 16
_PREFIXES = {"reasoning": "rs_", "message": "msg_", "function_call": "fc_"}


def problems(body: Json) -> list[str]:
    """Return the problems of *body*; rules apply only to a valid form."""
    return schema_problems(body) or rule_problems(body)


def schema_problems(body: Json) -> list[str]:
    """Check against `openai.types.responses.response_create_params`."""
    return _schema(body)


def rule_problems(body: Json) -> list[str]:
    """Check the documented rules."""
    given = body.get("input")
    items: list[Json] = given if isinstance(given, list) else []
    return [problem for rule in RULES for problem in rule(body, items)]


def _kind(item: Json) -> str:
    kind = item.get("type") or "message"
    return f"message of the {item['role']}" if kind == "message" else str(kind)


def _asked(body: Json, items: list[Json]) -> Iterator[str]:
    """Something is asked: "One of "input" or "previous_response_id" or "prompt" or "conversation_id" must be
    provided"."""
    others = ("previous_response_id", "prompt", "conversation")
    if body.get("input") in (None, [], "") and not any(body.get(name) for name in others):
        yield "input: nothing is asked"
    if body.get("previous_response_id") and body.get("conversation"):
        yield "conversation beside previous_response_id"


def _results(body: Json, items: list[Json]) -> Iterator[str]:
    """Each call has exactly one output, after it, and each output its call ("Function calling"; "No tool output
    found for function call", "No tool call found for function call output with call_id"). Calls of a stored
    conversation are not in the input. Items that are no functions' (the provider's own tools) may be answered by an
    output, too."""
    known = bool(body.get("previous_response_id") or body.get("conversation"))
    calls: Counter[str] = Counter()
    outputs: Counter[str] = Counter()
    others: set[str] = set()
    for position, item in enumerate(items):
        kind, call = item.get("type"), item.get("call_id", "")
        if kind in ("function_call", "custom_tool_call"):
            calls[call] += 1
        elif kind in ("function_call_output", "custom_tool_call_output"):
            outputs[call] += 1
            if not known and call not in calls and call not in others:
                yield f"input.{position}: an output for {call}, which is not called before it"
        elif call:
            others.add(call)
    yield from (f"input: no output for the call {call}" for call in calls if not outputs[call])
    yield from (f"input: {times} calls with the id {call}" for call, times in calls.items() if times > 1)
    yield from (f"input: {times} outputs for the call {call}" for call, times in outputs.items() if times > 1)


def _reasoning(body: Json, items: list[Json]) -> Iterator[str]:
    """A `reasoning` item is directly followed by the item that came after it ("Item 'rs_…' of type 'reasoning' was
    provided without its required following item"), which is the assistant's. Where nothing is stored, it goes back
    with its encrypted content ("Item with id 'rs_…' not found. Items are not persisted when `store` is set to
    false"), and one without id cannot do without, either; servers with open models have plain `content` instead."""
    for position, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        follower = items[position + 1] if position + 1 < len(items) else None
        if follower is None or _given(follower):
            yield f"input.{position}: reasoning followed by {_kind(follower) if follower else 'nothing'}"
        unstored = body.get("store") is False or not item.get("id")
        if unstored and not (item.get("encrypted_content") or item.get("content")):
            yield f"input.{position}: reasoning without its content"


def _given(item: Json) -> bool:
    """Return whether an item is input of the model, not its output."""
    kind = item.get("type") or "message"
    return item.get("role") in ("user", "system", "developer") or kind.endswith("_output")


def _modified(body: Json, items: list[Json]) -> Iterator[str]:
    """The item that follows reasoning with an id has an id as well: a text instead of it is
    refused as if it were missing ("without its required following item")."""
    for before, item in zip(items, items[1:], strict=False):
        if before.get("type") == "reasoning" and str(before.get("id", "")).startswith("rs_"):
            plain = (item.get("type") or "message") == "message" and not item.get("id")
            if plain and isinstance(item.get("content"), str):
                yield f"input: {before['id']} is followed by a text that is not its item"


def _ids(body: Json, items: list[Json]) -> Iterator[str]:
    """Ids of items are unique ("Duplicate item found with id"), begin as their kind does ("Invalid 'input[1].id': …
    Expected an ID that begins with 'rs'") and have at most 64 characters, as call ids ("string too long. Expected a
    string with maximum length 64"); a call id is not empty."""
    seen: set[str] = set()
    for position, item in enumerate(items):
        kind = item.get("type") or "message"
        if found := item.get("id"):
            if found in seen and kind != "item_reference":
                yield f"input.{position}: the id {found} a second time"
            seen.add(found)
            if not found.startswith(_PREFIXES.get(kind, "")):
                yield f"input.{position}: the id {found} of a {kind}"
            if len(found) > _LONGEST_ID:
                yield f"input.{position}: an id of {len(found)} characters"
        call = item.get("call_id")
        if call is not None and not 0 < len(call) <= _LONGEST_ID:
            yield f"input.{position}: a call id of {len(call)} characters"


def _tools(body: Json, items: list[Json]) -> Iterator[str]:
    """Names match `^[a-zA-Z0-9_-]{1,64}$` ("Invalid 'tools[0].name': string does not match pattern") and the choice
    names one of them ("Tool choice 'function' not found in 'tools' parameter"). A strict function lists every
    property as required and allows no others ("Structured outputs": "Invalid schema for function")."""
    functions = [tool for tool in body.get("tools") or () if tool["type"] == "function"]
    for tool in functions:
        if not _NAME.fullmatch(tool["name"]):
            yield f"tools: the name {tool['name']!r}"
        if tool.get("strict"):
            yield from (f"tools: {tool['name']}: {found}" for found in strict_tools.problems(tool.get("parameters")))
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        if choice["name"] not in [tool["name"] for tool in functions]:
            yield f"tool_choice: {choice['name']} is not among the tools"
    elif choice == "required" and not body.get("tools"):
        yield "tool_choice: a tool is required, and there are none"
    for position, item in enumerate(items):
        if item.get("type") == "function_call" and not _NAME.fullmatch(item["name"]):
            yield f"input.{position}: a call of {item['name']!r}"


def _settings(body: Json, items: list[Json]) -> Iterator[str]:
    """At least 16 tokens ("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"); the
    temperature is from 0 to 2 ("Create a model response")."""
    most = body.get("max_output_tokens")
    if most is not None and most < _LEAST_TOKENS:
        yield f"max_output_tokens: {most}"
    if not 0 <= (body.get("temperature") or 0) <= 2:
        yield f"temperature: {body['temperature']}"


RULES: tuple[Callable[[Json, list[Json]], Iterator[str]], ...] = (
    _asked,
    _results,
    _reasoning,
    _modified,
    _ids,
    _tools,
    _settings,
)
