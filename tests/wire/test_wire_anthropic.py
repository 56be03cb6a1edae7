"""The Messages API: streams after its reference, and the shape of requests."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from concertino.errors import BrokenStreamError, ContentFilteredError, OverloadedError, ProviderError
from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Message,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers import ReasoningChunk, TextChunk, ToolCallChunk, ToolCallReady
from concertino.providers.anthropic.request import request_body, tool_form
from concertino.providers.http.encoding import ToolForms, portable_id
from concertino.usage import Tokens

from .wire_kit import events_of, model_of, played, random_cuts, reply_of, request, serving, sse


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


BEGIN = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "claude-sonnet-4-5-20250929",
        "usage": {
            "input_tokens": 20,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 7,
            "output_tokens": 1,
        },
    },
}


def end(reason: str, **usage: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


FULL = sse(
    BEGIN,
    start(0, type="thinking", thinking="", signature=""),
    {"type": "ping"},
    delta(0, "thinking_delta", thinking="Weather: "),
    delta(0, "thinking_delta", thinking="zwölf Grad ☔"),
    delta(0, "signature_delta", signature="EqQB=="),
    stop(0),
    start(1, type="redacted_thinking", data="b64data"),
    stop(1),
    start(2, type="text", text=""),
    delta(2, "text_delta", text="Ich schaue "),
    delta(2, "text_delta", text="nach: 🌦️."),
    stop(2),
    start(3, type="tool_use", id="toolu_1", name="weather", input={}),
    delta(3, "input_json_delta", partial_json=""),
    delta(3, "input_json_delta", partial_json='{"city": "Kö'),
    delta(3, "input_json_delta", partial_json='ln"}'),
    stop(3),
    start(4, type="tool_use", id="toolu_2", name="now", input={}),
    stop(4),
    {"type": "something_new", "field": 1},
    *end("tool_use", output_tokens=50, output_tokens_details={"thinking_tokens": 30}, input_tokens=None),
)


@pytest.mark.parametrize("seed", range(6))
async def test_a_full_answer_in_pieces_of_any_size(seed: int) -> None:
    events = await played("anthropic", FULL, cuts=random_cuts(FULL, seed))
    assert events[:-1] == [
        ReasoningChunk("Weather: "),
        ReasoningChunk("zwölf Grad ☔"),
        TextChunk("Ich schaue "),
        TextChunk("nach: 🌦️."),
        ToolCallChunk("toolu_1", "weather", ""),
        ToolCallChunk("toolu_1", "weather", '{"city": "Kö'),
        ToolCallChunk("toolu_1", "weather", 'ln"}'),
        ToolCallReady(ToolCall("toolu_1", "weather", '{"city": "Köln"}')),
        ToolCallChunk("toolu_2", "now", ""),
        ToolCallReady(ToolCall("toolu_2", "now", "{}")),
    ]
    reply = reply_of(events)
    assert reply.message == AssistantMessage(
        (
            Reasoning("Weather: zwölf Grad ☔", signature="EqQB==", provider="anthropic"),
            Reasoning("", id="redacted", signature="b64data", provider="anthropic"),
            Text("Ich schaue nach: 🌦️."),
            ToolCall("toolu_1", "weather", '{"city": "Köln"}'),
            ToolCall("toolu_2", "now", "{}"),
        ),
        "tool_calls",
        "claude-sonnet-4-5-20250929",
    )
    assert reply.tokens == Tokens(prompt=127, completion=50, cached=100, cache_write=7, reasoning=30)
    assert reply.source == "measured"


async def test_final_counts_replace_initial_ones() -> None:
    body = sse(BEGIN, *end("end_turn", input_tokens=30, cache_read_input_tokens=0, output_tokens=2))
    assert reply_of(await played("anthropic", body)).tokens == Tokens(prompt=37, completion=2, cache_write=7)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "filter"),
        ("a_new_reason", "end"),
    ],
)
async def test_stop_reasons(reason: str, expected: str) -> None:
    body = sse(BEGIN, start(0, type="text", text="Well"), *end(reason, output_tokens=2))
    events = await played("anthropic", body)
    assert reply_of(events).message.stop_reason == expected
    assert reply_of(events).message.text == "Well"


async def test_an_empty_refusal_is_an_error() -> None:
    with pytest.raises(ContentFilteredError, match="anthropic"):
        await played("anthropic", sse(BEGIN, *end("refusal", output_tokens=0)))


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("at", [0, 1, 100, 700, 1300, len(FULL.encode()) - 80])
async def test_an_incomplete_answer_is_broken(at: int, broken: bool) -> None:
    with pytest.raises(BrokenStreamError):
        await played("anthropic", FULL.encode()[:at], broken=broken)


async def test_a_connection_lost_after_the_end_is_harmless() -> None:
    assert reply_of(await played("anthropic", FULL, broken=True)).message.text == "Ich schaue nach: 🌦️."


async def test_an_error_in_the_stream_is_raised() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with serving() as server, model_of("anthropic", server) as model:
        server.play(sse(BEGIN, start(0, type="text", text="Par"), overloaded))
        stream = model.stream(request())
        assert await anext(stream) == TextChunk("Par")
        with pytest.raises(OverloadedError, match="Overloaded"):
            await anext(stream)


async def test_invalid_json_is_broken() -> None:
    with pytest.raises(BrokenStreamError):
        await played("anthropic", sse(BEGIN, "{half"))


async def test_closing_a_stream_early_leaves_the_model_usable() -> None:
    async with serving() as server, model_of("anthropic", server) as model:
        server.play(FULL, cuts=range(0, 2000, 50))
        stream = model.stream(request())
        assert isinstance(stream, AsyncGenerator)
        await anext(stream)
        await stream.aclose()
        server.play(FULL)
        assert reply_of(await events_of(model)).message.text == "Ich schaue nach: 🌦️."


# Requests


def body_of(*messages: Message, **settings: Any) -> dict[str, Any]:
    found = json.loads(request_body(request(*messages, **settings), 4096, ToolForms(tool_form)).data)
    assert isinstance(found, dict)
    return found


WEATHER = ToolSpec("weather", "Tells the weather.", {"type": "object", "properties": {"city": {"type": "string"}}})


async def test_the_request() -> None:
    async with serving() as server, model_of("anthropic", server) as model:
        server.play(FULL)
        await events_of(model, request(system="Be brief.", tools=(WEATHER,)))
    (asked,) = server.asked
    assert asked.path == "/v1/messages"
    assert asked.headers["authorization"] == "Bearer key"
    assert asked.headers["content-type"] == "application/json"
    assert asked.body == {
        "model": "some-model",
        "max_tokens": 64_000,
        "stream": True,
        "system": "Be brief.",
        "tools": [{"name": "weather", "description": "Tells the weather.", "input_schema": WEATHER.parameters}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


def test_a_turn_of_tools() -> None:
    reply = AssistantMessage(
        (
            Reasoning("hm", signature="sig", provider="anthropic"),
            Reasoning("", id="redacted", signature="data", provider="anthropic"),
            Reasoning("another's", id="rs_1", signature="enc", provider="openai"),
            Reasoning("cut off", provider="anthropic"),
            Text("  "),
            ToolCall("a.1:2", "weather", '{"city":"Bonn"}', signature="google's"),
            ToolCall("b", "weather", '{"city":'),
        ),
        "tool_calls",
    )
    turns = body_of(
        UserMessage("Q"),
        reply,
        ToolMessage("a.1:2", "weather", "rain"),
        SystemMessage("Hurry."),
        ToolMessage("b", "weather", "no such city", is_error=True),
        UserMessage("And?"),
        tools=(WEATHER,),
    )["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "data"},
        {"type": "tool_use", "id": portable_id("a.1:2"), "name": "weather", "input": {"city": "Bonn"}},
        {"type": "tool_use", "id": "b", "name": "weather", "input": {"arguments": '{"city":'}},
    ]
    assert turns[2]["content"] == [
        {"type": "tool_result", "tool_use_id": portable_id("a.1:2"), "content": "rain"},
        {"type": "tool_result", "tool_use_id": "b", "content": "no such city", "is_error": True},
        {"type": "text", "text": "<system>\nHurry.\n</system>"},
        {"type": "text", "text": "And?"},
    ]


def test_the_conversation_begins_with_the_user() -> None:
    turns = body_of(AssistantMessage(()), AssistantMessage((Text("A"),)), AssistantMessage(()), UserMessage(" "))
    assert [turn["role"] for turn in turns["messages"]] == ["user", "assistant", "user"]
    assert turns["messages"][2]["content"] == [{"type": "text", "text": "(empty)"}]
    two = body_of(UserMessage("A"), AssistantMessage(()), UserMessage("B"))["messages"]
    assert [[block["text"] for block in turn["content"]] for turn in two] == [["A", "B"]]


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", True, {"type": "any"}),
        ("none", False, {"type": "none"}),
        (ForcedTool("weather"), False, {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choice(choice: ToolChoice, parallel: bool, expected: object) -> None:
    found = body_of(UserMessage("Q"), tools=(WEATHER,), tool_choice=choice, parallel_tool_calls=parallel)
    assert found.get("tool_choice") == expected


def test_a_history_with_calls_declares_a_tool() -> None:
    history: list[Message] = [
        UserMessage("Q"),
        AssistantMessage((ToolCall("a", "t", "{}"),)),
        ToolMessage("a", "t", "x"),
    ]
    found = body_of(*history)
    assert found["tools"]
    assert found["tool_choice"] == {"type": "none"}
    assert "tools" not in body_of(UserMessage("Q"))


def test_limits_and_extras() -> None:
    extra = {"thinking": {"type": "adaptive"}, "metadata": {"user_id": "u"}}
    found = body_of(UserMessage("Q \ud800"), max_output_tokens=10, extra=extra)
    assert found["max_tokens"] == 10
    assert found["thinking"] == {"type": "adaptive"}
    assert found["messages"][0]["content"][0]["text"] == "Q ?"


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (529, "overloaded_error", "OverloadedError"),
        (500, "api_error", "OverloadedError"),
        (429, "rate_limit_error", "RateLimitError"),
        (401, "authentication_error", "AuthenticationError"),
        (403, "permission_error", "PermissionDeniedError"),
        (404, "not_found_error", "ModelNotFoundError"),
        (400, "invalid_request_error", "BadRequestError"),
        (400, "billing_error", "PermissionDeniedError"),
        (413, "request_too_large", "ContextTooLongError"),
        (418, "teapot_error", "BadRequestError"),
    ],
)
async def test_statuses(status: int, kind: str, expected: str) -> None:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": "What is wrong"}})
    headers = {"content-type": "application/json", "retry-after": "7"}
    with pytest.raises(ProviderError, match="What is wrong") as caught:
        await played("anthropic", body, status=status, headers=headers)
    assert type(caught.value).__name__ == expected
    assert (caught.value.provider, caught.value.status) == ("anthropic", status)
    assert caught.value.retry_after == 7.0


async def test_a_too_long_prompt() -> None:
    message = "prompt is too long: 213462 tokens > 200000 maximum"
    body = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
    with pytest.raises(ProviderError) as caught:
        await played("anthropic", body, status=400, headers={"content-type": "application/json"})
    assert type(caught.value).__name__ == "ContextTooLongError"


async def test_a_spend_limit_is_not_a_rate_limit() -> None:
    details = {"error_code": "enforced_spend_limit_reached"}
    body = json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "Spent", "details": details}})
    with pytest.raises(ProviderError, match="Spent") as caught:
        await played("anthropic", body, status=429, headers={"content-type": "application/json"})
    assert type(caught.value).__name__ == "PermissionDeniedError"
