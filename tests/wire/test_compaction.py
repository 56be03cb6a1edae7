"""Compaction by the provider: the options of the models, its usage, and the conversation that is sent back."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig, Chat, Limits, Resources, ToolOrchestrator, ToolRegistry, tool
from concertino.errors import ConfigurationError
from concertino.events import CacheMiss
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.openai import OpenAIModel

from .wire_kit import serving, sse

BLOCK = {"type": "compaction", "content": "So far.", "encrypted_content": "enc"}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "enc"}


@tool(effect="read")
async def look() -> str:
    """Look something up."""
    return "a line of what was found " * 400


def claude(compacted: bool, *, last: bool) -> str:
    """An answer for a conversation of 60,000 tokens, of which 2,000 are left once it is compacted."""
    iterations = [{"type": "compaction", "input_tokens": 60_000, "output_tokens": 500}, {"type": "message"}]
    usage: dict[str, Any] = {"input_tokens": 2_000, "output_tokens": 9}
    blocks: list[dict[str, Any]] = [BLOCK] if compacted else []
    call: dict[str, Any] = {
        "type": "tool_use",
        "id": "toolu_1" if compacted else "toolu_2",
        "name": "look",
        "input": {},
    }
    blocks.append({"type": "text", "text": "Done."} if last else call)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "model": "claude", "usage": usage}}
    ]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    report = {**usage, "iterations": iterations} if compacted else usage
    reason = {"stop_reason": "end_turn" if last else "tool_use"}
    return sse(*events, {"type": "message_delta", "delta": reason, "usage": report}, {"type": "message_stop"})


async def test_anthropics_summary_is_billed_sent_back_and_no_measure_of_the_view() -> None:
    async with serving() as server:
        for compacted, last in ((False, False), (True, False), (False, True)):
            server.play(claude(compacted, last=last))
        model = AnthropicModel("claude-opus-4-6", api_key="k", base_url=server.url, compact_at=50_000)
        resources = Resources(limits=lambda *_: Limits(context=64_000, output=500))
        run = ToolOrchestrator(Chat("go", model=model), AgentConfig(), ToolRegistry([look]), resources=resources)
        events = [event async for event in run.stream()]
        await model.close()
    first, _, third = server.asked
    assert first.body["context_management"] == {
        "edits": [
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}},
        ]
    }
    assert first.headers["anthropic-beta"] == "compact-2026-01-12"
    assert third.body["messages"][3]["content"][0] == BLOCK
    assert [record.tokens.prompt for record in run.result.usage] == [2_000, 62_000, 2_000]
    assert not [event for event in events if isinstance(event, CacheMiss)]
    assert run.result.report is not None
    assert (run.result.report.requests, run.result.report.summaries) == (3, 0)


def gpt(*items: dict[str, Any]) -> str:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r", "model": "gpt-5"}}]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {"input_tokens": 50, "output_tokens": 9, "total_tokens": 59}
    done = {"id": "r", "model": "gpt-5", "status": "completed", "output": list(items), "usage": usage}
    return sse(*events, {"type": "response.completed", "response": done})


async def test_openais_item_is_sent_back() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": "{}"}
    text = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    async with serving() as server:
        server.play(gpt(ITEM, {**call, "status": "completed"}))
        server.play(gpt({**text, "status": "completed"}))
        model = OpenAIModel("gpt-5", api_key="k", base_url=f"{server.url}/v1", api="responses", compact_at=50_000)
        result = await ToolOrchestrator(Chat("go", model=model), AgentConfig(), ToolRegistry([look])).run()
        await model.close()
    first, second = server.asked
    assert result.text == "Done."
    assert first.body["context_management"] == [{"type": "compaction", "compact_threshold": 50_000}]
    assert ITEM in second.body["input"]


@pytest.mark.parametrize("tokens", [0, -1, True, "many"])
def test_an_invalid_threshold_is_refused(tokens: Any) -> None:
    with pytest.raises(ConfigurationError, match="compact_at"):
        AnthropicModel("claude-opus-4-6", api_key="k", compact_at=tokens)
    with pytest.raises(ConfigurationError, match="compact_at"):
        OpenAIModel("gpt-5", api_key="k", compact_at=tokens)


def test_chat_completions_cannot_compact() -> None:
    with pytest.raises(ConfigurationError, match="Responses API"):
        OpenAIModel("gpt-5", api_key="k", api="chat", compact_at=50_000)


@tool(effect="once")
async def publish() -> str:
    """Publish."""
    return "published"


class Careful(AgentConfig[None]):
    name = "careful"
    tools = (look, publish)

    async def authorize_tool_call(self, run: RunContext[None], call: ToolCall) -> Allow | Ask:
        return Ask() if call.name == "publish" else Allow()
