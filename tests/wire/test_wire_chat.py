"""Chat Completions of OpenAI and others: streams after the reference, and requests."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from concertino.errors import (
    AuthenticationError,
    BrokenStreamError,
    ContentFilteredError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    RateLimitError,
)
from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Message,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers import ReasoningChunk, TextChunk, ToolCallChunk, ToolCallReady
from concertino.providers.http.encoding import ToolForms, WireMessage
from concertino.providers.openai import OpenAIModel
from concertino.providers.openai.chat import request as chat_request
from concertino.providers.openai.chat.vendors import vendor_of
from concertino.usage import Tokens

from .wire_kit import events_of, model_of, played, random_cuts, reply_of, request, serving, sse


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "model": "gpt-5-mini-2025", "choices": [choice]}


def call(index: int | None, arguments: str, call_id: str | None = None, name: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"function": {"arguments": arguments}}
    if name:
        found["function"]["name"] = name
    if call_id:
        found |= {"id": call_id, "type": "function"}
    if index is not None:
        found["index"] = index
    return found


def usage(**fields: Any) -> dict[str, Any]:
    return {"id": "c", "model": "gpt-5-mini-2025", "choices": [], "usage": fields}


COUNTS = usage(
    prompt_tokens=100,
    prompt_tokens_details={"cached_tokens": 64},
    completion_tokens=20,
    completion_tokens_details={"reasoning_tokens": 5},
    total_tokens=120,
)
FULL = ": a comment\n\n" + sse(
    chunk(role="assistant", content=""),
    chunk(reasoning_content="Hm… "),
    chunk(reasoning="so."),
    chunk(content="Zürich "),
    chunk(content="🏔"),
    chunk(tool_calls=[call(0, "", "call_1", "weather")]),
    chunk(tool_calls=[call(0, '{"a":')]),
    chunk(tool_calls=[call(1, "", "call_2", "now"), call(0, "1}")]),
    chunk("tool_calls"),
    COUNTS,
    "[DONE]",
)


@pytest.mark.parametrize("seed", range(6))
async def test_a_full_answer_in_pieces_of_any_size(seed: int) -> None:
    events = await played("chat", FULL, cuts=random_cuts(FULL, seed))
    assert events[:-1] == [
        ReasoningChunk("Hm… "),
        ReasoningChunk("so."),
        TextChunk("Zürich "),
        TextChunk("🏔"),
        ToolCallChunk("call_1", "weather", ""),
        ToolCallChunk("call_1", "weather", '{"a":'),
        ToolCallChunk("call_2", "now", ""),
        ToolCallChunk("call_1", "weather", "1}"),
        ToolCallReady(ToolCall("call_1", "weather", '{"a":1}')),
        ToolCallReady(ToolCall("call_2", "now", "{}")),
    ]
    reply = reply_of(events)
    assert reply.message == AssistantMessage(
        (
            Reasoning("Hm… so.", provider="openai/chat"),
            Text("Zürich 🏔"),
            ToolCall("call_1", "weather", '{"a":1}'),
            ToolCall("call_2", "now", "{}"),
        ),
        "tool_calls",
        "gpt-5-mini-2025",
    )
    assert reply.tokens == Tokens(prompt=100, completion=20, cached=64, reasoning=5)


async def test_calls_without_index_or_with_equal_ones() -> None:
    for index in (None, 0):
        one = [call(index, '{"a":1}', "x", "f")]
        two = [call(index, '{"a":2}', "y", "f")]
        reply = reply_of(await played("chat", sse(chunk(tool_calls=one), chunk("stop", tool_calls=two))))
        assert reply.message.tool_calls == (ToolCall("x", "f", '{"a":1}'), ToolCall("y", "f", '{"a":2}'))
        assert reply.message.stop_reason == "tool_calls"


async def test_a_call_without_an_id_gets_one() -> None:
    reply = reply_of(await played("chat", sse(chunk("tool_calls", tool_calls=[call(0, "{}", name="f")]))))
    assert reply.message.tool_calls[0].id.startswith("call_")


async def test_counts_with_reasoning_outside_completion() -> None:
    details = {"reasoning_tokens": 50}
    counts = usage(prompt_tokens=10, completion_tokens=5, total_tokens=65, completion_tokens_details=details)
    reply = reply_of(await played("chat", sse(chunk("stop", content="A"), counts)))
    assert reply.tokens == Tokens(prompt=10, completion=55, reasoning=50)


async def test_no_usage_is_not_zero() -> None:
    reply = reply_of(await played("chat", sse(chunk("stop", content="A"), "[DONE]")))
    assert (reply.tokens, reply.source) == (None, "unknown")


async def test_content_in_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    events = await played("chat", sse(chunk("stop", content=[thinking, {"type": "text", "text": "A"}])))
    assert events[:-1] == [ReasoningChunk("Hm"), TextChunk("A")]


async def test_filters() -> None:
    reply = reply_of(await played("chat", sse(chunk(content="A"), chunk("content_filter"))))
    assert reply.message.stop_reason == "filter"
    with pytest.raises(ContentFilteredError):
        await played("chat", sse(chunk("content_filter")))
    reply = reply_of(await played("chat", sse(chunk("stop", refusal="No."))))
    assert (reply.message.text, reply.message.stop_reason) == ("No.", "filter")


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("at", [0, 50, 700, 1200])
async def test_an_incomplete_answer_is_broken(at: int, broken: bool) -> None:
    with pytest.raises(BrokenStreamError):
        await played("chat", FULL.encode()[:at], broken=broken)


async def test_an_end_without_content_is_broken() -> None:
    with pytest.raises(BrokenStreamError):
        await played("chat", sse("[DONE]"))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"error": {"code": 429, "message": "Slow"}, "choices": []}, RateLimitError),
        ({"error": {"code": 502, "message": "Slow"}}, OverloadedError),
        ({"error": {"code": None, "type": "server_error", "message": "Slow"}}, OverloadedError),
        ({"error": "Slow"}, OverloadedError),
    ],
)
async def test_errors_in_the_stream(event: dict[str, Any], expected: type[ProviderError]) -> None:
    with pytest.raises(expected, match="Slow"):
        await played("chat", sse(chunk(content="A"), event))


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"code": "context_length_exceeded", "message": "Too much"}, ContextTooLongError),
        (400, {"code": None, "message": "maximum context length is 8 tokens"}, ContextTooLongError),
        (400, {"code": "content_filter", "message": "Azure"}, ContentFilteredError),
        (401, {"code": "invalid_api_key", "type": "invalid_request_error", "message": "Key"}, AuthenticationError),
        (404, {"code": "model_not_found", "message": "None"}, ModelNotFoundError),
        (429, {"code": "insufficient_quota", "message": "Money"}, PermissionDeniedError),
        (429, {"code": "rate_limit_exceeded", "message": "Slow"}, RateLimitError),
        (500, {"message": "Oops"}, OverloadedError),
        (503, {"message": "Oops"}, OverloadedError),
        (409, {"message": "Oops"}, OverloadedError),
    ],
)
async def test_statuses(status: int, error: dict[str, Any], expected: type[ProviderError]) -> None:
    headers = {"content-type": "application/json", "retry-after-ms": "1500"}
    with pytest.raises(ProviderError, match=error["message"]) as caught:
        await played("chat", json.dumps({"error": error}), status=status, headers=headers)
    assert type(caught.value) is expected
    assert caught.value.status == status
    assert caught.value.retry_after == 1.5


async def test_an_unreachable_server() -> None:
    async with serving() as server:
        url = server.url
    model = OpenAIModel("m", api_key="k", base_url=f"{url}/v1", provider="here")
    with pytest.raises(ProviderConnectionError, match="here") as caught:
        await events_of(model)
    assert caught.value.provider == "here"
    await model.close()
    await model.close()


# Requests

WEATHER = ToolSpec("weather", "Tells the weather.", {"type": "object", "properties": {}})


def body_of(*messages: Message, **settings: Any) -> dict[str, Any]:
    forms = ToolForms(chat_request.tool_form)
    vendor = vendor_of(settings.pop("vendor", "some"), "")
    found = json.loads(chat_request.request_body(request(*messages, **settings), forms, vendor.name, vendor).data)
    assert isinstance(found, dict)
    return found


async def test_the_request() -> None:
    async with serving() as server, model_of("chat", server) as model:
        server.play(FULL)
        await events_of(model, request(system="Be brief.", tools=(WEATHER,), max_output_tokens=9))
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    function = {"name": "weather", "description": "Tells the weather.", "parameters": WEATHER.parameters}
    assert asked.body == {
        "model": "some-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "tools": [{"type": "function", "function": function}],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }


def test_a_turn_of_tools() -> None:
    parts = (
        Reasoning("x", "rs_1", "enc", "openai"),
        ToolCall("a", "weather", '{"city": "Bonn"}'),
        ToolCall("b", "weather", "{broken"),
    )
    messages = body_of(
        UserMessage("Q"),
        AssistantMessage(parts, "tool_calls"),
        ToolMessage("a", "weather", "rain"),
        ToolMessage("b", "weather", "?", is_error=True),
        SystemMessage("Hurry."),
        AssistantMessage((Text("A"),)),
        AssistantMessage(()),
    )["messages"]
    calls = [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}},
        {"id": "b", "type": "function", "function": {"name": "weather", "arguments": '{"arguments":"{broken"}'}},
    ]
    assert messages == [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
        {"role": "tool", "tool_call_id": "b", "content": "?"},
        {"role": "user", "content": "<system>\nHurry.\n</system>"},
        {"role": "assistant", "content": "A"},
        {"role": "assistant", "content": ""},
    ]


def test_settings_of_tools() -> None:
    found = body_of(UserMessage("Q"), tools=(WEATHER,), tool_choice=ForcedTool("weather"), parallel_tool_calls=False)
    assert found["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert found["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body_of(UserMessage("Q"), tools=(WEATHER,))
    assert body_of(UserMessage("Q"), extra={"stream_options": {"x": 1}})["stream_options"] == {
        "include_usage": True,
        "x": 1,
    }


def test_a_message_is_encoded_once() -> None:
    message = UserMessage("Q")
    first = message.wire("chat:some:some", lambda _: WireMessage("user", "", '{"built":1}'))
    assert first.rest == '{"built":1}'
    assert body_of(message)["messages"] == [{"built": 1}]


def test_a_model_serves_successive_event_loops() -> None:
    made: list[OpenAIModel] = []

    async def once() -> str:
        async with serving() as server:
            if not made:
                made.append(OpenAIModel("m", api_key="k", base_url=f"{server.url}/v1"))
            # Each server has another port.
            made[0]._endpoint = dataclasses.replace(made[0]._endpoint, base_url=f"{server.url}/v1")
            server.play(sse(chunk("stop", content="A")))
            text = reply_of(await events_of(made[0])).message.text
            await made[0].close()
            return text

    assert [asyncio.run(once()) for _ in range(2)] == ["A", "A"]


async def test_many_answers_at_once_share_one_client() -> None:
    async with serving() as server, model_of("chat", server) as model:
        for _ in range(50):
            server.play(FULL)
        replies = await asyncio.gather(*(events_of(model) for _ in range(50)))
    assert {reply_of(events).message.text for events in replies} == {"Zürich 🏔"}
