"""Receipts: what a provider reports besides tokens reaches the ledger, whole and without texts."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Chat, Resources, RunError, SqliteStore, ToolOrchestrator, UsageRecord
from concertino.errors import ProviderError
from concertino.orchestrator.model_call.retry import Retry
from concertino.providers.openai import OpenAICompatibleModel
from concertino.usage import Receipt, Tokens

from .test_usage import read
from .wire_kit import Server, events_of, model_of, reply_of, serving, sse

CLAUDE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "service_tier": "batch",
    "server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 0},
}
CHAT = {
    "prompt_tokens": 20,
    "completion_tokens": 8,
    "total_tokens": 28,
    "prompt_tokens_details": {"audio_tokens": 12, "cached_tokens": 0},
    "completion_tokens_details": {"audio_tokens": 3, "reasoning_tokens": 0},
}
GEMINI = {
    "promptTokenCount": 9,
    "candidatesTokenCount": 4,
    "totalTokenCount": 13,
    "serviceTier": "flex",
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}, {"modality": "AUDIO", "tokenCount": 5}],
    "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 4}],
}
RESPONSE = {"input_tokens": 30, "output_tokens": 6, "total_tokens": 36}
SEARCH = {"type": "web_search_call", "id": "ws", "status": "completed"}
MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}


def claude(**usage: Any) -> str:
    start = {"type": "message", "id": "msg_1", "model": "claude-haiku-4-5", "content": [], "usage": usage}
    return sse(
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )


def completion(usage: dict[str, Any], **more: Any) -> str:
    choice = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}
    chunk = {"id": "chatcmpl-1", "model": "gpt-4o", "choices": [choice], **more}
    return sse(chunk, {**chunk, "choices": [], "usage": usage}, "[DONE]")


def gemini(usage: dict[str, Any], **candidate: Any) -> str:
    answer = {"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP", **candidate}
    return sse({"responseId": "g_1", "modelVersion": "gemini-3-flash", "candidates": [answer], "usageMetadata": usage})


def response(*items: dict[str, Any], **fields: Any) -> str:
    whole = {"id": "resp_1", "model": "gpt-5", "status": "completed", "output": [*items, MESSAGE], "usage": RESPONSE}
    return sse({"type": "response.completed", "response": {**whole, **fields}})


GROUNDED = {"groundingMetadata": {"webSearchQueries": ["a", "b", ""]}}
OPENED = {**SEARCH, "action": {"type": "open_page", "url": "https://example.org"}}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("anthropic", claude(**CLAUDE), {
        "response_id": "msg_1", "service_tier": "batch", "server_tools": {"web_search": 3}, "usage": CLAUDE}),
    ("anthropic", claude(input_tokens=1, output_tokens=1, speed="fast"), {
        "response_id": "msg_1", "service_tier": "fast",
        "usage": {"input_tokens": 1, "output_tokens": 1, "speed": "fast"}}),
    ("chat", completion(CHAT, service_tier="priority"), {
        "response_id": "chatcmpl-1", "service_tier": "priority",
        "modalities": {"input_audio": 12, "output_audio": 3}, "usage": CHAT}),
    ("google", gemini(GEMINI, **GROUNDED), {
        "response_id": "g_1", "service_tier": "flex", "server_tools": {"web_search": 2},
        "modalities": {"input_text": 4, "input_audio": 5, "output_image": 4}, "usage": GEMINI}),
    ("responses", response(SEARCH, SEARCH, OPENED, service_tier="flex"), {
        "response_id": "resp_1", "service_tier": "flex", "server_tools": {"web_search": 2}, "usage": RESPONSE}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "body", "expected"), CASES)
def test_each_format_fills_its_receipt(kind: str, body: str, expected: dict[str, Any]) -> None:
    receipt = read(kind, body.encode()).receipt
    assert receipt is not None
    assert json.loads(receipt.usage) == expected.pop("usage")
    assert receipt == Receipt(**expected, usage=receipt.usage)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"cost": 0.0125}, "0.0125"),
        ({"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}}, "0.021"),
        ({"cost": 0.001, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.02}}, "0.001"),
        ({"cost": {"total_cost": 0.006, "input_tokens_cost": 0.001}}, "0.006"),
        ({"cost_in_usd_ticks": 37_756_000}, "0.0037756"),
        ({"cost": -4}, None),
        ({"cost": "a lot"}, None),
        ({"cost": True}, None),
        ({"cost": "NaN"}, None),
    ],
)
def test_a_provider_states_its_own_cost(usage: dict[str, Any], cost: str | None) -> None:
    receipt = read("chat", completion({**CHAT, **usage}).encode()).receipt
    assert receipt is not None
    assert receipt.cost == (None if cost is None else Decimal(cost))


def test_a_receipt_holds_no_texts_and_is_bounded() -> None:
    secret = "my mail is ann@example.org and " * 5
    for usage in ({**CHAT, "note": secret, "inner": [{"n": 1, secret: 2, "t": secret}]}, {**CHAT, "x": [1] * 20_000}):
        receipt = read("chat", completion(usage).encode()).receipt
        assert receipt is not None
        assert "ann@" not in receipt.usage
        assert len(receipt.usage) <= 8_192


async def ledger(server: Server, kind: str, path: Path) -> UsageRecord:
    """Return the usage record of a run, read from a file by a new store."""
    async with model_of(kind, server) as model, await SqliteStore.open(path) as store:
        resources = Resources(store=store, retry=Retry(attempts=1))
        orchestrator = ToolOrchestrator(Chat("Hi", model=model), AgentConfig(), resources=resources)
        try:
            result = await orchestrator.run()
        except RunError as error:
            result = error.result
    async with await SqliteStore.open(path) as store:
        (record,) = await store.usage(OPERATOR, result.run_id)
    assert (record,) == result.usage
    return record


async def test_the_ledger_keeps_the_receipt(tmp_path: Path) -> None:
    async with serving() as server:
        server.play(response(SEARCH, service_tier="flex"))
        record = await ledger(server, "responses", tmp_path / "runs.db")
    assert record.receipt is not None
    assert (record.receipt.response_id, record.receipt.server_tools) == ("resp_1", {"web_search": 1})
    # gpt-5, flex: 0.625 input and 5 output for a million; a search for a cent: 30 * 0.625 + 6 * 5
    assert record.cost == Decimal("0.00004875") + Decimal("0.01")


async def test_an_answer_that_breaks_off_keeps_its_receipt(tmp_path: Path) -> None:
    start = {"type": "message", "id": "msg_9", "model": "m", "content": [], "usage": {"input_tokens": 10}}
    async with serving() as server:
        server.play(sse({"type": "message_start", "message": start}), broken=True)
        record = await ledger(server, "anthropic", tmp_path / "runs.db")
    assert record.receipt is not None
    assert record.receipt.response_id == "msg_9"
    assert (record.source, record.tokens.prompt) == ("estimated", 10)


async def test_the_providers_own_bill_takes_precedence() -> None:
    async with serving() as server:
        model = OpenAICompatibleModel("openai/gpt-4o", f"{server.url}/v1", vendor="openrouter", api_key="k")
        server.play(completion({**CHAT, "cost": 0.5}))
        result = await ToolOrchestrator(Chat("Hi", model=model), AgentConfig()).run()
        await model.close()
    (record,) = result.usage
    assert (record.cost, record.price_version) == (Decimal("0.5"), "billed by openrouter")


AMBIGUOUS: list[tuple[str, dict[str, Any]]] = [
    ("", {"refused": True}),
    ("<html>Bad gateway</html>", {"status": 502}),
    ("", {"status": 504}),
    ("{}", {"status": 500}),
    (sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hal"}}]}), {"broken": True}),
    (sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hal"}}]}), {}),
]


@pytest.mark.parametrize(("body", "how"), AMBIGUOUS)
async def test_an_ambiguous_failure_is_unknown_never_a_measured_zero(
    body: str, how: dict[str, Any], tmp_path: Path
) -> None:
    async with serving() as server:
        server.play(body, **how)
        record = await ledger(server, "chat", tmp_path / "runs.db")
        assert (record.source, record.cost) == ("unknown", None)
        assert record.tokens.prompt > 0, "a hint"
        assert record.how.startswith("not reported after ")


@pytest.mark.parametrize("status", [400, 401, 429, 503, 529])
async def test_a_refusal_is_not_charged(status: int, tmp_path: Path) -> None:
    async with serving() as server:
        server.play("{}", status=status)
        record = await ledger(server, "anthropic", tmp_path / "runs.db")
    assert (record.source, record.tokens) == ("measured", Tokens())
    assert "not billed" in record.how


async def test_what_never_left_the_process_is_not_charged(tmp_path: Path) -> None:
    async with serving() as server:
        pass  # nobody listens there any more
    record = await ledger(server, "chat", tmp_path / "runs.db")
    assert (record.source, record.tokens) == ("measured", Tokens())
    assert "not billed" in record.how


@pytest.mark.parametrize("numbers", [(0, 1, 3), (0, 2, 1)])
async def test_lost_events_of_a_response_break_it_off(numbers: tuple[int, ...]) -> None:
    async with serving() as server, model_of("responses", server) as model:
        server.play(numbered(*numbers))
        with pytest.raises(ProviderError, match="lost events"):
            await events_of(model)


@pytest.mark.parametrize("numbers", [(0, 1, 2), (0, 0, 0), (5, 6, 7), (3, 2, 1)])
async def test_numbers_of_other_kinds_break_nothing(numbers: tuple[int, ...]) -> None:
    async with serving() as server, model_of("responses", server) as model:
        server.play(numbered(*numbers))
        assert reply_of(await events_of(model)).message.text == "ok"


async def test_an_event_that_comes_twice_counts_once() -> None:
    async with serving() as server, model_of("responses", server) as model:
        first, delta, last = numbered(0, 1, 2).split("\n\n")[:3]
        server.play("\n\n".join([first, delta, delta, last, ""]))
        texts = [event.text for event in await events_of(model) if type(event).__name__ == "TextChunk"]
    assert texts == ["ok"]


def numbered(*numbers: int) -> str:
    """Return a response whose events have these numbers."""
    whole = {"id": "r", "model": "m", "status": "completed", "output": [MESSAGE], "usage": RESPONSE}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "ok"},
        {"type": "response.completed", "response": whole},
    ]
    return sse(*({**event, "sequence_number": number} for event, number in zip(events, numbers, strict=True)))


def arguments(value: bytes) -> bytes:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "X"}'}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    return sse(chunk, "[DONE]").encode().replace(b"X", value)


async def test_invalid_utf8_inside_arguments_is_an_error() -> None:
    async with serving() as server, model_of("chat", server) as model:
        for body in (arguments(b"Z\xfcrich"), arguments(b"Z\xfcrich").split(b"data: ")[1].strip()):
            server.play(body)
            with pytest.raises(ProviderError, match="invalid UTF-8"):
                await events_of(model)
        server.play(arguments("Zürich".encode()))
        assert reply_of(await events_of(model)).message.tool_calls[0].arguments == '{"city": "Zürich"}'


async def test_invalid_utf8_inside_a_text_shows() -> None:
    async with serving() as server, model_of("chat", server) as model:
        choice = {"index": 0, "delta": {"content": "Z?rich"}, "finish_reason": "stop"}
        server.play(sse({"choices": [choice]}, "[DONE]").encode().replace(b"?", b"\xfc"))
        assert reply_of(await events_of(model)).message.text == "Z\ufffdrich"
