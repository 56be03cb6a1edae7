"""One violation of each of the Responses API's rules."""

from __future__ import annotations

import pytest

from . import responses
from .violations import Change, Json, add, both, drop, put, spoilt

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
GOOD: Json = {
    "model": "gpt-6-luna",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "instructions": "Be kind.",
    "tools": [{"type": "function", "name": "look_up", "parameters": PARAMETERS, "strict": False}],
    "input": [
        {"role": "user", "content": "Two things, please."},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z0E="},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look_up", "arguments": '{"a":1}'},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "look_up", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_2", "output": "two"},
        {"type": "function_call_output", "call_id": "call_1", "output": "one"},
        {"role": "assistant", "content": "Both are there."},
        {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
    ],
}
REASONING = GOOD["input"][1]
CALL = GOOD["input"][2]

RULES: dict[str, tuple[Change, str]] = {
    "nothing": (put([], "input"), "nothing is asked"),
    "two conversations": (
        both(put("resp_1", "previous_response_id"), put("conv_1", "conversation")),
        "beside previous_response_id",
    ),
    "a call without output": (drop("input", 4), "no output for the call call_2"),
    "an output without call": (put("call_9", "input", 4, "call_id"), "call_9, which is not called"),
    "an output before its call": (add(GOOD["input"][4], "input", at=0), "not called before it"),
    "two outputs for one call": (add(GOOD["input"][5], "input"), "2 outputs"),
    "two calls with one id": (put("call_1", "input", 3, "call_id"), "2 calls"),
    "reasoning at the end": (add({**REASONING, "id": "rs_2"}, "input"), "followed by nothing"),
    "reasoning before the user": (add({**REASONING, "id": "rs_2"}, "input", at=0), "followed by message of the user"),
    "reasoning before an output": (
        add({**REASONING, "id": "rs_2"}, "input", at=4),
        "followed by function_call_output",
    ),
    "reasoning whose content is kept nowhere": (drop("input", 1, "encrypted_content"), "without its content"),
    "a text in place of reasoning's item": (add({**REASONING, "id": "rs_2"}, "input", at=6), "not its item"),
    "an id twice": (put("fc_1", "input", 3, "id"), "a second time"),
    "a call's id in place of its item's": (put("call_1", "input", 2, "id"), "the id call_1 of a function_call"),
    "an id of 65": (put("fc_" + "a" * 62, "input", 2, "id"), "an id of 65"),
    "a call id of 65": (
        both(put("a" * 65, "input", 2, "call_id"), put("a" * 65, "input", 5, "call_id")),
        "a call id of 65",
    ),
    "an empty call id": (both(put("", "input", 2, "call_id"), put("", "input", 5, "call_id")), "a call id of 0"),
    "a tool's name with a dot": (put("look.up", "tools", 0, "name"), "the name 'look.up'"),
    "a tool's name of 65": (put("a" * 65, "tools", 0, "name"), "the name"),
    "a strict tool with a choice": (put(True, "tools", 0, "strict"), "not required: a"),
    "a strict tool that allows more": (
        both(put(True, "tools", 0, "strict"), put(["a"], "tools", 0, "parameters", "required")),
        "additionalProperties",
    ),
    "a choice of nothing": (put({"type": "function", "name": "other"}, "tool_choice"), "not among the tools"),
    "a required tool of none": (both(drop("tools"), put("required", "tool_choice")), "there are none"),
    "a call's name with a space": (put("look up", "input", 2, "name"), "a call of 'look up'"),
    "fifteen tokens": (put(15, "max_output_tokens"), "max_output_tokens: 15"),
    "a temperature above 2": (put(2.5, "temperature"), "temperature: 2.5"),
}

FORM: dict[str, tuple[Change, str]] = {
    "an unknown field": (put(100, "max_tokens"), "max_tokens: Extra"),
    "an unknown item": (put("tool_use", "input", 2, "type"), "tool_use"),
    "the role tool": (put("tool", "input", 0, "role"), "role"),
    "arguments as an object": (put({}, "input", 2, "arguments"), "arguments"),
    "a call without its call id": (drop("input", 2, "call_id"), "call_id"),
    "an output that is an object": (put({"a": 1}, "input", 4, "output"), "output"),
    "a part of the other format": (put("text", "input", 7, "content", 0, "type"), "text"),
    "an id that is null": (put(None, "input", 2, "id"), "id"),
    "an effort that is none of them": (put({"effort": "huge"}, "reasoning"), "effort"),
}


def test_the_valid_request_passes() -> None:
    assert responses.problems(GOOD) == []


@pytest.mark.parametrize("name", RULES)
def test_a_violated_rule_is_reported(name: str) -> None:
    change, words = RULES[name]
    body = spoilt(GOOD, change)
    assert responses.schema_problems(body) == [], "its form is right"
    assert any(words in problem for problem in responses.problems(body)), responses.problems(body)


@pytest.mark.parametrize("name", FORM)
def test_an_invalid_schema_is_reported(name: str) -> None:
    change, words = FORM[name]
    found = responses.problems(spoilt(GOOD, change))
    assert any(words in problem for problem in found), found


def test_every_rule_has_its_violation() -> None:
    bodies = [spoilt(GOOD, change) for change, _ in RULES.values()]
    idle = [rule.__name__ for rule in responses.RULES if not any(list(rule(body, body["input"])) for body in bodies)]
    assert idle == []


def test_allowed_variations() -> None:
    known = {**GOOD, "previous_response_id": "resp_1", "input": [GOOD["input"][4]]}
    assert responses.problems(known) == [], "the call is in the stored response"
    plain = spoilt(GOOD, both(*(drop("input", position, "id") for position in (1, 2, 3))))
    assert responses.problems(plain) == [], "items may go without ids"
    assert responses.problems({"model": "gpt-6-luna", "input": "Hello."}) == []
