"""Streams cut after every event and at 20 random bytes end in a typed error with the partial message, or a reply."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from concertino.errors import BrokenStreamError, ContentFilteredError, ProviderError
from concertino.messages import AssistantMessage
from concertino.providers import ModelEvent, ModelRequest, ReasoningChunk, Reply, TextChunk, ToolCallReady
from concertino.providers.http.transport import StreamingModel

from .conftest import Source
from .exchanges import exchanges
from .wire_kit import MODELS, model_of, request, serving

MOST = 60
"""Of longer streams, as many borders are taken: the first, the last, and others at random."""


class _Cut:
    """A response whose connection is lost after *data*."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        yield self._data
        raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")

    async def aclose(self) -> None:
        pass


def cut_positions(body: bytes, chance: random.Random) -> list[int]:
    borders = [found.end() for found in re.finditer(rb"\r?\n\r?\n", body)]
    if len(borders) > MOST:
        borders = [*borders[:8], *borders[-8:], *chance.sample(borders, MOST - 16)]
    return sorted({*borders, *(chance.randrange(len(body)) for _ in range(20))})


async def until_broken(model: Any, data: bytes) -> tuple[list[ModelEvent], ProviderError | None]:
    """Return the events and error of a model that reads *data*.

    A stub transport allows thousands of cuts; `test_the_socket_drops` uses the real one.
    """

    async def opened(asked: ModelRequest, body: bytes) -> _Cut:
        return _Cut(data)

    model._open = opened
    events: list[ModelEvent] = []
    try:
        async for event in model.stream(request()):
            events.append(event)
    except ProviderError as error:
        return events, error
    return events, None


def check(events: list[ModelEvent], error: ProviderError | None, whole: AssistantMessage | None, *, again: bool) -> str:
    """Return the problem, or "". With *again*, the answer restarts, and the last start counts."""
    if error is None:
        if not isinstance(events[-1], Reply):
            return "no reply and no error"
        return "" if whole is None or events[-1].message.text == whole.text else "another answer"
    partial = error.partial
    if partial is None or partial.stop_reason != "broken":
        return f"{error!r} has the partial message {partial!r}"
    text = "".join(event.text for event in events if isinstance(event, TextChunk))
    thought = "".join(event.text for event in events if isinstance(event, ReasoningChunk))
    ready = [event.call for event in events if isinstance(event, ToolCallReady)]
    thoughts = "".join(part.text for part in partial.parts if part.kind == "reasoning")
    if not partial.text.endswith(text[-20:]) or len(partial.text) > len(text):
        return f"the text {partial.text[-50:]!r} is not {text[-50:]!r}"
    if not thought.replace("\n", "").endswith(thoughts.replace("\n", "")[-20:]) or (
        not thoughts and not again and thought
    ):
        return f"the reasoning {thoughts[-50:]!r} is not {thought[-50:]!r}"
    calls = list(partial.tool_calls)
    return f"of {ready} only {calls} are left" if [call for call in ready if call not in calls] else ""


@pytest.mark.parametrize("kind", list(MODELS))
async def test_every_cut_leaves_a_partial_message_and_a_typed_error(kind: str, source: Source) -> None:
    chance = random.Random(kind)
    wrong: list[str] = []
    cuts = broken = 0
    model = MODELS[kind]("http://127.0.0.1:1")
    assert isinstance(model, StreamingModel)
    for exchange in exchanges(kind, source.root):
        if not exchange.streamed or exchange.status >= 300 or "error_in_stream" in exchange.features:
            continue
        if not exchange.body:
            continue
        events, error = await until_broken(model, exchange.body)
        whole = events[-1].message if error is None and isinstance(events[-1], Reply) else None
        for position in cut_positions(exchange.body, chance):
            events, error = await until_broken(model, exchange.body[:position])
            cuts += 1
            broken += error is not None
            if error is not None and not isinstance(error, BrokenStreamError | ContentFilteredError):
                wrong.append(f"{exchange.name}, cut at {position}: {error!r}")
            if problem := check(events, error, whole, again=exchange.body.count(b'"message_start"') > 1):
                wrong.append(f"{exchange.name}, cut at {position}: {problem}")
    assert not wrong, f"{len(wrong)} of {cuts}\n" + "\n".join(wrong[:40])
    assert broken >= source.at_least(500)
    await model.close()


@pytest.mark.parametrize("kind", list(MODELS))
async def test_the_socket_drops(kind: str, source: Source) -> None:
    chance = random.Random(kind)
    found = 0
    async with serving() as server, model_of(kind, server) as model:
        for exchange in exchanges(kind, source.root):
            if not exchange.streamed or exchange.status >= 300 or (source.recorded and chance.random() < 0.8):
                continue
            position = chance.randrange(1, len(exchange.body) // 2 + 2)
            server.play(exchange.body[:position], broken=True)
            try:
                _ = [event async for event in model.stream(request())]
            except BrokenStreamError as error:
                assert error.partial is not None
                found += 1
            except ProviderError:
                pass
    assert found >= source.at_least(5)
