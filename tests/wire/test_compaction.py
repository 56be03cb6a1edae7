"""Compaction by the provider: the options of the models, its usage, and the conversation that is sent back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    Limits,
    MemoryStore,
    Model,
    Resources,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.errors import ConfigurationError
from concertino.events import CacheMiss
from concertino.ids import new_run_id
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


def claude_at(url: str) -> Model:
    return AnthropicModel("claude-opus-4-6", api_key="k", base_url=url, compact_at=50_000)


def gpt_at(url: str) -> Model:
    return OpenAIModel("gpt-5", api_key="k", base_url=f"{url}/v1", api="responses", compact_at=50_000)


CALL = {"type": "function_call", "id": "fc", "name": "look", "arguments": "{}", "status": "completed"}
TEXT = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
CLAUDE = [claude(compacted, last=last) for compacted, last in ((False, False), (True, False), (False, True))]
GPT = [
    gpt({**CALL, "call_id": "c1"}),
    gpt(ITEM, {**CALL, "call_id": "c2"}),
    gpt({**TEXT, "content": [{"type": "output_text", "text": "Done."}]}),
]


@pytest.mark.parametrize(("made", "answers", "block"), [(claude_at, CLAUDE, BLOCK), (gpt_at, GPT, ITEM)])
async def test_a_run_that_crashed_behind_a_compaction_sends_the_same_request(
    made: Callable[[str], Model], answers: Sequence[str], block: dict[str, Any]
) -> None:
    sent = []
    for crash in (False, True):
        store, run_id, calls = MemoryStore(), new_run_id(), 0

        @tool(name="look", effect="read")
        async def look_and_crash() -> str:
            """Look something up."""
            nonlocal calls
            calls += 1
            if calls == 2 and crash:  # noqa: B023 - it runs within the iteration
                first.park()  # noqa: B023
                await asyncio.Event().wait()
            return "a line of what was found " * 400

        async with serving() as server:
            for answer in answers:
                server.play(answer)
            model, registry = made(server.url), ToolRegistry([look_and_crash])
            first = ToolOrchestrator(
                Chat("go", model=model), AgentConfig(), registry, run_id=run_id, resources=Resources(store=store)
            )
            if not crash:
                result = await first.run()
            else:
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.create_task(first.run())
                again = ToolOrchestrator(
                    Chat(model=model), AgentConfig(), registry, run_id=run_id, resume=True,
                    resources=Resources(store=store),
                )  # fmt: skip
                result = await again.run()
            await model.close()
        assert (result.text, calls, len(server.asked)) == ("Done.", 2 + crash, 3)
        sent.append(server.asked[2].body)
    plain = [{key: value for key, value in body.items() if "cache_key" not in key} for body in sent]
    assert plain[0] == plain[1]
    assert str(block) in str(sent[1])


@pytest.mark.parametrize("tokens", [0, -1, True, "many"])
def test_an_invalid_threshold_is_refused(tokens: Any) -> None:
    with pytest.raises(ConfigurationError, match="compact_at"):
        AnthropicModel("claude-opus-4-6", api_key="k", compact_at=tokens)
    with pytest.raises(ConfigurationError, match="compact_at"):
        OpenAIModel("gpt-5", api_key="k", compact_at=tokens)


def test_chat_completions_cannot_compact() -> None:
    with pytest.raises(ConfigurationError, match="Responses API"):
        OpenAIModel("gpt-5", api_key="k", api="chat", compact_at=50_000)
