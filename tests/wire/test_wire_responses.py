"""The Responses API: streams after its reference, and the shape of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concertino.errors import (
    BrokenStreamError,
    ContentFilteredError,
    ModelNotFoundError,
    OverloadedError,
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
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers import ReasoningChunk, TextChunk, ToolCallChunk, ToolCallReady
from concertino.providers.http.encoding import ToolForms
from concertino.providers.openai.responses import request as responses
from concertino.usage import Tokens

from .wire_kit import events_of, model_of, played, random_cuts, reply_of, request, serving, sse

USAGE = {
    "input_tokens": 300,
    "input_tokens_details": {"cached_tokens": 256, "cache_write_tokens": 12},
    "output_tokens": 90,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 390,
}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Eins"}, {"type": "summary_text", "text": "zwei ✓"}],
    "encrypted_content": "gAAA",
}
CALLS = [
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Köln"}'},
    {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "now", "arguments": ""},
]
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Größe: ", "annotations": []}, {"type": "output_text", "text": "∞"}],
}


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}}


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind: str, index: int, text: str) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "item_id": "x", "delta": text}


def ended(kind: str = "completed", **fields: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "model": "gpt-5-2025-08-07", "usage": USAGE, "output": [], **fields}
    return {"type": f"response.{kind}", "response": response}


PART = {"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0}
FULL = sse(
    {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5"}},
    added(0, REASONING),
    {**PART, "summary_index": 0},
    delta("reasoning_summary_text", 0, "Eins"),
    {**PART, "summary_index": 1},
    delta("reasoning_summary_text", 0, "zwei ✓"),
    done(0, REASONING),
    added(1, MESSAGE),
    delta("output_text", 1, "Größe: "),
    delta("output_text", 1, "∞"),
    done(1, MESSAGE),
    added(2, CALLS[0]),
    added(3, CALLS[1]),
    delta("function_call_arguments", 2, '{"city":'),
    delta("function_call_arguments", 2, '"Köln"}'),
    done(3, CALLS[1]),
    done(2, CALLS[0]),
    {"type": "response.something_new"},
    ended(),
)
PARTS = (
    Reasoning("Eins\n\nzwei ✓", "rs_1", "gAAA", "openai"),
    Text("Größe: ∞"),
    ToolCall("call_1", "weather", '{"city":"Köln"}'),
    ToolCall("call_2", "now", "{}"),
)


@pytest.mark.parametrize("seed", range(6))
async def test_a_full_answer_in_pieces_of_any_size(seed: int) -> None:
    events = await played("responses", FULL, cuts=random_cuts(FULL, seed))
    assert events[:-1] == [
        ReasoningChunk("Eins"),
        ReasoningChunk("\n\n"),
        ReasoningChunk("zwei ✓"),
        TextChunk("Größe: "),
        TextChunk("∞"),
        ToolCallChunk("call_1", "weather", ""),
        ToolCallChunk("call_2", "now", ""),
        ToolCallChunk("call_1", "weather", '{"city":'),
        ToolCallChunk("call_1", "weather", '"Köln"}'),
        ToolCallReady(ToolCall("call_1", "weather", '{"city":"Köln"}')),
        ToolCallReady(ToolCall("call_2", "now", "{}")),
    ]
    reply = reply_of(events)
    assert reply.message == AssistantMessage(PARTS, "tool_calls", "gpt-5-2025-08-07")
    assert reply.tokens == Tokens(prompt=300, completion=90, cached=256, cache_write=12, reasoning=64)


async def test_items_only_in_the_last_event() -> None:
    reply = reply_of(await played("responses", sse(ended(output=[REASONING, MESSAGE, *CALLS]), "[DONE]")))
    assert reply.message.parts == PARTS


async def test_no_usage_is_not_zero() -> None:
    reply = reply_of(await played("responses", sse(done(0, MESSAGE), ended(usage=None))))
    assert (reply.tokens, reply.source) == (None, "unknown")


async def test_an_answer_cut_off_by_the_limit() -> None:
    body = sse(done(0, MESSAGE), ended("incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert reply_of(await played("responses", body)).message.stop_reason == "length"


async def test_filters() -> None:
    filtered = ended("incomplete", incomplete_details={"reason": "content_filter"})
    assert reply_of(await played("responses", sse(done(0, MESSAGE), filtered))).message.stop_reason == "filter"
    with pytest.raises(ContentFilteredError):
        await played("responses", sse(filtered))
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    events = await played("responses", sse(delta("refusal", 0, "No."), done(0, refusal), ended()))
    assert events[0] == TextChunk("No.")
    assert reply_of(events).message == AssistantMessage((Text("No."),), "filter", "gpt-5-2025-08-07")


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("at", [0, 50, 900, 2000, len(FULL.encode()) - 90])
async def test_an_incomplete_answer_is_broken(at: int, broken: bool) -> None:
    with pytest.raises(BrokenStreamError):
        await played("responses", FULL.encode()[:at], broken=broken)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ended("failed", error={"code": "server_error", "message": "Sorry"}), OverloadedError),
        (ended("failed", error={"code": "rate_limit_exceeded", "message": "Sorry"}), RateLimitError),
        (ended("failed", error={"code": "bio_policy", "message": "Sorry"}), ContentFilteredError),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Sorry", "sequence_number": 1}, RateLimitError),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "Sorry"}}, ProviderError),
    ],
)
async def test_errors_in_the_stream(event: dict[str, Any], expected: type[ProviderError]) -> None:
    with pytest.raises(expected, match="Sorry"):
        await played("responses", sse(delta("output_text", 0, "A"), event))


async def test_an_unknown_model_comes_with_400() -> None:
    error = {"message": "The requested model does not exist.", "code": "model_not_found", "param": "model"}
    with pytest.raises(ModelNotFoundError) as caught:
        await played(
            "responses", json.dumps({"error": error}), status=400, headers={"content-type": "application/json"}
        )
    assert caught.value.status == 400


# Requests

WEATHER = ToolSpec("weather", "Tells the weather.", {"type": "object", "properties": {}})


def body_of(*messages: Message, provider: str = "openai", encrypted: bool = True, **settings: Any) -> dict[str, Any]:
    forms = ToolForms(responses.tool_form)
    asked = request(*messages, **settings)
    found = json.loads(responses.request_body(asked, provider, forms, encrypted=encrypted).data)
    assert isinstance(found, dict)
    return found


async def test_the_request() -> None:
    async with serving() as server, model_of("responses", server) as model:
        server.play(FULL)
        await events_of(model, request(system="Be brief.", tools=(WEATHER,), max_output_tokens=99))
    (asked,) = server.asked
    assert asked.path == "/v1/responses"
    assert asked.headers["authorization"] == "Bearer key"
    assert asked.body == {
        "model": "some-model",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "max_output_tokens": 99,
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "description": "Tells the weather.",
                "parameters": WEATHER.parameters,
                "strict": False,
            }
        ],
        "input": [{"role": "user", "content": "Hi"}],
    }


def test_a_turn_of_tools() -> None:
    items = body_of(
        UserMessage("Q"),
        AssistantMessage((*PARTS, Reasoning("last", "rs_2", "enc", "openai")), "tool_calls"),
        ToolMessage("call_1", "weather", "rain"),
        ToolMessage("call_2", "now", "noon"),
        SystemMessage("Hurry."),
        AssistantMessage((Reasoning("", None, "enc", "openai"), Reasoning("x", provider="google"), Text("A"))),
    )["input"]
    assert items == [
        {"role": "user", "content": "Q"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Eins\n\nzwei ✓"}],
            "encrypted_content": "gAAA",
        },
        {"role": "assistant", "content": "Größe: ∞"},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Köln"}'},
        {"type": "function_call", "call_id": "call_2", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
        {"type": "function_call_output", "call_id": "call_2", "output": "noon"},
        {"role": "developer", "content": "Hurry."},
        {"type": "reasoning", "summary": [], "encrypted_content": "enc"},
        {"role": "assistant", "content": "A"},
    ]


def test_reasoning_goes_only_to_its_provider_and_to_models_that_reason() -> None:
    answer = AssistantMessage(PARTS)
    assert [item.get("type") for item in body_of(answer, provider="azure")["input"]].count("reasoning") == 0
    found = body_of(answer, encrypted=False)
    assert [item.get("type") for item in found["input"]].count("reasoning") == 0
    assert "include" not in found


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-5", True),
        ("gpt-5.4-mini", True),
        ("gpt-6-luna", True),
        ("o4-mini", True),
        ("openai/gpt-5-nano", True),
        ("gpt-5-chat-latest", False),
        ("gpt-4o", False),
        ("gpt-4.1-mini", False),
        ("my-deployment", False),
    ],
)
def test_reasoning_models(model: str, expected: bool) -> None:
    assert responses.is_reasoning_model(model) is expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("required", "required"),
        ("none", "none"),
        (ForcedTool("weather"), {"type": "function", "name": "weather"}),
    ],
)
def test_tool_choice(choice: ToolChoice, expected: object) -> None:
    found = body_of(UserMessage("Q"), tools=(WEATHER,), tool_choice=choice, parallel_tool_calls=False)
    assert found.get("tool_choice") == expected
    assert found["parallel_tool_calls"] is False
    assert "tool_choice" not in body_of(UserMessage("Q"), tool_choice=choice)


def test_extras_are_merged() -> None:
    extra = {"reasoning": {"effort": "low"}, "store": True, "input": "raw"}
    found = body_of(UserMessage("Q"), extra=extra)
    assert (found["reasoning"], found["store"], found["input"]) == ({"effort": "low"}, True, "raw")
