"""Faults of the transport in all formats: connecting, redirects, encodings, empty and huge answers."""

from __future__ import annotations

import asyncio
import gzip
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from concertino.errors import BrokenStreamError, ProviderConnectionError, ProviderError, ProviderTimeoutError
from concertino.providers import Timeouts

from . import test_wire_chat as chat
from .test_faults import FULL, KINDS, QUICK, broken_by
from .wire_kit import events_of, model_of, played, reply_of, request, serving, sse


@contextmanager
def full_backlog() -> Iterator[int]:
    """Yield a port whose backlog is full, so that Linux accepts no connection."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse, instead of being silent")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_connect_limit(kind: str) -> None:
    with full_backlog() as port:
        model = QUICK[kind](f"http://127.0.0.1:{port}", Timeouts(connect=0.2, delta=30.0))
        with pytest.raises(ProviderTimeoutError) as caught:
            await events_of(model)
        await model.close()
    assert (caught.value.limit, caught.value.partial) == ("connect", None)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_total_limit_applies_before_the_answer(kind: str) -> None:
    limits = Timeouts(connect=5.0, delta=5.0, total=0.2)
    error = await broken_by(kind, limits, lambda server: server.play(b"", silent=3600.0))
    assert isinstance(error, ProviderTimeoutError)
    assert (error.limit, error.partial) == ("total", None)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_drip_within_the_limits_is_an_answer(kind: str) -> None:
    async with serving() as server:
        model = QUICK[kind](server.url, Timeouts(delta=5.0, total=20.0))
        server.play(FULL[kind], cuts=range(0, 5_000, 100), drip=0.001)
        reply = reply_of(await events_of(model))
        await model.close()
    assert len(reply.message.tool_calls) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "text/html"])
@pytest.mark.parametrize("body", [b"", b"\r\n\r\n", b": keep-alive\n\n", b"data: [DONE]\n\n"])
async def test_an_empty_answer_is_a_broken_stream(kind: str, content_type: str, body: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        await played(kind, body, headers={"content-type": content_type})


@pytest.mark.parametrize("kind", KINDS)
async def test_an_html_page_is_a_broken_stream(kind: str) -> None:
    page = b"<!doctype html><html><body>The proxy says: sign in</body></html>"
    with pytest.raises(BrokenStreamError, match=r"answered with a page: .*doctype"):
        await played(kind, page, headers={"content-type": "text/html"})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_compressed_answer(kind: str) -> None:
    data = gzip.compress(FULL[kind].encode())
    headers = {"content-encoding": "gzip"}
    reply = reply_of(await played(kind, data, cuts=range(0, len(data), 7), headers=headers))
    assert reply.message.text == reply_of(await played(kind, FULL[kind])).message.text
    assert len(reply.message.tool_calls) == 2
    with pytest.raises(ProviderError):
        await played(kind, FULL[kind], headers=headers)  # announced as compressed, but plain
    with pytest.raises(ProviderError):
        await played(kind, data[: len(data) // 2], headers=headers, broken=True)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_redirect_is_followed_with_the_same_request(kind: str) -> None:
    async with serving() as server, model_of(kind, server) as model:
        server.play(b"", status=307, headers={"location": "/elsewhere"})
        server.play(FULL[kind])
        reply = reply_of(await events_of(model))
    first, second = server.asked
    assert second.path == "/elsewhere"
    assert first.body == second.body is not None
    assert len(reply.message.tool_calls) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("headers", [{}, {"location": "gopher://nowhere"}, {"location": "http://[::"}])
async def test_a_redirect_to_nowhere(kind: str, headers: dict[str, str]) -> None:
    with pytest.raises(ProviderError):
        await played(kind, b"", status=307, headers=dict(headers))


@pytest.mark.parametrize("kind", KINDS)
async def test_endless_redirects(kind: str) -> None:
    async with serving() as server, model_of(kind, server) as model:
        for _ in range(40):
            server.play(b"", status=307, headers={"location": "/again"})
        with pytest.raises(ProviderConnectionError):
            await events_of(model)
        assert server.answers, "it gives up by itself"


HUGE = "é☀" * 700_000


def huge(kind: str) -> str:
    """Return an answer with one event of several megabytes."""
    match kind:
        case "anthropic":
            return sse(
                {"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 1}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": HUGE}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                {"type": "message_stop"},
            )
        case "responses":
            item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": HUGE}]}
            whole = {"status": "completed", "model": "m", "output": [item]}
            return sse({"type": "response.completed", "response": whole})
        case "chat":
            return sse(chat.chunk("stop", content=HUGE))
        case _:
            content = {"parts": [{"text": HUGE}]}
            return sse({"candidates": [{"content": content, "finishReason": "STOP"}]})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_huge_event(kind: str) -> None:
    assert reply_of(await played(kind, huge(kind))).message.text == HUGE


MANY = 120


@pytest.mark.parametrize("kind", KINDS)
async def test_many_answers_at_once(kind: str) -> None:
    """No answer begins before all requests have arrived, so each needs its own connection."""
    asked = asyncio.Barrier(MANY)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
        await asked.wait()
        writer.write(b"HTTP/1.1 200 Played\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n")
        writer.write(FULL[kind].encode())
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=MANY)
    model = QUICK[kind](f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", Timeouts(connect=600, delta=600))
    async with listener:
        found = await asyncio.gather(*(events_of(model) for _ in range(MANY)), return_exceptions=True)
    await model.close()
    assert [events for events in found if not isinstance(events, list)] == []


@pytest.mark.parametrize("kind", KINDS)
async def test_after_a_fault_the_same_model_answers(kind: str) -> None:
    """A fault leaves no connection, limit or partial answer behind."""
    faults: list[dict[str, Any]] = [
        {"refused": True}, {"broken": True}, {"status": 503}, {"status": 529}, {"headers": {"content-encoding": "br"}},
    ]  # fmt: skip
    async with serving() as server, model_of(kind, server) as model:
        for how in faults:
            server.play(b"{", **how)
            with pytest.raises(ProviderError):
                await events_of(model)
            server.play(FULL[kind])
            assert len(reply_of(await events_of(model, request())).message.tool_calls) == 2
    assert len(server.asked) == 2 * len(faults)
