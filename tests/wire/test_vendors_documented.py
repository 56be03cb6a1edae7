"""Vendors without recordings: a small answer after the documentation of each, and the next request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concertino.errors import UnsupportedError
from concertino.messages import AssistantMessage, ForcedTool, ToolCall, ToolMessage, UserMessage
from concertino.providers import Reply
from concertino.providers.openai import OpenAICompatibleModel
from concertino.providers.openai.chat.vendors import VENDORS

from .test_typed_requests import TOOL
from .wire_kit import events_of, reply_of, request, serving, sse

RECORDED = {"openai", "azure", "azure-foundry", "openrouter", "groq", "deepseek", "mistral", "xai", "perplexity",
            "databricks"}  # fmt: skip
"""Vendors with recorded answers (`test_sdks_agree`, `test_lossless`)."""


def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}  # fmt: skip


def called(**more: Any) -> dict[str, Any]:
    return {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}, **more}


USAGE = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}

# What each sends, in its own way: the field of the reasoning, when a call comes, and where usage stands.
ANSWERS: dict[str, tuple[dict[str, Any], ...]] = {
    "ollama": (
        chunk({"role": "assistant", "content": "", "reasoning": "Hm."}),
        chunk({"role": "assistant", "content": "", "tool_calls": [called()]}),
        chunk({"role": "assistant", "content": ""}, "tool_calls"),
        {**chunk({}), "choices": [], "usage": USAGE},
    ),
    "vllm": (
        chunk({"role": "assistant", "content": ""}, usage=None),
        chunk({"reasoning": "Hm."}),
        chunk({"tool_calls": [called()]}),
        chunk({"content": ""}, "tool_calls", stop_reason=None),
        {**chunk({}), "choices": [], "usage": USAGE},
    ),
    "llamacpp": (
        chunk({"role": "assistant", "content": None}),
        chunk({"reasoning_content": "Hm."}),
        chunk({"tool_calls": [called()]}),
        chunk({}, "tool_calls"),
        {**chunk({}), "choices": [], "usage": USAGE, "timings": {"prompt_n": 20, "predicted_n": 9}},
    ),
    "google-openai": (
        chunk({"role": "assistant", "tool_calls": [called(**SIGNED)]}),
        chunk({"role": "assistant", "content": ""}, "stop", usage=USAGE),
    ),
    "fireworks": (
        chunk({"role": "assistant", "reasoning_content": "Hm."}),
        chunk({"tool_calls": [called()]}),
        chunk({}, "tool_calls", usage=USAGE),
    ),
}
FIELD = {"ollama": "reasoning", "vllm": "reasoning", "llamacpp": "reasoning_content", "fireworks": "reasoning_content"}
UNRECORDED = [vendor.name for vendor in VENDORS if vendor.name not in RECORDED]


async def asked(vendor: str, **settings: Any) -> tuple[dict[str, Any], Reply, dict[str, Any]]:
    """Return the first request, the reply, and the request with its result."""
    async with serving() as server:
        model = OpenAICompatibleModel("m", f"{server.url}/v1", vendor=vendor, api_key="k")
        for _ in range(2):
            server.play(sse(*ANSWERS[vendor], "[DONE]"))
        reply = reply_of(await events_of(model, request(tools=(TOOL,), **settings)))
        results = [ToolMessage(call.id, call.name, "mild") for call in reply.message.tool_calls]
        await events_of(model, request(UserMessage("Hi"), reply.message, *results, tools=(TOOL,), **settings))
        await model.close()
    first, second = server.asked
    return first.body, reply, second.body


def test_each_vendor_is_covered() -> None:
    assert sorted(UNRECORDED) == sorted(ANSWERS)


@pytest.mark.parametrize("vendor", UNRECORDED)
async def test_a_turn_with_a_call(vendor: str) -> None:
    first, reply, second = await asked(vendor, max_output_tokens=50)
    assert [(call.id, call.name, call.arguments) for call in reply.message.tool_calls] == [("call_1", "weather", "{}")]
    assert reply.message.stop_reason == "tool_calls"
    assert reply.tokens is not None
    assert (reply.tokens.prompt, reply.tokens.completion) == (20, 9)
    assert first["max_tokens"] == 50
    assert first["stream_options"] == {"include_usage": True}
    answer, result = second["messages"][1:]
    assert answer["tool_calls"][0]["id"] == result["tool_call_id"] == "call_1"


@pytest.mark.parametrize("vendor", FIELD)
async def test_reasoning_goes_back_in_its_own_field(vendor: str) -> None:
    _, reply, second = await asked(vendor)
    assert [part.text for part in reply.message.parts if part.kind == "reasoning"] == ["Hm."]
    answer = second["messages"][1]
    assert {name: answer[name] for name in ("reasoning", "reasoning_content") if name in answer} == {
        FIELD[vendor]: "Hm."
    }


async def test_vllm_before_it_renamed_the_field() -> None:
    async with serving() as server:
        model = OpenAICompatibleModel("m", f"{server.url}/v1", vendor="vllm")
        server.play(sse(chunk({"reasoning_content": "Hm."}), chunk({"content": "A"}, "stop")))
        message = reply_of(await events_of(model)).message
        await model.close()
    assert [part.text for part in message.parts if part.kind == "reasoning"] == ["Hm."]


async def test_geminis_signatures_stay_at_their_calls() -> None:
    first, _, second = await asked("google-openai", parallel_tool_calls=False)
    assert second["messages"][1]["tool_calls"][0]["extra_content"] == SIGNED["extra_content"]
    assert "parallel_tool_calls" not in first


@pytest.mark.parametrize(
    ("vendor", "refused", "taken"),
    [
        ("ollama", ["required", ForcedTool("weather")], []),
        ("perplexity", ["required", ForcedTool("weather")], []),
        ("llamacpp", [ForcedTool("weather")], ["required", "none"]),
        ("vllm", [], ["required", "none", ForcedTool("weather")]),
        ("fireworks", [], ["required", "none", ForcedTool("weather")]),
        ("google-openai", [], ["required", "none", ForcedTool("weather")]),
    ],
)
def test_an_ignored_tool_choice_is_refused(vendor: str, refused: list[Any], taken: list[Any]) -> None:
    model = OpenAICompatibleModel("m", "http://127.0.0.1:1", vendor=vendor, api_key="k")
    for choice in refused:
        with pytest.raises(UnsupportedError, match="tool_choice"):
            model._body(request(tools=(TOOL,), tool_choice=choice))
    for choice in taken:
        assert "tool_choice" in json.loads(model._body(request(tools=(TOOL,), tool_choice=choice)).data)


@pytest.mark.parametrize("vendor", ["ollama", "perplexity"])
def test_a_vendor_without_tool_choice_none_gets_no_tools(vendor: str) -> None:
    model = OpenAICompatibleModel("m", "http://127.0.0.1:1", vendor=vendor, api_key="k")
    history = (UserMessage("Hi"), AssistantMessage((ToolCall("a", "weather", "{}"),)), ToolMessage("a", "weather", "x"))
    found = json.loads(model._body(request(*history, tools=(TOOL,), tool_choice="none")).data)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & found.keys()
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "tool"]
