"""Every sampled and recorded stream reads as a simple, independent reading of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from concertino.errors import ProviderError
from concertino.usage import Tokens

from .conftest import Source
from .recordings import FOLDERS, TROUBLE, recordings
from .wire_kit import events_of, model_of, reply_of, serving


def payloads(body: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a stream."""
    lines = (line.removeprefix("data:").strip() for line in body.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line and line != "[DONE]"]


def simple_anthropic(chunks: list[dict[str, Any]]) -> tuple[str, int, int]:
    begin = max(position for position, chunk in enumerate(chunks) if chunk["type"] == "message_start")
    chunks = chunks[begin:]  # a proxy may break an answer off and begin another in its position
    starts = [c["content_block"].get("text") or "" for c in chunks if c["type"] == "content_block_start"]
    deltas = [c["delta"] for c in chunks if c["type"] == "content_block_delta"]
    usage: dict[str, Any] = {}
    for chunk in chunks:
        found = chunk.get("usage") or chunk.get("message", {}).get("usage") or {}
        usage |= {name: count for name, count in found.items() if isinstance(count, int)}
        for turn in found.get("iterations") or []:
            if turn["type"] != "message":  # side work
                usage = {name: count + turn.get(name, 0) for name, count in usage.items()}
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    text = "".join(starts) + "".join(d["text"] for d in deltas if d["type"] == "text_delta")
    return text, sum(usage.get(name, 0) for name in names), usage.get("output_tokens", 0)


def simple_responses(chunks: list[dict[str, Any]]) -> tuple[str, int, int]:
    kinds = ("response.output_text.delta", "response.refusal.delta")
    text = "".join(c["delta"] for c in chunks if c["type"] in kinds)
    usage = chunks[-1]["response"].get("usage") or {}
    return text, usage.get("input_tokens", 0), usage.get("output_tokens", 0)


def simple_chat(chunks: list[dict[str, Any]]) -> tuple[str, int, int]:
    text = ""
    usage: dict[str, Any] = {}
    for chunk in chunks:
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage") or usage
        for choice in chunk.get("choices") or []:
            content = choice["delta"].get("content") or choice["delta"].get("refusal") or ""
            text += content if isinstance(content, str) else "".join(p.get("text", "") for p in content)
    written = max(usage.get("completion_tokens", 0), usage.get("total_tokens", 0) - usage.get("prompt_tokens", 0))
    return text, usage.get("prompt_tokens", 0), written


def simple_google(chunks: list[dict[str, Any]]) -> tuple[str, int, int]:
    parts = [
        part
        for chunk in chunks
        for candidate in (chunk.get("candidates") or [])[:1]
        for part in ((candidate.get("content") or {}).get("parts") or [])
    ]
    text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
    usage: dict[str, Any] = {}
    for chunk in chunks:
        usage |= chunk.get("usageMetadata") or {}
    prompt = usage.get("promptTokenCount", 0) + usage.get("toolUsePromptTokenCount", 0)
    return text, prompt, usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)


SIMPLE = {
    "anthropic": simple_anthropic,
    "responses": simple_responses,
    "chat": simple_chat,
    "google": simple_google,
}


@pytest.mark.parametrize("kind", FOLDERS)
async def test_streams_read_as_in_a_simple_reading(kind: str, source: Source) -> None:
    wrong: list[str] = []
    count = 0
    chance = random.Random(kind)
    async with serving() as server, model_of(kind, server) as model:
        for name, features, body in recordings(kind, source.root):
            count += 1
            server.play(body, cuts=[chance.randrange(len(body) + 1) for _ in range(20)])
            try:
                events = await events_of(model)
            except ProviderError as error:
                if not TROUBLE & features:
                    wrong.append(f"{name}: {error!r}")
                continue
            reply = reply_of(events)
            tokens = reply.tokens or Tokens()
            found = reply.message.text, tokens.prompt, tokens.completion
            expected = SIMPLE[kind](payloads(body))
            if found != expected:
                wrong.append(f"{name}: {found} is not {expected}")
            if not (tokens.cached + tokens.cache_write <= tokens.prompt and tokens.reasoning <= tokens.completion):
                wrong.append(f"{name}: {tokens}")
    assert not wrong, "\n".join(wrong)
    assert count >= source.at_least(20)
