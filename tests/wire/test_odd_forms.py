"""Answers with values of unexpected types give a reply or a typed error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from concertino.errors import ProviderError
from concertino.providers import ModelEvent, ReasoningChunk, Reply, TextChunk

from .test_faults import FULL, KINDS
from .wire_kit import events_of, model_of, reply_of, serving

ANSWERED: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "message", "id": "m", "model": "m", "role": "assistant", "stop_reason": "tool_use",
                  "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "a"},
                              {"type": "tool_use", "id": "c", "name": "n", "input": {"x": 1}}],
                  "usage": {"input_tokens": 1, "output_tokens": 1, "cache_creation": {"ephemeral_1h_input_tokens": 0}}},
    "responses": {"id": "r", "object": "response", "status": "completed", "model": "m", "incomplete_details": None,
                  "output": [{"type": "message", "id": "i", "content": [{"type": "output_text", "text": "a"}]},
                             {"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": "{}"}],
                  "usage": {"input_tokens": 1, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 0}}},
    "chat": {"id": "r", "model": "m", "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
             "choices": [{"index": 0, "finish_reason": "stop", "message": {
                 "content": "a", "reasoning": "r", "refusal": None, "tool_calls": [
                     {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"}}]}}]},
    "google": {"modelVersion": "m", "usageMetadata": {"promptTokenCount": 1, "thoughtsTokenCount": 1},
               "candidates": [{"index": 0, "finishReason": "STOP", "content": {"parts": [
                   {"text": "a", "thoughtSignature": "s"}, {"functionCall": {"name": "n", "args": {}}}]}}]},
}  # fmt: skip


def assert_texts(events: list[ModelEvent]) -> None:
    """Check that texts are texts, whatever a server sent: the engine joins them, hashes them and looks them up."""
    reply = reply_of(events)
    chunks = [event for event in events if isinstance(event, TextChunk | ReasoningChunk)]
    assert all(isinstance(chunk.text, str) for chunk in chunks)
    assert isinstance(reply.message.model, str)
    for part in reply.message.parts:
        if part.kind == "tool_call":
            assert all(isinstance(text, str) for text in (part.id, part.name, part.arguments))
        elif part.kind in ("text", "reasoning"):
            assert isinstance(part.text, str)  # type: ignore[union-attr]


def assert_credible(reply: Reply) -> None:
    """Check that measured counts can be true: an answer has input and output, and no part exceeds its sum."""
    tokens = reply.tokens
    if tokens is not None:
        assert tokens.cached + tokens.cache_write <= tokens.prompt
        assert tokens.reasoning <= tokens.completion
        assert reply.source != "measured" or (tokens.prompt and (tokens.completion or not reply.message.parts))


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the paths to everything in *value*."""
    for key, held in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*at, key)
        yield from paths(held, (*at, key))


def variants(answer: dict[str, Any], odds: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Return *answer* with the value at one path replaced, or removed for an ellipsis."""
    for *above, last in paths(answer):
        for odd in odds:
            copy = deepcopy(answer)
            holder: Any = copy
            for key in above:
                holder = holder[key]
            if odd is ...:
                del holder[last]
            else:
                holder[last] = odd
            yield copy


@pytest.mark.parametrize("kind", KINDS)
async def test_a_whole_answer(kind: str) -> None:
    replies = 0
    async with serving() as server, model_of(kind, server) as model:
        for answer in variants(ANSWERED[kind], (None, "x", 7, -7, 1.5, 1e30, True, [], {}, ...)):
            server.play(json.dumps(answer), headers={"content-type": "application/json"})
            with suppress(ProviderError):
                events = await events_of(model)
                assert_texts(events)
                assert_credible(reply_of(events))
                replies += 1
    assert replies > 50


def streams(kind: str) -> Iterator[str]:
    """Return the full stream of a format with one event changed at one path."""
    lines = FULL[kind].splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith("data: {"):
            for event in variants(json.loads(line[6:]), (None, 7, {}, ...)):
                yield "".join([*lines[:number], f"data: {json.dumps(event)}\n", *lines[number + 1 :]])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_streamed_answer(kind: str) -> None:
    replies = partials = 0
    async with serving() as server, model_of(kind, server) as model:
        for body in streams(kind):
            server.play(body)
            try:
                events = await events_of(model)
                assert_texts(events)
                assert_credible(reply_of(events))
                replies += 1
            except ProviderError as error:
                partials += error.partial is not None
    assert replies > 100
    assert partials > 10
