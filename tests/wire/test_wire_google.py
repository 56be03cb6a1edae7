"""Gemini: streams after its reference, and the shape of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google import genai
from google.genai import types

from concertino.errors import (
    AuthenticationError,
    BrokenStreamError,
    ContentFilteredError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
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
from concertino.providers.google import GoogleModel
from concertino.providers.google.request import request_body, tool_form
from concertino.providers.http.encoding import ToolForms
from concertino.usage import Tokens

from .wire_kit import events_of, model_of, played, random_cuts, reply_of, request, serving, sse


def chunk(*parts: dict[str, Any], reason: str | None = None, **usage: int) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-flash-001"}


FULL = sse(
    chunk({"text": "Also: ", "thought": True}, promptTokenCount=50),
    chunk({"text": "zwölf.", "thought": True}, promptTokenCount=50, candidatesTokenCount=3, thoughtsTokenCount=40),
    chunk({"text": "Grüße "}),
    chunk({"text": "☀️"}),
    chunk({"text": "", "thoughtSignature": "c2lnMQ=="}),
    chunk(
        {"functionCall": {"id": "fc1", "name": "weather", "args": {"city": "Köln"}}, "thoughtSignature": "c2lnMg=="},
        {"functionCall": {"name": "now"}},
    ),
    chunk(
        reason="STOP",
        promptTokenCount=50,
        cachedContentTokenCount=30,
        toolUsePromptTokenCount=4,
        candidatesTokenCount=9,
        thoughtsTokenCount=40,
        totalTokenCount=103,
    ),
)


@pytest.mark.parametrize("seed", range(6))
async def test_a_full_answer_in_pieces_of_any_size(seed: int) -> None:
    events = await played("google", FULL, cuts=random_cuts(FULL, seed))
    reply = reply_of(events)
    made = reply.message.tool_calls[1].id
    assert made.startswith("call_")
    assert events[:-1] == [
        ReasoningChunk("Also: "),
        ReasoningChunk("zwölf."),
        TextChunk("Grüße "),
        TextChunk("☀️"),
        ToolCallChunk("fc1", "weather", '{"city":"Köln"}'),
        ToolCallReady(ToolCall("fc1", "weather", '{"city":"Köln"}', "c2lnMg==")),
        ToolCallChunk(made, "now", "{}"),
        ToolCallReady(ToolCall(made, "now", "{}")),
    ]
    assert reply.message == AssistantMessage(
        (
            Reasoning("Also: zwölf.", provider="google"),
            Text("Grüße ☀️"),
            Text(""),  # it has a signature
            ToolCall("fc1", "weather", '{"city":"Köln"}', "c2lnMg=="),
            ToolCall(made, "now", "{}"),
        ),
        "tool_calls",
        "gemini-3-flash-001",
    )
    assert reply.tokens == Tokens(prompt=54, completion=49, cached=30, reasoning=40)


async def test_a_client_of_the_caller_reads_the_same() -> None:
    async with serving() as server:
        client = genai.Client(api_key="key", vertexai=False, http_options=types.HttpOptions(base_url=server.url))
        model = GoogleModel("gemini-3-flash", client=client)
        server.play(FULL, cuts=range(0, 1000, 9))
        reply = reply_of(await events_of(model, request(system="Be brief.")))
        await model.close()
        client.close()
        await client.aio.aclose()
    assert reply.message.text == "Grüße ☀️"
    assert reply.message.tool_calls[0] == ToolCall("fc1", "weather", '{"city":"Köln"}', "c2lnMg==")
    assert reply.tokens == Tokens(prompt=54, completion=49, cached=30, reasoning=40)
    assert server.asked[0].body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert server.asked[0].body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


async def test_signatures_go_back_in_their_own_part() -> None:
    parts: list[dict[str, Any]] = [
        {"text": "Thought", "thought": True, "thoughtSignature": "czE="},
        {"text": "Begin "},
        {"text": "signed", "thoughtSignature": "czI="},
        {"text": "", "thoughtSignature": "czM="},
        {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": "czQ="},
    ]
    reply = reply_of(await played("google", sse(chunk(*parts, reason="STOP"))))
    sent = body_of(reply.message)["contents"][1:-1]
    assert sent == [{"role": "model", "parts": parts}]


async def test_no_usage_is_not_zero() -> None:
    reply = reply_of(await played("google", sse(chunk({"text": "A"}, reason="STOP"))))
    assert (reply.tokens, reply.source) == (None, "unknown")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "filter"),
        ("MALFORMED_FUNCTION_CALL", "broken"),
        ("OTHER", "broken"),
        ("A_NEW_REASON", "broken"),
    ],
)
async def test_stop_reasons(reason: str, expected: str) -> None:
    reply = reply_of(await played("google", sse(chunk({"text": "A"}, reason=reason))))
    assert reply.message.stop_reason == expected


async def test_filters_and_failures_without_content() -> None:
    with pytest.raises(ContentFilteredError, match="SAFETY"):
        await played("google", sse(chunk(reason="SAFETY")))
    with pytest.raises(ContentFilteredError, match="PROHIBITED_CONTENT"):
        await played("google", sse({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
    nothing: list[dict[str, Any]] = [{"text": "hm", "thought": True}, {"text": "", "thoughtSignature": "czE="}]
    for reason in ("MALFORMED_FUNCTION_CALL", "OTHER", "NO_IMAGE", "IMAGE_OTHER", "A_NEW_REASON"):
        for parts in ([], nothing):
            with pytest.raises(BrokenStreamError, match=reason):
                await played("google", sse(chunk(*parts, reason=reason)))


async def test_an_image_of_a_failed_answer_is_kept() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aQ=="}}
    message = reply_of(await played("google", sse(chunk(image, reason="IMAGE_OTHER")))).message
    assert ([part.kind for part in message.parts], message.stop_reason) == (["media"], "broken")


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("at", [0, 50, 500, 900])
async def test_an_incomplete_answer_is_broken(at: int, broken: bool) -> None:
    with pytest.raises(BrokenStreamError):
        await played("google", FULL.encode()[:at], broken=broken)


async def test_an_error_in_the_stream_is_raised() -> None:
    error = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
    with pytest.raises(OverloadedError, match="Overloaded"):
        await played("google", sse(chunk({"text": "A"}), error))


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"message": "The input token count (9) exceeds the maximum number of tokens"}, ContextTooLongError),
        (400, {"message": "Key", "details": [{"reason": "API_KEY_INVALID"}]}, AuthenticationError),
        (403, {"message": "Key"}, PermissionDeniedError),
        (404, {"message": "models/x is not found"}, ModelNotFoundError),
        (429, {"message": "Slow", "details": [{"retryDelay": "23.5s"}]}, RateLimitError),
        (500, {"message": "Oops", "details": [{"retryDelay": f"{'9' * 400}s"}]}, OverloadedError),
        (503, {"message": "Oops"}, OverloadedError),
    ],
)
async def test_statuses(status: int, error: dict[str, Any], expected: type[ProviderError]) -> None:
    body = json.dumps({"error": {"code": status, **error}})
    with pytest.raises(ProviderError) as caught:
        await played("google", body, status=status, headers={"content-type": "application/json"})
    assert type(caught.value) is expected
    assert caught.value.status == status
    assert error["message"] in str(caught.value)
    assert caught.value.retry_after == (23.5 if status == 429 else None)


# Requests

WEATHER = ToolSpec("weather", "Tells the weather.", {"type": "object", "properties": {}})


def body_of(*messages: Message, **settings: Any) -> dict[str, Any]:
    found = json.loads(request_body(request(*messages, **settings), ToolForms(tool_form)).data)
    assert isinstance(found, dict)
    return found


async def test_the_request() -> None:
    async with serving() as server, model_of("google", server) as model:
        server.play(FULL)
        asked_for = request(model="gemini-3-flash", system="Be brief.", tools=(WEATHER,), max_output_tokens=9)
        await events_of(model, asked_for)
    (asked,) = server.asked
    assert asked.path.endswith("/models/gemini-3-flash:streamGenerateContent?alt=sse")
    assert asked.headers["x-goog-api-key"] == "key"
    function = {"name": "weather", "description": "Tells the weather.", "parametersJsonSchema": WEATHER.parameters}
    assert asked.body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"maxOutputTokens": 9},
        "tools": [{"functionDeclarations": [function]}],
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    }


def test_a_turn_of_tools() -> None:
    parts = (
        Reasoning("unsigned", provider="google"),
        Reasoning("another's", signature="x", provider="anthropic"),
        ToolCall("a", "weather", '{"city": "Bonn"}', signature="c2ln"),
        ToolCall("b", "weather", "{}"),
    )
    contents = body_of(
        UserMessage("Q"),
        AssistantMessage(parts, "tool_calls"),
        ToolMessage("a", "weather", "rain"),
        SystemMessage("Hurry."),
        ToolMessage("b", "weather", "?", is_error=True),
        model="gemini-3-pro-preview",
    )["contents"]
    calls = [
        {"functionCall": {"id": "a", "name": "weather", "args": {"city": "Bonn"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "b", "name": "weather", "args": {}}},
    ]
    results = [
        {"functionResponse": {"id": "a", "name": "weather", "response": {"output": "rain"}}},
        {"functionResponse": {"id": "b", "name": "weather", "response": {"error": "?"}}},
        {"text": "<system>\nHurry.\n</system>"},
    ]
    assert contents == [
        {"role": "user", "parts": [{"text": "Q"}]},
        {"role": "model", "parts": [{"text": "unsigned", "thought": True}, *calls]},
        {"role": "user", "parts": results},
    ]


def test_calls_of_other_models_get_the_documented_signature() -> None:
    answer = AssistantMessage((ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))
    strict = body_of(answer, model="gemini-3.1-pro-preview")["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in strict] == ["skip_thought_signature_validator", None]
    loose = body_of(answer, model="gemini-2.5-flash")["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in loose] == [None, None]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        (ForcedTool("weather"), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
    ],
)
def test_tool_choice(choice: ToolChoice, expected: object) -> None:
    found = body_of(UserMessage("Q"), tools=(WEATHER,), tool_choice=choice)
    assert found["toolConfig"] == {"functionCallingConfig": expected}
    assert "toolConfig" not in body_of(UserMessage("Q"), tools=(WEATHER,))


def test_extras_are_merged() -> None:
    extra = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}
    found = body_of(UserMessage("Q"), max_output_tokens=9, extra=extra)
    assert found["generationConfig"] == {"maxOutputTokens": 9, "thinkingConfig": {"thinkingBudget": 0}}
