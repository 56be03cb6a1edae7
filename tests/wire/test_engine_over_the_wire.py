"""The engine's loop over HTTP: each vendor's SDK, parallel tools, usage with its price, and a provider that fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Resources, RunError, ToolOrchestrator, ToolRegistry, tool
from concertino.errors import AuthenticationError, RateLimitError
from concertino.orchestrator.model_call.retry import Retry
from concertino.providers.openai import OpenAICompatibleModel

from .wire_kit import MODELS, model_of, serving, sse


@tool
async def temperature(city: str) -> str:
    """The temperature of a city."""
    return f"{len(city)} degrees in {city}"


CITIES = ("Oslo", "Rome")


def chat_chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c", "model": "gpt-5", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def anthropic(calls: bool) -> str:
    usage = {"input_tokens": 50, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "model": "claude-sonnet-4-5", "usage": usage}}
    ]
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Mild in both."})
    ]
    if calls:
        blocks = [
            (
                {"type": "tool_use", "id": f"toolu_{city}", "name": "temperature", "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps({"city": city})},
            )
            for city in CITIES
        ]
    for index, (block, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if calls else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}})
    return sse(*events, {"type": "message_stop"})


def chat(calls: bool) -> str:
    if calls:
        made = [
            {
                "index": index,
                "id": f"call_{city}",
                "type": "function",
                "function": {"name": "temperature", "arguments": json.dumps({"city": city})},
            }
            for index, city in enumerate(CITIES)
        ]
        chunks = [chat_chunk({"role": "assistant", "tool_calls": made}), chat_chunk({}, "tool_calls")]
    else:
        chunks = [chat_chunk({"content": "Mild in both."}), chat_chunk({}, "stop")]
    usage = {"prompt_tokens": 50, "completion_tokens": 9, "total_tokens": 59}
    return sse(*chunks, {"id": "c", "model": "gpt-5", "choices": [], "usage": usage}) + "data: [DONE]\n\n"


def responses(calls: bool) -> str:
    items: list[dict[str, Any]] = [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Mild in both.", "annotations": []}],
        }
    ]
    if calls:
        items = [
            {
                "type": "function_call",
                "id": f"fc_{city}",
                "call_id": f"call_{city}",
                "name": "temperature",
                "arguments": json.dumps({"city": city}),
                "status": "completed",
            }
            for city in CITIES
        ]
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r", "model": "gpt-5"}}]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}})
        if not calls:
            text = {"output_index": index, "content_index": 0, "item_id": "msg_1", "delta": "Mild in both."}
            events.append({"type": "response.output_text.delta", **text})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {"input_tokens": 50, "output_tokens": 9, "total_tokens": 59}
    done = {"id": "r", "model": "gpt-5", "status": "completed", "output": items, "usage": usage}
    return sse(*events, {"type": "response.completed", "response": done})


def google(calls: bool) -> str:
    parts: list[dict[str, Any]] = [{"text": "Mild in both."}]
    if calls:
        parts = [{"functionCall": {"name": "temperature", "args": {"city": city}}} for city in CITIES]
    return sse(
        {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 50, "candidatesTokenCount": 9, "totalTokenCount": 59},
            "modelVersion": "gemini-3-flash-preview",
        }
    )


ANSWERS = {"anthropic": anthropic, "chat": chat, "responses": responses, "google": google}


@pytest.mark.parametrize("kind", list(MODELS))
async def test_a_tool_loop(kind: str) -> None:
    async with serving() as server, model_of(kind, server) as model:
        server.play(ANSWERS[kind](True))
        server.play(ANSWERS[kind](False))
        asked = Chat(model=model, message="How warm is it in Oslo and in Rome?")
        result = await ToolOrchestrator(asked, AgentConfig(), ToolRegistry([temperature])).run()
    assert result.text == "Mild in both."
    assert result.tool_call_count == 2
    second = json.dumps(server.asked[1].body)
    for city in CITIES:
        assert second.count(f"4 degrees in {city}") == 1
    assert [(r.tokens.prompt, r.tokens.completion, r.source) for r in result.usage] == [(50, 9, "measured")] * 2
    assert all(record.cost for record in result.usage), "a known model has its price"


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize(("status", "error"), [(401, AuthenticationError), (429, RateLimitError)])
async def test_a_refusal_of_the_provider(kind: str, status: int, error: type[Exception]) -> None:
    async with serving() as server, model_of(kind, server) as model:
        body = {"error": {"message": "no", "type": "x", "code": status}}
        server.play(json.dumps(body), status=status, headers={"content-type": "application/json"})
        with pytest.raises(RunError) as caught:
            await ToolOrchestrator(
                Chat(model=model, message="hi"), AgentConfig(), resources=Resources(retry=Retry(attempts=1))
            ).run()
    assert isinstance(caught.value.__cause__, error)
    assert caught.value.result.status == "failed"


class TwoCalls(AgentConfig):
    tool_call_limit = 2


@pytest.mark.parametrize("vendor", ["ollama", "perplexity", "vllm"])
async def test_a_run_at_its_call_limit_ends_with_an_answer_at_every_vendor(vendor: str) -> None:
    async with serving() as server:
        model = OpenAICompatibleModel("m", f"{server.url}/v1", vendor=vendor, api_key="k")
        server.play(chat(True))
        server.play(chat(False))
        asked = Chat(model=model, message="How warm is it in Oslo and in Rome?")
        result = await ToolOrchestrator(asked, TwoCalls(), ToolRegistry([temperature])).run()
        await model.close()
    assert (result.status, result.text) == ("completed", "Mild in both.")
    assert server.asked[1].body.get("tool_choice") == ("none" if vendor == "vllm" else None)
    assert ("tools" in server.asked[1].body) == (vendor == "vllm")
    roles = [message["role"] for message in server.asked[1].body["messages"]]
    assert "system" not in roles[1:], "a template may take the system at the beginning only"
