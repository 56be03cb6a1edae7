"""Streamed and unstreamed answers have one meaning: the same message and the same usage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic._models import construct_type as anthropic_object
from anthropic.lib.streaming._beta_messages import accumulate_event
from anthropic.types.beta import BetaRawMessageStreamEvent
from openai._models import construct_type as openai_object
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from concertino.errors import ContentFilteredError, OverloadedError, ProviderError
from concertino.messages import AssistantMessage, MessagePart
from concertino.providers import Model, ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallReady
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.google import GoogleModel
from concertino.providers.openai import OpenAIModel

from . import test_wire_anthropic as anthropic
from . import test_wire_chat as chat
from . import test_wire_google as google
from . import test_wire_responses as responses
from .conftest import Source
from .exchanges import Exchange, exchanges
from .test_early_tools import nameless
from .wire_kit import MODELS, events_of, model_of, played, reply_of, request, serving

JSON = {"content-type": "application/json"}
FULL = {
    "anthropic": anthropic.FULL,
    "responses": responses.FULL,
    "chat": chat.FULL.replace('"reasoning":', '"reasoning_content":'),
    "google": google.FULL,
}


def sdk_whole_anthropic(chunks: list[dict[str, Any]]) -> Any:
    message: Any = None
    buffers: dict[int, bytes] = {}
    for chunk in chunks:
        if chunk["type"] == "message_start":
            chunk["message"].setdefault("content", [])
        event: Any = anthropic_object(type_=BetaRawMessageStreamEvent, value=chunk)
        if chunk["type"] == "message_start":
            message, buffers = None, {}
        if chunk["type"] not in ("ping", "something_new"):
            more: Any = {"current_snapshot": message, "json_bufs": buffers, "request_headers": {}}
            message = accumulate_event(event=event, **more)
    return json.loads(message.to_json())


def sdk_whole_chat(chunks: list[dict[str, Any]]) -> Any:
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(openai_object(type_=ChatCompletionChunk, value=chunk))  # type: ignore[arg-type]
    return json.loads(state.current_completion_snapshot.to_json())


def whole_responses(chunks: list[dict[str, Any]]) -> Any:
    done = {chunk["output_index"]: chunk["item"] for chunk in chunks if chunk["type"] == "response.output_item.done"}
    return {**chunks[-1]["response"], "output": [done[index] for index in sorted(done)]}


def whole_google(chunks: list[dict[str, Any]]) -> Any:
    return chunks  # without `alt=sse`, the API gives the chunks as a list


WHOLE = {
    "anthropic": sdk_whole_anthropic,
    "responses": whole_responses,
    "chat": sdk_whole_chat,
    "google": whole_google,
}


def plain(message: AssistantMessage) -> list[Any]:
    """Return *message* without generated ids, empty texts and spaces in arguments."""
    found: list[Any] = []
    for part in message.parts:
        if part.kind == "tool_call":
            call = nameless(part)
            found.append((call.id, call.name, json.loads(call.arguments), part.signature))
        elif part.kind == "media":
            found.append((part.kind, part.media))
        elif part.kind == "opaque":
            found.append((part.type, without_null(json.loads(part.raw))))
        else:
            found.append((part.kind, part.text, getattr(part, "signature", None), citations(part)))
    return [message.stop_reason, *found]


def citations(part: MessagePart) -> Any:
    value = json.loads(part.raw or "{}")
    return without_null(value.get("citations") or [piece.get("annotations") for piece in value.get("content") or []])


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_null(held) for name, held in value.items() if held is not None}
    return [without_null(held) for held in value] if isinstance(value, list) else value


def texts(events: list[ModelEvent], kind: type[TextChunk | ReasoningChunk]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


@pytest.mark.parametrize("kind", list(MODELS))
async def test_handwritten_answers(kind: str) -> None:
    streamed = await played(kind, FULL[kind])
    exchange = Exchange("x", kind, "", frozenset(), None, 200, {}, FULL[kind].encode(), streamed=True)
    body = json.dumps(WHOLE[kind](exchange.chunks), ensure_ascii=False)
    whole = await played(kind, body, cuts=range(0, len(body), 13), headers=JSON)
    assert plain(reply_of(whole).message) == plain(reply_of(streamed).message)
    assert reply_of(whole).tokens == reply_of(streamed).tokens
    assert texts(whole, TextChunk) == texts(streamed, TextChunk)
    assert texts(whole, ReasoningChunk) == texts(streamed, ReasoningChunk)
    ready = [event.call for event in whole if isinstance(event, ToolCallReady)]
    assert sorted(ready, key=str) == sorted(reply_of(whole).message.tool_calls, key=str)


@pytest.mark.parametrize("kind", ["anthropic", "responses", "chat"])
async def test_exchanges(kind: str, source: Source) -> None:
    wrong: list[str] = []
    count = 0
    async with serving() as server, model_of(kind, server) as model:
        for exchange in exchanges(kind, source.root):
            if not exchange.streamed or exchange.status >= 300:
                continue
            try:
                body = json.dumps(WHOLE[kind](exchange.chunks))
            except (TypeError, AttributeError, KeyError, IndexError, AssertionError, UserWarning):
                continue  # a deviation that the SDK's own accumulator does not take
            server.play(exchange.body)
            server.play(body, headers=JSON)
            try:
                streamed = reply_of(await events_of(model))
            except ProviderError:
                server.answers.clear()
                continue
            whole = reply_of(await events_of(model))
            count += 1
            if plain(whole.message) != plain(streamed.message):
                wrong.append(f"{exchange.name}: {plain(whole.message)} is not {plain(streamed.message)}")
            # The SDK's accumulator does not know `x_groq`, and forgets usage when a later chunk has none.
            if whole.tokens not in (streamed.tokens, None):
                wrong.append(f"{exchange.name}: {whole.tokens} is not {streamed.tokens}")
    assert not wrong, "\n".join(wrong)
    assert count >= source.at_least(50)


@pytest.mark.parametrize("kind", list(MODELS))
async def test_streaming_can_be_disabled(kind: str) -> None:
    makers: dict[str, Any] = {
        "anthropic": lambda url: AnthropicModel("claude-sonnet-4-5", api_key="k", base_url=url, streams=False),
        "responses": lambda url: OpenAIModel("gpt-5", api_key="k", base_url=url, api="responses", streams=False),
        "chat": lambda url: OpenAIModel("gpt-5", api_key="k", base_url=url, streams=False),
        "google": lambda url: GoogleModel("gemini-3-flash", api_key="k", base_url=url, streams=False),
    }
    exchange = Exchange("x", kind, "", frozenset(), None, 200, {}, FULL[kind].encode(), streamed=True)
    async with serving() as server:
        model: Model = makers[kind](server.url)
        server.play(json.dumps(WHOLE[kind](exchange.chunks)), headers=JSON)
        reply = reply_of(await events_of(model, request()))
        server.play(json.dumps({"error": {"message": "Busy", "code": 503}}), status=503, headers=JSON)
        with pytest.raises(OverloadedError, match="Busy"):
            await events_of(model, request())
        await model.close()
    assert len(reply.message.tool_calls) == 2
    assert isinstance(reply, Reply)
    if kind == "google":
        assert server.asked[0].path.endswith(":generateContent")
    else:
        assert server.asked[0].body["stream"] is False
        assert "stream_options" not in server.asked[0].body


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, OverloadedError),
        ("anthropic", {"content": [], "stop_reason": "refusal"}, ContentFilteredError),
        ("anthropic", {"content": [], "stop_reason": None}, ProviderError),
        ("responses", {"status": "failed", "error": {"code": "server_error", "message": "x"}}, OverloadedError),
        ("responses", {"status": "in_progress", "output": []}, ProviderError),
        ("chat", {"error": {"message": "x", "code": 502}}, OverloadedError),
        ("chat", {"choices": []}, ProviderError),
        ("google", {"promptFeedback": {"blockReason": "SAFETY"}}, ContentFilteredError),
        ("google", {"error": {"code": 503, "message": "x"}}, OverloadedError),
    ],
)
async def test_invalid_whole_answers(kind: str, body: Any, expected: type[ProviderError]) -> None:
    with pytest.raises(expected):
        await played(kind, json.dumps(body), headers=JSON)
