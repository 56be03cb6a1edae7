"""Faults that are not in the recordings: refusals, overload, resets, stalls, drips, garbage, huge lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from concertino.errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from concertino.providers import Model, TextChunk, Timeouts
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.google import GoogleModel
from concertino.providers.openai import OpenAIModel

from . import test_wire_anthropic as anthropic
from . import test_wire_chat as chat
from . import test_wire_google as google
from . import test_wire_responses as responses
from .wire_kit import MODELS, Server, events_of, model_of, played, reply_of, request, serving, sse

FULL = {"anthropic": anthropic.FULL, "responses": responses.FULL, "chat": chat.FULL, "google": google.FULL}
KINDS = list(MODELS)
QUICK: dict[str, Callable[[str, Timeouts], Model]] = {
    "anthropic": lambda url, limits: AnthropicModel("claude-sonnet-4-5", api_key="k", base_url=url, timeout=limits),
    "responses": lambda url, limits: OpenAIModel(
        "gpt-5", api_key="k", base_url=f"{url}/v1", api="responses", timeout=limits
    ),
    "chat": lambda url, limits: OpenAIModel("gpt-5", api_key="k", base_url=f"{url}/v1", timeout=limits),
    "google": lambda url, limits: GoogleModel("gemini-3-flash", api_key="k", base_url=url, timeout=limits),
}
STATUSES: list[tuple[int, type[ProviderError]]] = [
    (400, BadRequestError), (401, AuthenticationError), (402, PermissionDeniedError), (403, PermissionDeniedError),
    (404, ModelNotFoundError), (408, ProviderTimeoutError), (409, OverloadedError), (413, ContextTooLongError),
    (422, BadRequestError), (429, RateLimitError), (499, ProviderConnectionError), (500, OverloadedError),
    (502, OverloadedError), (503, OverloadedError), (504, ProviderTimeoutError), (529, OverloadedError),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("status", "expected"), STATUSES)
@pytest.mark.parametrize("body", ["", "<html>Bad gateway</html>", "[]", '{"error": null}', '{"error": "Slow"}'])
async def test_statuses_with_bodies_of_any_form(
    kind: str, status: int, expected: type[ProviderError], body: str
) -> None:
    with pytest.raises(expected) as caught:
        await played(kind, body, status=status, headers={"content-type": "text/html", "retry-after": "3"})
    assert caught.value.status == status
    assert caught.value.partial is None
    assert caught.value.retry_after == 3.0


async def broken_by(kind: str, limits: Timeouts, play: Callable[[Server], None]) -> ProviderError:
    """Return the error of a model with *limits*."""
    async with serving() as server:
        model = QUICK[kind](server.url, limits)
        play(server)
        try:
            with pytest.raises(ProviderError) as caught:
                await events_of(model)
        finally:
            await model.close()
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
async def test_silence_before_the_answer_times_out(kind: str) -> None:
    limits = Timeouts(connect=0.4, delta=0.1)
    error = await broken_by(kind, limits, lambda server: server.play(b"", silent=3600.0))
    assert isinstance(error, ProviderTimeoutError)
    assert (error.limit, error.partial) == ("delta", None)


@pytest.mark.parametrize("kind", KINDS)
async def test_silence_inside_the_answer_times_out(kind: str) -> None:
    half = FULL[kind].encode()[:900]
    error = await broken_by(kind, Timeouts(delta=0.1), lambda server: server.play(half, stall=3600.0))
    assert isinstance(error, ProviderTimeoutError)
    assert error.limit == "delta"
    assert "`delta`" in str(error)
    assert error.partial is not None
    assert error.partial.stop_reason == "broken"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_slow_drip_reaches_the_total_limit(kind: str) -> None:
    limits = Timeouts(delta=600.0, total=1.0)
    drip = range(0, len(FULL[kind].encode()), 5)
    error = await broken_by(kind, limits, lambda server: server.play(FULL[kind], cuts=drip, drip=0.05))
    assert isinstance(error, ProviderTimeoutError)
    assert error.limit == "total"
    assert error.partial is not None


@pytest.mark.parametrize("kind", KINDS)
async def test_silence_after_a_complete_answer_is_harmless(kind: str) -> None:
    async with serving() as server:
        model = QUICK[kind](server.url, Timeouts(delta=0.1))
        server.play(FULL[kind], stall=3600.0)
        reply = reply_of(await events_of(model))
        await model.close()
    assert len(reply.message.tool_calls) == 2


async def test_a_refused_connection() -> None:
    # An address that is reserved for documentation would need the network; a full backlog of our own does not.
    blocked = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0, backlog=1)
    port = blocked.sockets[0].getsockname()[1]
    blocked.close()
    await blocked.wait_closed()
    for kind in KINDS:
        model = QUICK[kind](f"http://127.0.0.1:{port}", Timeouts(connect=0.2))
        with pytest.raises(ProviderConnectionError):
            await events_of(model)
        await model.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_resets(kind: str) -> None:
    for body in (b"", FULL[kind].encode()[:700]):
        error = await broken_by(kind, Timeouts(), lambda server, body=body: server.play(body, broken=True))  # type: ignore[misc]
        assert isinstance(error, BrokenStreamError)
        assert error.partial is not None
    error = await broken_by(kind, Timeouts(), lambda server: server.play(b"", refused=True))
    assert isinstance(error, ProviderConnectionError)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "how", [{"status": 500}, {"status": 429, "headers": {"retry-after": "0"}}, {"broken": True}, {"refused": True}]
)
async def test_no_sdk_sends_a_request_twice(kind: str, how: dict[str, Any]) -> None:
    async with serving() as server, model_of(kind, server) as model:
        for _ in range(2):
            server.play(b"", **how)
        with pytest.raises(ProviderError):
            await events_of(model)
    assert len(server.asked) == 1


async def test_googles_sdk_does_not_continue_an_answer_by_itself() -> None:
    part = {"content": {"role": "model", "parts": [{"text": "half"}]}, "index": 0}
    body = sse({"candidates": [{**part, "finishReason": "CONTINUATION", "continuationToken": "dG9rZW4="}]})
    async with serving() as server, model_of("google", server) as model:
        for _ in range(2):
            server.play(body)
        reply = reply_of(await events_of(model))
    assert (reply.message.text, reply.message.stop_reason, len(server.asked)) == ("half", "length", 1)


GARBAGE = [
    b"\x00\xff\xfe\x01" * 50,
    b"\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    b"data: {\n\n",
    b"data: null\n\ndata: [1]\n\n",
    b'data: {"type": 5, "choices": [7], "candidates": "x", "delta": 1}\n\n',
    b'data: {"type":"content_block_delta","index":0}\n\n',
    b'data: {"type":"response.completed"}\n\n',
    b'data: {"choices":[{"delta":{"tool_calls":[3]}}]}\n\n',
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","partialArgs":[{}]}}]}}]}\n\n',
    b"data: " + b"[" * 200_000 + b"\n\n",
    b"<html><body>Sign in</body></html>",
    b"OK",
    b"{}",
    b"[]",
    b'{"error": {"message": "late"}}',
    b'{"content": 5, "output": 5, "choices": 5, "candidates": 5}',
    b'"text"',
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", GARBAGE)
async def test_garbage_is_a_provider_error(kind: str, body: bytes) -> None:
    with pytest.raises(ProviderError):
        await played(kind, body, headers={"content-type": "application/octet-stream"})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wrong_content_type_is_harmless(kind: str) -> None:
    for content_type in ("application/json", "text/plain", "text/html"):
        reply = reply_of(await played(kind, FULL[kind], headers={"content-type": content_type}))
        assert len(reply.message.tool_calls) == 2


async def test_huge_lines() -> None:
    text = "é" * 2_000_000
    body = sse(chat.chunk("stop", content=text))
    assert reply_of(await played("chat", body)).message.text == text
    with pytest.raises(BrokenStreamError, match="more than 1000 bytes"):
        endless(1_000)


def endless(most: int) -> None:
    """Feed a line that does not end."""
    from concertino.providers.http import body as decoding

    before = decoding.MAX_EVENT_BYTES
    decoding.MAX_EVENT_BYTES = most
    try:
        decoder = decoding.BodyDecoder("here")
        for _ in range(1_000):
            decoder.feed(b"data: x" * 10)
    finally:
        decoding.MAX_EVENT_BYTES = before


async def test_closing_the_stream_early_ends_the_request() -> None:
    async with serving() as server, model_of("chat", server) as model:
        server.play(FULL["chat"], cuts=range(0, 2000, 100), stall=3600.0)
        stream: Any = model.stream(request())
        async for event in stream:
            if isinstance(event, TextChunk):
                break
        await stream.aclose()
    assert json.dumps(server.asked[0].body)
