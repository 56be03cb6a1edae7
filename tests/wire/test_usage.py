"""Usage has one meaning for all providers; its identities are true for every sampled and recorded answer.

The table in docs/providers.md describes them.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Resources, RunError, ToolOrchestrator
from concertino.errors import BrokenStreamError, ContentFilteredError, OverloadedError, ProviderError
from concertino.orchestrator.model_call.retry import Retry
from concertino.providers import Reply
from concertino.providers.http.body import WHOLE, BodyDecoder
from concertino.providers.http.transport import StreamingModel
from concertino.usage import Tokens, UsageRecord

from . import test_wire_chat as chat
from .conftest import Source
from .exchanges import Exchange, exchanges
from .wire_kit import MODELS, model_of, serving, sse

LEAST = {"anthropic": 300, "responses": 300, "chat": 500, "google": 250}
"""How many answers with usage are recorded, at least."""


def read(kind: str, body: bytes) -> Reply:
    """Return the reply in *body*."""
    model = MODELS[kind]("http://127.0.0.1:1")
    assert isinstance(model, StreamingModel)
    reader, decoder = model._reader(), BodyDecoder("here")
    for event in [*decoder.feed(body), *decoder.close()]:
        for _ in reader.whole(json.loads(event.data)) if event.name == WHOLE else reader.read(event):
            pass
    return reader.reply()


def reported(exchange: Exchange) -> dict[str, Any]:
    """Return the usage report of an answer; for a stream, the final one."""
    answer = [] if exchange.streamed else json.loads(exchange.body)
    chunks = exchange.chunks if exchange.streamed else answer if isinstance(answer, list) else [answer]
    found: dict[str, Any] = {}
    for chunk in chunks:
        if chunk.get("type") == "message_start":
            found = {}  # a proxy began anew
        inner = chunk.get("message") or chunk.get("response") or chunk.get("x_groq") or {}
        usage = chunk.get("usage") or chunk.get("usageMetadata") or inner.get("usage") or {}
        found.update((name, value) for name, value in usage.items() if value is not None)
    return found


def anthropic_identities(usage: dict[str, Any], tokens: Tokens) -> bool:
    read_: int = usage.get("cache_read_input_tokens", 0)
    written: int = usage.get("cache_creation_input_tokens", 0)
    shares = usage.get("cache_creation") or {"ephemeral_5m_input_tokens": written}
    fresh: int = usage["input_tokens"]
    turns = usage.get("iterations") or []
    if own := [turn for turn in turns if turn["type"] == "message"]:  # the top level is the sum of the model's turns
        assert sum(turn["input_tokens"] for turn in own) == fresh
        assert sum(turn["output_tokens"] for turn in own) == usage["output_tokens"]
    side_work = [turn for turn in turns if turn["type"] != "message"]
    return (
        tokens.prompt == fresh + read_ + written + sum(turn["input_tokens"] for turn in side_work)
        and (tokens.cached, tokens.cache_write) == (read_, written)
        and sum(shares.values()) == written
        and tokens.cache_write_1h == shares.get("ephemeral_1h_input_tokens", 0)
        and tokens.completion == usage["output_tokens"] + sum(turn["output_tokens"] for turn in side_work)
    )


def openai_identities(usage: dict[str, Any], tokens: Tokens) -> bool:
    prompt: int = usage["input_tokens"] if "input_tokens" in usage else usage["prompt_tokens"]
    total: int = usage["total_tokens"]
    return (tokens.total, tokens.prompt) == (total, prompt)


def google_identities(usage: dict[str, Any], tokens: Tokens) -> bool:
    if "promptTokenCount" not in usage:  # an odd old recording, which has no total either
        return "totalTokenCount" not in usage
    apart = ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    total: int = usage["totalTokenCount"]
    counted = sum(usage.get(name, 0) for name in apart)
    inside = (usage.get("cachedContentTokenCount", 0), usage.get("thoughtsTokenCount", 0))
    return tokens.total == total == counted and (tokens.cached, tokens.reasoning) == inside


IDENTITIES = {
    "anthropic": anthropic_identities,
    "responses": openai_identities,
    "chat": openai_identities,
    "google": google_identities,
}


@pytest.mark.parametrize("kind", MODELS)
def test_the_identities_are_true_for_every_exchange(kind: str, source: Source) -> None:
    wrong: list[str] = []
    count = 0
    for exchange in exchanges(kind, source.root):
        if exchange.status != 200:
            continue
        try:
            tokens = read(kind, exchange.body).tokens
        except ProviderError:  # which of them may fail, test_recordings knows
            continue
        usage = reported(exchange)
        assert (tokens is None) == (not usage), exchange.name
        if tokens is None:
            continue
        count += 1
        parts = tokens.cached + tokens.cache_write <= tokens.prompt and tokens.reasoning <= tokens.completion
        if not (parts and tokens.cache_write_1h <= tokens.cache_write and IDENTITIES[kind](usage, tokens)):
            wrong.append(f"{exchange.name}: {tokens} of {usage}")
    assert not wrong, "\n".join(wrong)
    assert count >= source.at_least(LEAST[kind])


# Written by us


def anthropic_answer(**usage: Any) -> str:
    start = {"type": "message", "model": "claude-haiku-4-5", "content": [], "usage": {**usage, "output_tokens": 1}}
    return sse(
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {**usage, "output_tokens": 50}},
        {"type": "message_stop"},
    )


WRITTEN = {
    "input_tokens": 100,
    "cache_read_input_tokens": 700,
    "cache_creation_input_tokens": 200,
    "cache_creation": {"ephemeral_5m_input_tokens": 50, "ephemeral_1h_input_tokens": 150},
    "server_tool_use": {"web_search_requests": 2},
}


async def test_one_hour_cache_writes_are_counted_separately() -> None:
    async with serving() as server, model_of("anthropic", server) as model:
        model.name = "claude-haiku-4-5"
        server.play(anthropic_answer(**WRITTEN))
        result = await ToolOrchestrator(Chat(model=model, message="Hi"), AgentConfig()).run()
    (record,) = result.usage
    assert record.tokens == Tokens(1000, 50, cached=700, cache_write=200, cache_write_1h=150)
    tokens, searches = Decimal("0.0007825"), Decimal("0.02")  # 100 * 1 + 700 * 0.1 + 50 * 1.25 + 150 * 2 + 50 * 5
    assert record.cost == tokens + searches, "tokens of a million, and two searches of a thousand for ten dollars"


ITERATIONS = [
    {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
    {"type": "message", "input_tokens": 20_000, "output_tokens": 600},
    {"type": "advisor_message", "input_tokens": 2_000, "cache_read_input_tokens": 900, "output_tokens": 99},
    {"type": "fallback_message", "input_tokens": 3_000, "output_tokens": 400},
    {"type": "compaction", "input_tokens": 100, "cache_creation_input_tokens": 50,
     "cache_creation": {"ephemeral_1h_input_tokens": 50}, "output_tokens": 1},
]  # fmt: skip


@pytest.mark.parametrize("streamed", [True, False])
def test_side_work_of_claude_is_counted_once(streamed: bool) -> None:
    usage = {"input_tokens": 23_000, "output_tokens": 1_000, "iterations": ITERATIONS}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    body = claude(end, {"type": "message_stop"}, cached=0)
    if not streamed:
        content = [{"type": "compaction", "content": "so far"}, {"type": "text", "text": "Hi"}]
        body = json.dumps({"type": "message", "content": content, "stop_reason": "end_turn", "usage": usage})
    expected = Tokens(23_000 + 180_000 + 2_900 + 150, 1_000 + 3_500 + 99 + 1, 900, 50, cache_write_1h=50)
    assert read("anthropic", body.encode()).tokens == expected


def test_an_unreported_share_is_zero() -> None:
    for cache in (None, {}, {"ephemeral_5m_input_tokens": 200}):
        tokens = read("anthropic", anthropic_answer(**{**WRITTEN, "cache_creation": cache}).encode()).tokens
        assert tokens is not None
        assert (tokens.cache_write, tokens.cache_write_1h) == (200, 0)


def test_counts_of_a_stream_are_cumulative() -> None:
    parts = {"candidates": [{"content": {"parts": [{"text": "a"}]}}], "usageMetadata": {"promptTokenCount": 7}}
    end = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"candidatesTokenCount": 5}}
    early = {"candidates": [], "usageMetadata": {"candidatesTokenCount": 2, "thoughtsTokenCount": 3}}
    assert read("google", sse(parts, early, end).encode()).tokens == Tokens(7, 8, reasoning=3)
    first = {**chat.chunk(content="a"), "usage": {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}}
    last = {**chat.chunk("stop"), "usage": {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}}
    assert read("chat", sse(first, last).encode()).tokens == Tokens(7, 4)


def test_tool_input_of_gemini_is_prompt() -> None:
    usage = {"promptTokenCount": 7, "toolUsePromptTokenCount": 90, "candidatesTokenCount": 5, "totalTokenCount": 102}
    end = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}], "usageMetadata": usage}
    assert read("google", sse(end).encode()).tokens == Tokens(97, 5)


def test_audio_and_images_are_counted() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 60,
        "total_tokens": 160,
        "prompt_tokens_details": {"audio_tokens": 80, "cached_tokens": 10},
        "completion_tokens_details": {"audio_tokens": 40, "reasoning_tokens": 5},
    }
    body = sse({**chat.chunk("stop", content="a"), "usage": usage}).encode()
    assert read("chat", body).tokens == Tokens(100, 60, cached=10, reasoning=5)


def test_reasoning_outside_the_output_count_is_derived_from_the_total() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 30}}
    for total, completion, more in ((47, 40, details), (77, 70, details), (None, 40, details)):
        usage = {"prompt_tokens": 7, "completion_tokens": 40, "total_tokens": total, **more}
        tokens = read("chat", sse({**chat.chunk("stop", content="a"), "usage": usage}).encode()).tokens
        assert tokens == Tokens(7, completion, reasoning=30)


def test_usage_in_the_last_choice() -> None:
    last = chat.chunk("stop", content="a")
    last["choices"][0]["usage"] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert read("chat", sse(last).encode()).tokens == Tokens(10, 5)


# Answers without a reply: the reported usage is recorded


def claude(*events: dict[str, Any], written: int = 1, cached: int = 90_000) -> str:
    usage = {"input_tokens": 5_000, "cache_read_input_tokens": cached, "output_tokens": written}
    start = {"type": "message", "model": "claude-haiku-4-5", "content": [], "usage": usage}
    return sse({"type": "message_start", "message": start}, *events)


def gemini(**chunk: Any) -> dict[str, Any]:
    usage = {"promptTokenCount": 95_000, "cachedContentTokenCount": 90_000, "thoughtsTokenCount": 700}
    return {"usageMetadata": usage, "modelVersion": "gemini-3-flash", **chunk}


def filtered_response() -> dict[str, Any]:
    usage = {"input_tokens": 95_000, "input_tokens_details": {"cached_tokens": 90_000}, "output_tokens": 12}
    details = {"incomplete_details": {"reason": "content_filter"}, "status": "incomplete", "output": []}
    return {"type": "response.incomplete", "response": {"model": "gpt-5", "usage": usage, **details}}


CHAT_USAGE = {"prompt_tokens": 95_000, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 90_000}}
REFUSAL = {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 12}}
THOUGHT = Tokens(95_000, 700, cached=90_000, reasoning=700)
UNUSABLE: list[tuple[str, str, type[ProviderError], Tokens]] = [
    ("anthropic", claude(REFUSAL, {"type": "message_stop"}), ContentFilteredError, Tokens(95_000, 12, cached=90_000)),
    ("google", sse(gemini(candidates=[{"finishReason": "SAFETY"}])), ContentFilteredError, THOUGHT),
    ("google", sse(gemini(promptFeedback={"blockReason": "OTHER"})), ContentFilteredError, THOUGHT),
    ("google", sse(gemini(candidates=[{"finishReason": "MALFORMED_FUNCTION_CALL"}])), BrokenStreamError, THOUGHT),
    ("responses", sse(filtered_response()), ContentFilteredError, Tokens(95_000, 12, cached=90_000)),
    ("chat", sse(chat.chunk("content_filter"), {**chat.chunk(), "choices": [], "usage": CHAT_USAGE}),
     ContentFilteredError, Tokens(95_000, 12, cached=90_000)),
]  # fmt: skip


async def failing(kind: str, body: str, **how: Any) -> tuple[BaseException | None, UsageRecord]:
    """Return the result of a run whose only answer is *body*, and its usage."""
    async with serving() as server, model_of(kind, server) as model:
        server.play(body, **how)
        chat_ = Chat(model=model, message="Hi")
        with pytest.raises(RunError) as caught:
            await ToolOrchestrator(chat_, AgentConfig(), resources=Resources(retry=Retry(attempts=1))).run()
    (record,) = caught.value.result.usage
    return caught.value.__cause__, record


@pytest.mark.parametrize(("kind", "body", "error", "tokens"), UNUSABLE)
async def test_a_useless_answer_costs_the_reported_usage(
    kind: str, body: str, error: type[ProviderError], tokens: Tokens
) -> None:
    raised, record = await failing(kind, body)
    assert isinstance(raised, error)
    assert (raised.tokens, raised.final) == (tokens, True)
    assert (record.tokens, record.source, record.how) == (tokens, "measured", "")


HELLO: list[dict[str, Any]] = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello, all of you! " * 9}},
]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


@pytest.mark.parametrize(
    ("body", "how", "error", "least"),
    [
        (claude(*HELLO), {"broken": True}, BrokenStreamError, 9),
        (claude(*HELLO), {}, BrokenStreamError, 9),
        (claude(*HELLO, OVERLOADED), {}, OverloadedError, 9),
        (claude(*HELLO, written=5_000), {"broken": True}, BrokenStreamError, 5_000),
    ],
)
async def test_the_input_of_a_broken_answer_is_known(
    body: str, how: dict[str, Any], error: type[ProviderError], least: int
) -> None:
    raised, record = await failing("anthropic", body, **how)
    assert isinstance(raised, error)
    assert (raised.tokens is not None, raised.final) == (True, False)
    assert (record.tokens.prompt, record.tokens.cached) == (95_000, 90_000)
    assert least <= record.tokens.completion <= max(least, 100), "what came, and no less than was reported"
    assert record.source == "estimated"
    assert record.how.startswith("output counted with ")


async def test_hidden_thoughts_count_in_a_broken_answer_of_gemini() -> None:
    body = sse(gemini(candidates=[{"content": {"parts": [{"text": "Hello"}]}}]))
    _, record = await failing("google", body, broken=True)
    assert (record.tokens, record.source) == (THOUGHT, "estimated")


async def test_a_failed_response_reports_its_usage() -> None:
    usage = {"input_tokens": 95_000, "input_tokens_details": {"cached_tokens": 90_000}, "output_tokens": 12}
    failed = {"model": "gpt-5", "usage": usage, "error": {"code": "server_error", "message": "sorry"}}
    _, record = await failing("responses", sse({"type": "response.failed", "response": failed}))
    assert record.tokens == Tokens(95_000, 12, cached=90_000)


async def test_malformed_counts_are_unknown() -> None:
    usage = {"input_tokens": 7, "cache_read_input_tokens": "many"}
    start = {"type": "message_start", "message": {"model": "m", "usage": usage}}
    raised, record = await failing("anthropic", sse(start, *HELLO), broken=True)
    assert isinstance(raised, ProviderError)
    assert raised.tokens is None
    assert (record.source, record.cost) == ("unknown", None)
