"""One violation of each of the Chat Completions API's rules."""

from __future__ import annotations

from typing import Any

import pytest

from . import chat
from .violations import Change, Json, add, both, drop, put, spoilt


def call(call_id: str, **more: Any) -> Json:
    return {"type": "function", "id": call_id, "function": {"name": "look_up", "arguments": "{}"}, **more}


def result(call_id: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": "found"}


FUNCTION = {"name": "look_up", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
GOOD: Json = {
    "model": "gpt-6-luna",
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 100,
    "tools": [{"type": "function", "function": FUNCTION}],
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Two things, please."},
        {"role": "assistant", "content": None, "tool_calls": [call("call_1"), call("call_2")]},
        result("call_2"),
        result("call_1"),
        {"role": "assistant", "content": "Both are there."},
        {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
    ],
}
CALL = ("messages", 2, "tool_calls", 0)
LONG = "a" * 41

RULES: dict[str, tuple[Change, str]] = {
    "no message": (put([], "messages"), "messages: empty"),
    "an assistant who says nothing": (drop("messages", 5, "content"), "no content"),
    "an empty list of calls": (put([], "messages", 5, "tool_calls"), "tool_calls is empty"),
    "an empty list of parts": (put([], "messages", 6, "content"), "an empty list"),
    "a call without result": (drop("messages", 3), "no result for the call call_2"),
    "a user between the results": (
        add({"role": "user", "content": "Hm."}, "messages", at=4),
        "no result for the call call_1",
    ),
    "a late result": (add({"role": "user", "content": "Hm."}, "messages", at=3), "call_2, which is not open"),
    "calls at the end": (drop("messages", slice(3, None)), "no result"),
    "a result without call": (put("call_9", "messages", 3, "tool_call_id"), "call_9, which is not open"),
    "two results for one call": (add(result("call_1"), "messages", at=4), "call_1, which is not open"),
    "two calls with one id": (put("call_2", *CALL, "id"), "2 calls"),
    "a call id of 41": (both(put(LONG, *CALL, "id"), put(LONG, "messages", 4, "tool_call_id")), "of 41 characters"),
    "an empty call id": (both(put("", *CALL, "id"), put("", "messages", 4, "tool_call_id")), "of 0 characters"),
    "no tools in the list": (put([], "tools"), "tools: empty"),
    "a tool's name with a dot": (put("look.up", "tools", 0, "function", "name"), "the name 'look.up'"),
    "a strict tool with a choice": (put(True, "tools", 0, "function", "strict"), "not required: a"),
    "a choice without tools": (both(drop("tools"), put("auto", "tool_choice")), "tool_choice without tools"),
    "a switch without tools": (both(drop("tools"), put(False, "parallel_tool_calls")), "parallel_tool_calls without"),
    "a choice of nothing": (
        put({"type": "function", "function": {"name": "other"}}, "tool_choice"),
        "not among the tools",
    ),
    "a call's name with a space": (put("look up", *CALL, "function", "name"), "a call of 'look up'"),
    "no tokens": (put(0, "max_completion_tokens"), "max_completion_tokens: 0"),
    "the old limit for a model that reasons": (put(100, "max_tokens"), "does not take it"),
    "a stop for a model that reasons": (put(["END"], "stop"), "does not take it"),
    "five stops": (both(put("gpt-4o", "model"), put(list("abcde"), "stop")), "5 sequences"),
    "a temperature above 2": (put(2.5, "temperature"), "temperature: 2.5"),
    "stream options without a stream": (drop("stream"), "without a stream"),
}

FORM: dict[str, tuple[Change, str]] = {
    "no model": (drop("model"), "model: Field required"),
    "an unknown field": (put(100, "max_output_tokens"), "max_output_tokens: Extra"),
    "an unknown role": (put("model", "messages", 5, "role"), "model"),
    "a result without its call": (drop("messages", 3, "tool_call_id"), "tool_call_id"),
    "arguments as an object": (put({}, *CALL, "function", "arguments"), "arguments"),
    "a tool in the other format": (put({"type": "function", **FUNCTION}, "tools", 0), "function"),
    "a part of the other format": (put("input_text", "messages", 6, "content", 0, "type"), "input_text"),
    "a user who says null": (put(None, "messages", 1, "content"), "content"),
}


def test_the_valid_request_passes() -> None:
    assert chat.problems(GOOD) == []


@pytest.mark.parametrize("name", RULES)
def test_a_violated_rule_is_reported(name: str) -> None:
    change, words = RULES[name]
    body = spoilt(GOOD, change)
    assert chat.schema_problems(body) == [], "its form is right"
    assert any(words in problem for problem in chat.problems(body)), chat.problems(body)


@pytest.mark.parametrize("name", FORM)
def test_an_invalid_schema_is_reported(name: str) -> None:
    change, words = FORM[name]
    found = chat.problems(spoilt(GOOD, change))
    assert any(words in problem for problem in found), found


def test_every_rule_has_its_violation() -> None:
    bodies = [spoilt(GOOD, change) for change, _ in RULES.values()]
    assert [rule.__name__ for rule in chat.RULES if not any(list(rule(body)) for body in bodies)] == []


def test_allowed_variations() -> None:
    again = spoilt(GOOD, both(*(add(GOOD["messages"][position], "messages") for position in (2, 3, 4))))
    assert chat.problems(again) == [], "an id may be used again in another turn"
    assert chat.problems(spoilt(GOOD, drop("tools"))) == [], "calls of the past want no tools"
