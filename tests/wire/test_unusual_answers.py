"""Answers with several choices, unusual ends and statuses, and usage that needs care."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concertino import AgentConfig, Budget, Chat, MemoryStore, Resources, ToolOrchestrator
from concertino.errors import BrokenStreamError, ProviderError, UnsupportedError
from concertino.providers import Dropped, TextChunk, ToolCallChunk, ToolCallReady
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.openai import OpenAICompatibleModel
from concertino.usage import Tokens

from . import test_wire_chat as chat
from .wire_kit import MODELS, events_of, model_of, played, reply_of, request, serving, sse


def choice(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
    """Return a chunk with one of several choices."""
    return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}


async def test_only_the_first_choice_of_a_chat_completion_is_read() -> None:
    chunks = [choice(0, "Yes"), choice(1, "No"), choice(0, ".", "stop"), choice(1, " way.", "length")]
    events = await played("chat", sse(*chunks, "[DONE]"))
    reply = reply_of(events)
    assert (reply.message.text, reply.message.stop_reason) == ("Yes.", "end")
    assert [event.text for event in events if isinstance(event, TextChunk)] == ["Yes", "."]


async def test_only_the_first_candidate_of_gemini_is_read() -> None:
    def candidate(index: int, text: str) -> dict[str, Any]:
        return {"candidates": [{"index": index, "content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]}

    reply = reply_of(await played("google", sse(candidate(0, "Yes"), candidate(1, "No"), candidate(0, "."))))
    assert reply.message.text == "Yes."


async def test_audio_input_outside_the_prompt_count_is_input() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 201,
        "total_tokens": 585,
        "prompt_tokens_details": {"audio_tokens": 375},
    }
    reply = reply_of(await played("chat", sse(choice(0, "ok", "stop"), {"choices": [], "usage": usage}, "[DONE]")))
    assert reply.tokens == Tokens(prompt=384, completion=201)


async def test_reasoning_that_gemini_counts_in_the_total_alone_is_output() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 34}
    last = {"model": "google/gemini-2.5-flash", "choices": [], "usage": usage}
    reply = reply_of(await played("chat", sse({**last, **choice(0, "ok", "stop")}, last, "[DONE]")))
    assert (reply.tokens, reply.source) == (Tokens(prompt=9, completion=25, reasoning=20), "measured")


REASONED = {"reasoning_tokens": 4}


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 34},
        {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 12},
        {
            "prompt_tokens": 9,
            "completion_tokens": 5,
            "total_tokens": 34,
            "completion_tokens_details": {"reasoning_tokens": 4},
        },
    ],
)
async def test_counts_that_do_not_add_up_are_estimated(usage: dict[str, Any]) -> None:
    reply = reply_of(await played("chat", sse(choice(0, "ok", "stop"), {"choices": [], "usage": usage}, "[DONE]")))
    assert reply.tokens is not None
    assert (reply.tokens.prompt, reply.tokens.completion, reply.source) == (9, 5, "estimated")
    assert f"{usage['total_tokens']} in total" in reply.how


async def test_the_vendor_decides_what_its_total_counts() -> None:
    """OpenAI counts everything inside, so its details explain no rest."""
    details = {"completion_tokens_details": {"reasoning_tokens": 20}}
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 34, **details}
    found = {}
    for vendor in ("xai", "azure"):
        async with serving() as server:
            model = OpenAICompatibleModel("m", f"{server.url}/v1", vendor=vendor, api_key="k")
            server.play(sse({**choice(0, "ok", "stop"), "usage": usage}, "[DONE]"))
            reply = reply_of(await events_of(model))
            await model.close()
        found[vendor] = (reply.source, reply.tokens and reply.tokens.completion)
    assert found == {"xai": ("measured", 25), "azure": ("estimated", 5)}


BAD_COUNTS: list[tuple[str, str]] = [
    ("chat", sse({**choice(0, "ok", "stop"), "usage": {"prompt_tokens": -5000, "completion_tokens": 1}}, "[DONE]")),
    ("chat", sse({**choice(0, "ok", "stop"), "usage": {"prompt_tokens": "many", "completion_tokens": 1}}, "[DONE]")),
    ("chat", sse({**choice(0, "ok", "stop"), "usage": {"prompt_tokens": True, "completion_tokens": 1}}, "[DONE]")),
    (
        "google",
        sse(
            {
                "candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": -8},
            }
        ),
    ),
]


@pytest.mark.parametrize(("kind", "body"), BAD_COUNTS)
async def test_counts_that_cannot_be_are_unknown(kind: str, body: str) -> None:
    reply = reply_of(await played(kind, body))
    assert (reply.message.text, reply.tokens, reply.source) == ("ok", None, "unknown")
    assert reply.how


@pytest.mark.parametrize(("kind", "body"), BAD_COUNTS)
@pytest.mark.parametrize("budget", [None, Budget(tokens=100_000)])
async def test_counts_that_cannot_be_never_lower_a_bill(kind: str, body: str, budget: Budget | None) -> None:
    async with serving() as server, model_of(kind, server) as model:
        server.play(body)
        result = await ToolOrchestrator(
            Chat("Hi", model=model, budget=budget), AgentConfig(), resources=Resources(store=MemoryStore())
        ).run()
    (record,) = result.usage
    assert record.source == "estimated"
    assert record.tokens.prompt > 0
    assert record.tokens.completion > 0


async def test_done_without_a_finish_reason_ends_a_complete_answer() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
    reply = reply_of(await played("chat", sse(choice(0, "All of it."), {"choices": [], "usage": usage}, "[DONE]")))
    assert (reply.message.text, reply.message.stop_reason) == ("All of it.", "end")
    assert reply.tokens == Tokens(prompt=5, completion=4)


async def test_done_without_a_finish_reason_announces_complete_calls() -> None:
    call = chat.call(0, '{"city": "Bonn"}', "c1", "weather")
    events = await played("chat", sse(chat.chunk(tool_calls=[call]), "[DONE]"))
    assert reply_of(events).message.stop_reason == "tool_calls"
    assert [event.call.name for event in events if isinstance(event, ToolCallReady)] == ["weather"]


async def test_done_does_not_end_a_call_that_was_cut_off() -> None:
    call = chat.call(0, '{"city": "Bo', "c1", "weather")
    with pytest.raises(BrokenStreamError):
        await played("chat", sse(chat.chunk(tool_calls=[call]), "[DONE]"))


MESSAGE = {
    "type": "message",
    "id": "m",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "all", "annotations": []}],
}


@pytest.mark.parametrize("status", ["complete", None, "completed", "done"])
async def test_an_unknown_status_ends_a_whole_response(status: str | None) -> None:
    body = {"id": "r", "model": "m", "status": status, "output": [MESSAGE]}
    reply = reply_of(await played("responses", json.dumps(body), headers={"content-type": "application/json"}))
    assert (reply.message.text, reply.message.stop_reason) == ("all", "end")


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", "in_progress"])
async def test_an_unfinished_response_is_no_answer(status: str) -> None:
    body = {"id": "r", "model": "m", "status": status, "output": [MESSAGE]}
    with pytest.raises(ProviderError):
        await played("responses", json.dumps(body), headers={"content-type": "application/json"})


async def test_background_mode_is_refused_before_sending() -> None:
    async with serving() as server, model_of("responses", server) as model:
        with pytest.raises(UnsupportedError, match="background"):
            await events_of(model, request(extra={"background": True}))
        assert server.asked == []


async def test_an_unstreamed_call_of_claude_has_its_arguments_in_a_chunk() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Bonn"}}
    body = {"type": "message", "model": "m", "content": [call], "stop_reason": "tool_use", "usage": {"input_tokens": 1}}
    async with serving() as server:
        model = AnthropicModel("claude-sonnet-4-5", api_key="k", base_url=server.url, streams=False)
        server.play(json.dumps(body), headers={"content-type": "application/json"})
        events = await events_of(model)
        await model.close()
    pieces = [event.arguments for event in events if isinstance(event, ToolCallChunk)]
    assert json.loads("".join(pieces)) == {"city": "Bonn"}


async def test_reasoning_that_a_vendor_does_not_take_back_is_reported_as_dropped() -> None:
    async with serving() as server:
        model = OpenAICompatibleModel("m", f"{server.url}/v1", vendor="perplexity", api_key="k")
        server.play(sse(chat.chunk(reasoning_content="Hm."), chat.chunk("stop", content="A"), "[DONE]"))
        answer = reply_of(await events_of(model)).message
        server.play(sse(chat.chunk("stop", content="B"), "[DONE]"))
        first = (await events_of(model, request(answer)))[0]
        await model.close()
    assert first == Dropped(("reasoning of perplexity",))


@pytest.mark.parametrize("kind", list(MODELS))
async def test_a_redirect_to_another_origin_never_carries_the_key(kind: str) -> None:
    async with serving() as there, serving() as here, model_of(kind, here) as model:
        here.play(b"", status=307, headers={"location": there.url.replace("127.0.0.1", "localhost") + "/elsewhere"})
        there.play(b"", status=500)
        with pytest.raises(ProviderError):
            await events_of(model)
    secrets = [value for asked in there.asked for name, value in asked.headers.items() if name != "user-agent"]
    assert not [value for value in secrets if value in ("key", "Bearer key")]


NO_INPUT: list[tuple[str, str]] = [
    (
        "anthropic",
        sse(
            {"type": "message_start", "message": {"model": "m", "usage": {}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ),
    ),
    ("chat", sse({**choice(0, "ok", "stop"), "usage": {"prompt_tokens": 0, "completion_tokens": 7}}, "[DONE]")),
    (
        "google",
        sse(
            {
                "candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"candidatesTokenCount": 7},
            }
        ),
    ),
]


@pytest.mark.parametrize(("kind", "body"), NO_INPUT)
async def test_an_answer_without_input_is_never_a_measured_zero(kind: str, body: str) -> None:
    async with serving() as server, model_of(kind, server) as model:
        server.play(body)
        result = await ToolOrchestrator(Chat("Hi", model=model), AgentConfig()).run()
    (record,) = result.usage
    assert (record.source, record.tokens.completion) == ("estimated", 7)
    assert record.tokens.prompt > 0


async def test_output_of_nothing_is_never_a_measured_zero() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 0, "completion_tokens_details": {"reasoning_tokens": 4}}
    reply = reply_of(await played("chat", sse({**choice(0, "ok", "stop"), "usage": usage}, "[DONE]")))
    assert (reply.source, reply.tokens) == ("estimated", Tokens(prompt=9))


@pytest.mark.parametrize("count", [10**12, 10**30])
async def test_counts_that_no_answer_has_are_unknown(count: int) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": 1}
    reply = reply_of(await played("chat", sse({**choice(0, "ok", "stop"), "usage": usage}, "[DONE]")))
    assert (reply.tokens, reply.source) == (None, "unknown")


async def test_a_provider_cannot_report_less_than_no_searches() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "server_tool_use": {"web_search_requests": -1_000}}
    reply = reply_of(await played("chat", sse({**choice(0, "ok", "stop"), "usage": usage}, "[DONE]")))
    assert reply.receipt is not None
    assert reply.receipt.server_tools == {}


async def test_arguments_cannot_begin_far_behind_the_end_of_a_list() -> None:
    call = {"name": "look", "partialArgs": [{"jsonPath": "$.a[5000000]", "stringValue": "x"}]}
    first = {"functionCall": {"name": "look", "willContinue": True}}
    parts = [first, {"functionCall": call | {"name": ""}}]
    answer = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    with pytest.raises(BrokenStreamError):
        await played("google", sse(answer))
