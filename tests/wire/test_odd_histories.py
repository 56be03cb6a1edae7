"""Conversations with content that must be adapted: invented names, foreign ids, half loops."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino.messages import AssistantMessage, Message, Reasoning, Text, ToolCall, ToolMessage, UserMessage
from concertino.providers import ModelRequest, ToolCallReady
from concertino.providers.http.encoding import portable_id, portable_name

from ..validity import judge
from ..wire_bodies import wire_bodies
from .test_typed_requests import TOOL, sent
from .wire_kit import played, reply_of, sse


def problems(*messages: Message, **settings: Any) -> dict[str, list[str]]:
    return judge.problems(ModelRequest(model="", system="", messages=messages, tools=(TOOL,), **settings))


def loop(call_id: str, name: str = "weather") -> tuple[Message, ...]:
    call = AssistantMessage((ToolCall(call_id, name, "{}"),), "tool_calls")
    return call, ToolMessage(call_id, name, "What?", is_error=True)


@pytest.mark.parametrize("name", ["look.up now", "", "n" * 200, "größe", "a/b", " ", "😀"])
def test_invented_tool_names(name: str) -> None:
    assert problems(UserMessage("Q"), *loop("c1", name)) == {}


@pytest.mark.parametrize("call_id", ["a.b", "functions.weather:0", "x" * 300, "", "größe", "call|1", "😀"])
def test_call_ids_of_other_providers(call_id: str) -> None:
    assert problems(UserMessage("Q"), *loop(call_id)) == {}


def test_similar_ids_stay_distinct() -> None:
    pair = AssistantMessage((ToolCall("a.b", "weather", "{}"), ToolCall("a:b", "weather", "{}")), "tool_calls")
    results = ToolMessage("a.b", "weather", "1"), ToolMessage("a:b", "weather", "2")
    assert problems(UserMessage("Q"), pair, *results) == {}


@given(st.text(), st.text(), st.integers(min_value=33, max_value=64))
def test_portable_ids_and_names(one: str, other: str, longest: int) -> None:
    assert portable_id(one, longest).isascii()
    assert 0 < len(portable_id(one, longest)) <= longest
    assert (portable_id(one, longest) == portable_id(other, longest)) == (one == other)
    assert portable_id(portable_id(one, longest), longest) == portable_id(one, longest)
    assert 0 < len(portable_name(one)) <= 64
    assert portable_name(portable_name(one)) == portable_name(one)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("provider", ["", "anthropic", "openai", "google"])
def test_numbers_outside_json(number: str, provider: str) -> None:
    """Numbers that models write and Python reads, but JSON does not have."""
    written = f'{{"a": 1.5, "b": [{{"c": {number}}}]}}'
    raw = None
    if provider == "anthropic":  # as conversations have it that were stored before
        raw = f'{{"type": "tool_use", "id": "c1", "name": "weather", "input": {written}, "caller": {{}}}}'
    call = AssistantMessage((ToolCall("c1", "weather", written, raw=raw, provider=provider),), "tool_calls")
    messages = (UserMessage("Q"), call, ToolMessage("c1", "weather", "What?", is_error=True))
    assert problems(*messages) == {}
    for kind, body in wire_bodies(ModelRequest(model="m", system="", messages=messages)).items():
        assert not {"NaN", "Infinity", "-Infinity"} & set(constants(body)), kind
    assert sent("anthropic", *messages)["messages"][1]["content"][0]["input"] == {"arguments": written}


def constants(body: bytes) -> list[str]:
    found: list[str] = []
    json.loads(body, parse_constant=found.append)
    return found


async def test_a_call_with_such_a_number_is_valid() -> None:
    written = '{"a": NaN}'
    events = await played(
        "anthropic",
        sse(
            {"type": "message_start", "message": {"model": "m"}},
            {"type": "content_block_start", "index": 0,
             "content_block": {"type": "tool_use", "id": "c", "name": "f", "input": {}, "caller": {"type": "direct"}}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": written}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ),
    )  # fmt: skip
    assert reply_of(events).message.tool_calls == (ToolCall("c", "f", written),)
    assert events[-2] == ToolCallReady(ToolCall("c", "f", written))


def test_a_native_call_goes_back_with_a_valid_name() -> None:
    raw = {"type": "tool_use", "id": "toolu_1", "name": "look.up", "input": {"a": 1}, "caller": {"type": "direct"}}
    call = ToolCall("toolu_1", "look.up", '{"a":1}', raw=json.dumps(raw), provider="anthropic")
    messages = (UserMessage("Q"), AssistantMessage((call,)), ToolMessage("toolu_1", "look.up", "What?"))
    assert sent("anthropic", *messages)["messages"][1]["content"] == [{**raw, "name": "look_up"}]
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look.up", "arguments": "{}"}
    call = ToolCall("call_1", "look.up", "{}", raw=json.dumps(item), provider="openai")
    messages = (UserMessage("Q"), AssistantMessage((call,)), ToolMessage("call_1", "look.up", "What?"))
    assert sent("responses", *messages)["input"][1] == {**item, "name": "look_up"}


CALLED, RESULT = loop("c1")
THOUGHT = AssistantMessage((Reasoning("Hm.", signature="s", provider="anthropic"), *CALLED.parts))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("messages", "thinks"),
    [
        ((UserMessage("Q"),), True),
        ((UserMessage("Q"), CALLED, RESULT), False),
        ((UserMessage("Q"), THOUGHT, RESULT), True),
        ((UserMessage("Q"), THOUGHT, RESULT, CALLED, RESULT), True),
        ((UserMessage("Q"), CALLED, RESULT, THOUGHT, RESULT), False),
        ((UserMessage("Q"), CALLED, RESULT, UserMessage("Hurry")), False),
        ((UserMessage("Q"), CALLED, RESULT, AssistantMessage((Text("A"),)), UserMessage("And?")), True),
    ],
)
def test_a_loop_started_without_thinking_continues_without(messages: tuple[Message, ...], thinks: bool) -> None:
    old = sent("anthropic", *messages, model="claude-sonnet-4-5", effort="low", max_output_tokens=9_000, tools=(TOOL,))
    assert ("thinking" in old) is thinks
    new = sent("anthropic", *messages, effort="low", tools=(TOOL,))
    assert new["thinking"] == {"type": "adaptive"}, "which may begin anywhere"


def test_openai_reasoning_without_the_item_that_followed_it() -> None:
    thought = Reasoning("Hm.", "rs_1", "enc", "openai")
    own = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": "{}"}
    call = ToolCall("c1", "weather", "{}", raw=json.dumps(own), provider="openai")
    changed = (UserMessage("Q"), AssistantMessage((thought, Text("Changed."), call)), ToolMessage("c1", "weather", "x"))
    found = sent("responses", *changed)["input"]
    assert [item.get("id") for item in found] == [None] * 5
    assert found[1]["encrypted_content"] == "enc"
    kept = sent("responses", UserMessage("Q"), AssistantMessage((thought, call)), ToolMessage("c1", "weather", "x"))
    assert [item.get("id") for item in kept["input"]] == [None, "rs_1", "fc_1", None]
    assert problems(*changed) == {}


def test_openai_output_limit_is_at_least_16_tokens() -> None:
    assert sent("responses", max_output_tokens=5)["max_output_tokens"] == 16
    assert sent("responses", max_output_tokens=17)["max_output_tokens"] == 17


@pytest.mark.parametrize("marks", [(), (0,), (0, 2), (0, 1, 2, 4)])
def test_breakpoints_are_on_allowed_blocks(marks: tuple[int, ...]) -> None:
    turns = (UserMessage("Q"), *loop("c1"), AssistantMessage((Text("A"),)), UserMessage("And?"))
    assert problems(*turns, breakpoints=marks) == {}
