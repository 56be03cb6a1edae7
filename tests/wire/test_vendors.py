"""Deviations of servers that implement Chat Completions, and clients for other clouds."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from itertools import pairwise
from typing import Any

import pytest
from anthropic import AsyncAnthropicBedrock, AsyncAnthropicVertex
from openai import AsyncAzureOpenAI

from concertino.errors import ConfigurationError, MissingKeyError, RateLimitError
from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    Message,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.providers import model_id
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.openai import OpenAICompatibleModel, OpenAIModel, Vendor
from concertino.providers.openai.chat.vendors import VENDORS, vendor_of

from . import test_wire_anthropic as anthropic
from . import test_wire_chat as chat
from . import test_wire_responses as responses
from .test_typed_requests import TOOL
from .wire_kit import events_of, reply_of, request, serving, sse


def sent(vendor: str, *messages: Message, **settings: Any) -> dict[str, Any]:
    model = OpenAICompatibleModel("m", "http://127.0.0.1:1", vendor=vendor, api_key="k")
    found = json.loads(model._body(request(*messages, **settings)).data)
    assert isinstance(found, dict)
    return found


def test_settings_with_other_names() -> None:
    settings: dict[str, Any] = {"max_output_tokens": 9, "tools": (TOOL,), "parallel_tool_calls": False}
    found = sent("mistral", tool_choice="required", **settings)
    assert (found["max_tokens"], found["tool_choice"], found["parallel_tool_calls"]) == (9, "any", False)
    assert "stream_options" not in found
    found = sent("groq", tool_choice=ForcedTool("weather"), **settings)
    assert found["max_completion_tokens"] == 9
    assert found["tool_choice"]["function"] == {"name": "weather"}
    assert "parallel_tool_calls" not in sent("deepseek", **settings)
    assert sent("openrouter", effort="high")["reasoning"] == {"effort": "high"}
    assert sent("xai", effort="high")["reasoning_effort"] == "high"


def test_system_messages_inside_the_conversation() -> None:
    history = (UserMessage("Q"), SystemMessage("Hurry."))
    for vendor in ("vllm", "llamacpp", "ollama", "unknown"):
        assert sent(vendor, *history, system="S")["messages"] == [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "Q"},
            {"role": "user", "content": "<system>\nHurry.\n</system>"},
        ]
    for vendor in ("openai", "azure", "groq", "deepseek"):
        assert sent(vendor, *history)["messages"][1] == {"role": "system", "content": "Hurry."}


async def played(vendor: str, *chunks: dict[str, Any]) -> AssistantMessage:
    async with serving() as server:
        model = OpenAICompatibleModel("m", f"{server.url}/v1", vendor=vendor, api_key="k")
        server.play(sse(*chunks))
        message = reply_of(await events_of(model)).message
        await model.close()
    return message


async def test_reasoning_goes_back_in_the_vendors_field() -> None:
    call = chat.call(0, "{}", "abcdefghi", "f")
    for vendor in ("deepseek", "llamacpp", "fireworks", "xai"):
        answer = await played(vendor, chat.chunk(reasoning_content="Hm."), chat.chunk("stop", tool_calls=[call]))
        assert sent(vendor, answer)["messages"][0]["reasoning_content"] == "Hm."
    for vendor in ("groq", "ollama", "vllm"):
        answer = await played(vendor, chat.chunk(reasoning="Hm."), chat.chunk("stop", content="A"))
        assert sent(vendor, answer)["messages"] == [{"role": "assistant", "content": "A", "reasoning": "Hm."}]
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    answer = await played("mistral", chat.chunk(content=[thinking]), chat.chunk("stop", content="A"))
    assert sent("mistral", answer)["messages"][0]["content"] == [thinking, {"type": "text", "text": "A"}]
    answer = await played("perplexity", chat.chunk(reasoning_content="Hm."), chat.chunk("stop", content="A"))
    assert sent("perplexity", answer)["messages"] == [{"role": "assistant", "content": "A"}]


async def test_openrouters_details_are_joined_and_go_back_as_a_list() -> None:
    def piece(**fields: Any) -> dict[str, Any]:
        return chat.chunk(reasoning_details=[fields], reasoning=fields.get("text"))

    answer = await played(
        "openrouter",
        piece(type="reasoning.text", text="So ", index=0, format="anthropic-claude-v1"),
        piece(type="reasoning.text", text="be it.", index=0),
        piece(type="reasoning.text", signature="sig", index=0),
        piece(type="reasoning.encrypted", data="x", index=1, id="rs"),
        piece(type="reasoning.encrypted", data="y", index=1, id="rs"),
        chat.chunk("tool_calls", tool_calls=[chat.call(0, "{}", "c", "f")]),
    )
    assert [part.text for part in answer.parts if part.kind == "reasoning"] == ["So be it."]
    assert sent("openrouter", answer)["messages"][0]["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "text": "So be it.",
            "index": 0,
            "format": "anthropic-claude-v1",
            "signature": "sig",
        },
        {"type": "reasoning.encrypted", "data": "x", "index": 1, "id": "rs"},
        {"type": "reasoning.encrypted", "data": "y", "index": 1, "id": "rs"},
    ]
    sealed = await played("openrouter", piece(type="reasoning.encrypted", data="x"), chat.chunk("stop", content="A"))
    assert sent("openrouter", sealed)["messages"][0]["reasoning_details"][0]["data"] == "x"


async def test_extra_fields_of_calls_go_back() -> None:
    more = {"google": {"thought_signature": "sig"}}
    call = {**chat.call(0, "{}", "c", "f"), "extra_content": more}
    answer = await played("google-openai", chat.chunk("stop", tool_calls=[call]))
    assert sent("google-openai", answer)["messages"][0]["tool_calls"][0]["extra_content"] == more
    assert "extra_content" not in json.dumps(sent("groq", answer))


async def test_arguments_as_an_object_and_the_old_function_call() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": {"x": 1}}}
    assert (await played("ollama", chat.chunk("stop", tool_calls=[call]))).tool_calls[0].arguments == '{"x":1}'
    old = {"name": "f", "arguments": "{}"}
    assert (await played("some", chat.chunk("function_call", function_call=old))).tool_calls[0].name == "f"


async def test_sources_are_kept_and_not_sent() -> None:
    chunks = [{**chat.chunk(content="A"), "citations": ["u"]}, {**chat.chunk("stop"), "citations": ["u", "v"]}]
    answer = await played("perplexity", *chunks)
    (kept,) = [part for part in answer.parts if part.kind == "opaque"]
    assert (kept.type, json.loads(kept.raw)) == ("citations", ["u", "v"])
    assert sent("perplexity", answer)["messages"] == [{"role": "assistant", "content": "A"}]
    found = {"title": "A page", "url": "u", "date": "2026-11-01", "snippet": "..."}
    cited = await played("perplexity", {**chat.chunk("stop", content="A"), "search_results": [found]})
    assert sent("perplexity", cited)["messages"] == [{"role": "assistant", "content": "A"}]
    noted = await played("some", chat.chunk("stop", content="A", annotations=[{"type": "url_citation"}]))
    assert "annotations" not in json.dumps(sent("some", noted))


async def test_a_refusal_goes_back_as_one() -> None:
    answer = await played("openai", chat.chunk(refusal="I "), chat.chunk("stop", refusal="won't."))
    assert sent("openai", answer)["messages"] == [{"role": "assistant", "content": None, "refusal": "I won't."}]


def test_call_ids_are_shortened_for_mistral() -> None:
    history = (AssistantMessage((ToolCall("call_0123456789", "f", "{}"),)), ToolMessage("call_0123456789", "f", "x"))
    first, second = sent("mistral", *history)["messages"]
    assert first["tool_calls"][0]["id"] == second["tool_call_id"]
    assert len(second["tool_call_id"]) == 9
    own = (AssistantMessage((ToolCall("abcdefghi", "f", "{}"),)), ToolMessage("abcdefghi", "f", "x"))
    assert sent("mistral", *own)["messages"][1]["tool_call_id"] == "abcdefghi"


FOLLOWS = {
    "system": {"system", "user", "assistant"},
    "user": {"assistant", "system", "user"},
    "assistant": {"assistant", "user", "tool"},
    "tool": {"assistant", "tool"},
}
"""Which role may follow which at Mistral: `_validate_message_order` in mistral-common."""


@pytest.mark.parametrize("shown", [(), (Media("image/png", data="aGk="),)])
@pytest.mark.parametrize("behind", [[], [UserMessage("Stop!")], [SystemMessage("The limit is reached.")]])
def test_mistral_gets_an_answer_between_results_and_the_next_message(
    behind: list[Message], shown: tuple[Media, ...]
) -> None:
    """The user steers, the engine adds a message, or a tool returns an image."""
    calls = tuple(ToolCall(f"abcdefgh{n}", "f", "{}") for n in range(2))
    results = [ToolMessage(calls[0].id, "f", "x", media=shown), ToolMessage(calls[1].id, "f", "y")]
    reading = AssistantMessage((Text("Well."),))
    before: list[Message] = [UserMessage("Go"), AssistantMessage(calls), *results]
    history: list[Message] = [*before, *behind, reading, UserMessage("And?"), SystemMessage("Be brief.")]
    messages = sent("mistral", *history)["messages"]
    roles = [message["role"] for message in messages]
    assert all(after in FOLLOWS[before] for before, after in pairwise(roles)), roles
    assert all(message.get("content") or message.get("tool_calls") for message in messages)
    assert ("Noted." in [message["content"] for message in messages]) == bool(behind or shown)
    openai = [message["role"] for message in sent("openai", *history)["messages"]]
    assert len(openai) == len(roles) - bool(behind or shown)


def test_vendors_are_known_by_name_and_by_host() -> None:
    for vendor in VENDORS:
        assert vendor_of(vendor.name, "http://elsewhere/v1") is vendor
        if vendor.base_url and vendor.hosts:
            assert vendor_of("", vendor.base_url) is vendor
    assert vendor_of("", "https://me.openai.azure.com/openai/v1").name == "azure"
    assert vendor_of("", "http://10.0.0.7:8000/v1").name == "10.0.0.7"
    model = OpenAICompatibleModel("m", "http://h/v1", vendor=Vendor(name="mine", limit="n_predict"))
    assert model_id(model) == "mine:m"
    assert json.loads(model._body(request(max_output_tokens=3)).data)["n_predict"] == 3


def test_a_missing_address_or_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(MissingKeyError, match="GROQ_API_KEY"):
        OpenAICompatibleModel("m", vendor="groq")
    with pytest.raises(ConfigurationError, match="base_url"):
        OpenAICompatibleModel("m", vendor="vllm")
    monkeypatch.setenv("GROQ_API_KEY", "k")
    assert model_id(OpenAICompatibleModel("m", vendor="groq")) == "groq:m"


# Clients of one's own


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_azure_over_its_own_client(api: Any) -> None:
    async with serving() as server:
        client = AsyncAzureOpenAI(api_key="k", api_version="v1", azure_endpoint=server.url)
        model = OpenAIModel("my-deployment", client=client, api=api, provider="azure")
        server.play(chat.FULL if api == "chat" else responses.FULL)
        assert len(reply_of(await events_of(model, request(model="my-deployment"))).message.tool_calls) == 2
        await client.close()
    path = server.asked[0].path
    assert path.partition("?")[0].endswith({"chat": "/chat/completions", "responses": "/responses"}[api])
    assert server.asked[0].headers["api-key"] == "k"


def frame(payload: bytes, **headers: str) -> bytes:
    """Return a frame of AWS's event streams."""
    named = b"".join(
        struct.pack(">B", len(name) + 1) + b":" + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in ((name.replace("_", "-"), value) for name, value in headers.items())
    )
    prelude = struct.pack(">II", 16 + len(named) + len(payload), len(named))
    data = prelude + struct.pack(">I", binascii.crc32(prelude)) + named + payload
    return data + struct.pack(">I", binascii.crc32(data))


def framed(body: str) -> bytes:
    """Return a stream of Anthropic's in Bedrock's frames."""
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    payloads = [json.dumps({"bytes": base64.b64encode(line.encode()).decode(), "p": "abc"}) for line in lines]
    return b"".join(frame(payload.encode(), event_type="chunk", message_type="event") for payload in payloads)


async def test_bedrock_over_its_own_client() -> None:
    async with serving() as server:
        client = AsyncAnthropicBedrock(api_key="k", aws_region="eu-west-1", base_url=server.url)
        model = AnthropicModel("anthropic.claude-sonnet-4-5-v1:0", client=client)  # type: ignore[arg-type]
        kind = {"content-type": "application/vnd.amazon.eventstream"}
        data = framed(anthropic.FULL)
        server.play(data, cuts=range(0, len(data), 7), headers=kind)
        message = reply_of(await events_of(model, request(model=model.name))).message
        slow = frame(b'{"message":"Slow"}', message_type="exception", exception_type="throttlingException")
        server.play(slow, headers=kind)
        with pytest.raises(RateLimitError, match="Slow"):
            await events_of(model, request(model=model.name))
        await client.close()
    assert message.text == "Ich schaue nach: 🌦️."
    assert len(message.tool_calls) == 2
    asked = server.asked[0]
    assert asked.path.startswith("/model/anthropic.claude-sonnet-4-5-v1")
    assert "model" not in asked.body
    assert "anthropic_version" in asked.body
    assert asked.path.endswith("/invoke-with-response-stream")


async def test_vertex_over_its_own_client() -> None:
    async with serving() as server:
        client = AsyncAnthropicVertex(access_token="t", project_id="p", region="r", base_url=server.url)
        model = AnthropicModel("claude-sonnet-4-5@20250929", client=client)  # type: ignore[arg-type]
        server.play(anthropic.FULL)
        message = reply_of(await events_of(model, request(model=model.name))).message
        await client.close()
    assert len(message.tool_calls) == 2
    assert "claude-sonnet-4-5@20250929:streamRawPredict" in server.asked[0].path.replace("%40", "@")


def test_reasoning_of_another_vendor_is_dropped() -> None:
    answer = AssistantMessage((Reasoning("Hm.", provider="groq/chat"), Text("A")))
    assert "Hm." not in json.dumps(sent("deepseek", UserMessage("Q"), answer))


def test_a_call_without_reasoning_gets_an_empty_field() -> None:
    call = ToolCall("a", "f", "{}")
    answers = AssistantMessage((Reasoning("Hm.", provider="anthropic"), call)), AssistantMessage((Text("A"),))
    history = (UserMessage("Q"), answers[0], ToolMessage("a", "f", "x"), answers[1])
    moved = sent("deepseek", *history)["messages"]
    assert [message.get("reasoning_content") for message in moved] == [None, "", None, None]
    assert "reasoning_content" not in json.dumps(sent("fireworks", *history))
    own = AssistantMessage((Reasoning("Hm.", provider="deepseek/chat"), call))
    assert sent("deepseek", own)["messages"][0]["reasoning_content"] == "Hm."
