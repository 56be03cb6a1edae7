"""One typed request, its translation for each provider, and clear errors for unsupported settings."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from concertino.errors import UnsupportedError
from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers import Dropped, OutputSchema
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.google import GoogleModel
from concertino.providers.http.encoding import RequestBody
from concertino.providers.openai import OpenAICompatibleModel, OpenAIModel

from . import test_wire_chat as chat
from .wire_kit import MODELS, events_of, model_of, request, serving, sse

SCHEMA = OutputSchema("Answer", {"type": "object", "properties": {"a": {"type": "string"}}})
TOOL = ToolSpec("weather", "Tells the weather.", {"type": "object", "properties": {}})
URL = "http://127.0.0.1:1"
NEW = {
    "anthropic": "claude-sonnet-5-5",
    "responses": "gpt-6-luna",
    "chat": "gpt-6-luna",
    "google": "gemini-3.8-flash",
}


def written(kind: str, *messages: Message, model: str = "", vendor: str = "openai", **settings: Any) -> RequestBody:
    """Return the encoded request."""
    name = model or NEW[kind]
    maker: Any = {
        "anthropic": lambda: AnthropicModel(name, api_key="k", base_url=URL),
        "responses": lambda: OpenAIModel(name, api_key="k"),
        "chat": lambda: OpenAICompatibleModel(name, URL, vendor=vendor, api_key="k"),
        "google": lambda: GoogleModel(name, api_key="k", base_url=URL),
    }[kind]
    body = maker()._body(request(*messages, model=name, **settings))
    assert isinstance(body, RequestBody)
    return body


def sent(kind: str, *messages: Message, **settings: Any) -> dict[str, Any]:
    found = json.loads(written(kind, *messages, **settings).data)
    assert isinstance(found, dict)
    return found


# Settings


def test_structured_output() -> None:
    named = {"name": "Answer", "schema": SCHEMA.schema, "strict": True}
    config = {"format": {"type": "json_schema", "schema": SCHEMA.schema}}
    assert sent("anthropic", output_schema=SCHEMA)["output_config"] == config
    assert sent("responses", output_schema=SCHEMA)["text"] == {"format": {"type": "json_schema", **named}}
    form = {"type": "json_schema", "json_schema": named}
    assert sent("chat", output_schema=SCHEMA)["response_format"] == form
    found = sent("google", output_schema=SCHEMA)["generationConfig"]
    assert found == {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA.schema}


@pytest.mark.parametrize(
    ("kind", "model", "effort", "expected"),
    [
        ("anthropic", "claude-opus-4-7", "low", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("anthropic", "claude-sonnet-4-5", "medium", {"thinking": {"type": "enabled", "budget_tokens": 8192}}),
        ("anthropic", "claude-opus-4-7", "none", {}),
        ("anthropic", "claude-3-haiku-20240307", "none", {}),
        ("responses", "gpt-6-luna", "high", {"reasoning": {"effort": "high"}}),
        ("responses", "gpt-4o", "none", {}),
        ("chat", "o4-mini", "low", {"reasoning_effort": "low"}),
        ("google", "gemini-3-flash", "minimal", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}}),
        ("google", "gemini-2.5-flash", "none", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}),
    ],
)
def test_effort(kind: str, model: str, effort: str, expected: dict[str, Any]) -> None:
    found = sent(kind, model=model, effort=effort)
    names = ("thinking", "output_config", "reasoning", "reasoning_effort", "generationConfig")
    assert {name: found[name] for name in names if name in found} == expected


def test_the_other_settings() -> None:
    settings: dict[str, Any] = {"temperature": 0.5, "stop": ("END",), "cache_key": "run-7"}
    found = sent("anthropic", model="claude-sonnet-4-5", **settings)
    assert (found["temperature"], found["stop_sequences"]) == (0.5, ["END"])
    found = sent("chat", model="gpt-4o", **settings)
    assert (found["temperature"], found["stop"], found["prompt_cache_key"]) == (0.5, ["END"], "run-7")
    found = sent("google", **settings)["generationConfig"]
    assert found == {"temperature": 0.5, "stopSequences": ["END"]}
    found = sent("responses", model="gpt-4o", temperature=0.0, cache_key="run-7")
    assert (found["temperature"], found["prompt_cache_key"]) == (0.0, "run-7")


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("anthropic", {"model": "claude-3-haiku-20240307", "output_schema": SCHEMA}, "output_schema; force a tool"),
        ("anthropic", {"model": "claude-opus-4-7", "temperature": 0.0}, "temperature=0; leave it out"),
        ("anthropic", {"model": "claude-opus-4-7", "effort": "minimal"}, "effort='minimal'; choose from 'none', 'low'"),
        ("anthropic", {"model": "claude-3-haiku-20240307", "effort": "high"}, "choose from 'none'"),
        (
            "anthropic",
            {"model": "claude-sonnet-4-5", "effort": "low", "tools": (TOOL,), "tool_choice": ForcedTool("weather")},
            "forced tool",
        ),
        ("anthropic", {"model": "claude-sonnet-4-5", "effort": "low", "temperature": 0.0}, "together with reasoning"),
        ("anthropic", {"model": "claude-sonnet-4-5", "effort": "low", "max_output_tokens": 900}, "above 1024"),
        ("responses", {"stop": ("x",)}, 'api="chat"'),
        ("responses", {"model": "o4-mini", "effort": "none"}, "'low', 'medium', 'high'"),
        ("responses", {"model": "gpt-5", "temperature": 0.0}, "temperature=0"),
        ("chat", {"model": "gpt-4", "output_schema": SCHEMA}, "force a tool"),
        ("chat", {"effort": "low", "tools": (TOOL,)}, 'api="responses"'),
        ("chat", {"model": "m", "vendor": "deepseek", "output_schema": SCHEMA}, "force a tool"),
        ("chat", {"model": "m", "vendor": "perplexity", "tools": (TOOL,), "tool_choice": "required"}, "tool_choice"),
        ("google", {"model": "gemini-2.5-flash", "output_schema": SCHEMA, "tools": (TOOL,)}, "use Gemini 3"),
        ("google", {"model": "gemini-2.5-pro", "effort": "none"}, "choose from 'minimal'"),
        ("google", {"model": "gemini-3-pro-preview", "effort": "medium"}, "'low', 'high'"),
    ],
)
def test_unsupported_settings_are_refused(kind: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        written(kind, **settings)
    assert words in str(caught.value)
    assert settings.get("model", NEW[kind]) in str(caught.value), "the model is named"
    assert caught.value.part


def test_settings_of_unknown_models_are_sent() -> None:
    for kind in MODELS:
        settings: dict[str, Any] = {"effort": "low", "output_schema": SCHEMA}
        assert written(kind, model="someone-new", **settings).data


def test_extra_tools_join_those_of_the_agent_and_other_lists_are_replaced() -> None:
    search = {"type": "web_search"}
    found = sent("responses", tools=(TOOL,), extra={"tools": [search], "include": ["web_search_call.action.sources"]})
    assert [tool["type"] for tool in found["tools"]] == ["function", "web_search"]
    assert found["include"] == ["web_search_call.action.sources", "reasoning.encrypted_content"]
    assert sent("anthropic", extra={"tools": [search]})["tools"] == [search]


# Caching


TURNS: tuple[Message, ...] = (
    UserMessage("Q"),
    AssistantMessage((Text("Let me see."), ToolCall("c1", "weather", "{}"))),
    ToolMessage("c1", "weather", "Rain."),
    AssistantMessage((Text("It rains."),)),
    UserMessage("Now"),
)
MARK = {"type": "ephemeral"}


def test_anthropic_has_at_most_four_breakpoints() -> None:
    found = sent("anthropic", *TURNS, system="Be brief.", tools=(TOOL,), breakpoints=(2, 4))
    assert found["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    marked = [turn["content"][-1].get("cache_control") for turn in found["messages"]]
    assert marked == [None, None, MARK, None, MARK]
    assert json.dumps(found).count("cache_control") == 3
    assert sent("anthropic", *TURNS, tools=(TOOL,), breakpoints=())["tools"][-1]["cache_control"] == MARK
    full = sent("anthropic", *TURNS, system="Be brief.", breakpoints=(0, 1, 2, 4))
    assert full["system"] == "Be brief."
    assert json.dumps(full).count("cache_control") == 4
    assert "cache_control" not in json.dumps(sent("anthropic", *TURNS, system="Be brief."))


def test_openrouter_gets_breakpoints_and_other_vendors_do_not() -> None:
    settings: dict[str, Any] = {"model": "anthropic/claude-sonnet-4.5", "system": "Be brief.", "breakpoints": (1, 2, 4)}
    found = sent("chat", *TURNS, vendor="openrouter", **settings)
    assert found["messages"][3]["content"] == [{"type": "text", "text": "Rain.", "cache_control": MARK}]
    marked = [isinstance(turn["content"], list) for turn in found["messages"]]
    assert marked == [True, True, False, True, False, True], "an answer bears none: the message before it does"
    assert "cache_control" not in json.dumps(sent("chat", *TURNS, vendor="groq", **settings))


def test_openai_has_breakpoints_since_gpt_5_6() -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    found = sent("responses", *TURNS, model="gpt-5.6", system="Be brief.", breakpoints=(1, 2, 4))
    assert found["prompt_cache_options"] == {"mode": "explicit"}
    assert "instructions" not in found
    assert found["input"][0] == {
        "role": "developer",
        "content": [{"type": "input_text", "text": "Be brief.", **mark}],
    }
    assert found["input"][4]["output"] == [{"type": "input_text", "text": "Rain.", **mark}]
    assert json.dumps(found).count("prompt_cache_breakpoint") == 4
    full = sent("responses", *TURNS, model="gpt-5.6", system="Be brief.", breakpoints=(0, 1, 2, 4))
    assert full["input"][0] == {"role": "developer", "content": "Be brief."}
    found = sent("chat", *TURNS, model="gpt-5.6", system="Be brief.", breakpoints=(2, 4))
    assert found["prompt_cache_options"] == {"mode": "explicit"}
    assert found["messages"][0]["content"] == [{"type": "text", "text": "Be brief.", **mark}]
    assert found["messages"][3]["content"] == [{"type": "text", "text": "Rain.", **mark}]
    for kind, model in (("responses", "gpt-5"), ("chat", "gpt-5.4"), ("responses", "gpt-5.6")):
        marks = (2, 4) if model != "gpt-5.6" else None
        plain = sent(kind, *TURNS, model=model, system="Be brief.", breakpoints=marks)
        assert "prompt_cache" not in json.dumps(plain)


# Images, files and audio

PNG = Media("image/png", data="aWc=")
LINKED = Media("image/jpeg", url="https://example.org/a.jpg")
PDF = Media("application/pdf", data="cGRm", name="a.pdf")
NOTE = Media("text/plain", data=base64.b64encode("Grüße".encode()).decode(), name="n.txt")
WAV = Media("audio/wav", data="d2F2")


def content_of(kind: str, *media: Media, **settings: Any) -> list[dict[str, Any]]:
    found = sent(kind, UserMessage("What is it?", media), **settings)
    turn = next(found[name] for name in ("messages", "input", "contents") if name in found)[0]
    parts = turn.get("content") or turn.get("parts")
    assert isinstance(parts, list)
    assert "What is it?" in parts[-1]["text"], "what is shown stands before what is asked"
    return parts[:-1]


def test_media() -> None:
    base = {"type": "base64", "media_type": "image/png", "data": "aWc="}
    document = {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}
    note = {"type": "text", "media_type": "text/plain", "data": "Grüße"}
    assert content_of("anthropic", PNG, LINKED, PDF, NOTE, Media("image/png", file_id="f1")) == [
        {"type": "image", "source": base},
        {"type": "image", "source": {"type": "url", "url": LINKED.url}},
        {"type": "document", "source": document, "title": "a.pdf"},
        {"type": "document", "source": note, "title": "n.txt"},
        {"type": "image", "source": {"type": "file", "file_id": "f1"}},
    ]
    assert content_of("responses", PNG, LINKED, PDF, Media("application/pdf", file_id="f1")) == [
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aWc="},
        {"type": "input_image", "detail": "auto", "image_url": LINKED.url},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"},
        {"type": "input_file", "file_id": "f1"},
    ]
    found = content_of("chat", PNG, PDF, NOTE, WAV, Media("application/pdf", file_id="f1"))
    assert found[:2] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWc="}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
    ]
    assert "Grüße" in found[2]["text"]
    assert found[3] == {"type": "input_audio", "input_audio": {"data": "d2F2", "format": "wav"}}
    assert found[4] == {"type": "file", "file": {"file_id": "f1"}}
    assert content_of("google", PNG, WAV, Media("video/mp4", url="gs://b/v.mp4")) == [
        {"inlineData": {"mimeType": "image/png", "data": "aWc="}},
        {"inlineData": {"mimeType": "audio/wav", "data": "d2F2"}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}},
    ]


@pytest.mark.parametrize(
    ("kind", "media", "vendor"),
    [
        ("anthropic", WAV, ""),
        ("responses", WAV, ""),
        ("chat", PDF, "groq"),
        ("chat", PNG, "deepseek"),
        ("chat", Media("application/pdf", url="https://example.org/a.pdf"), "openai"),
        ("google", Media("image/png"), ""),
    ],
)
def test_unsupported_media(kind: str, media: Media, vendor: str) -> None:
    settings = {"vendor": vendor} if vendor else {}
    with pytest.raises(UnsupportedError, match=media.media_type):
        written(kind, UserMessage("Q", (media,)), **settings)
    answered = (UserMessage("Q", (media,)), AssistantMessage((Text("A"),)), UserMessage("And?"))
    body = written(kind, *answered, **settings)
    assert "cannot be shown here" in body.data.decode()
    assert len(body.dropped) == 1


def test_tools_that_return_images() -> None:
    history = (
        UserMessage("Q"),
        AssistantMessage((ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}"))),
        ToolMessage("a", "look", "Here", media=(PNG,)),
        ToolMessage("b", "look", "Nothing"),
    )
    result = sent("anthropic", *history)["messages"][2]["content"][0]
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    output = sent("responses", *history)["input"][3]["output"]
    assert [part["type"] for part in output] == ["input_text", "input_image"]
    messages = sent("chat", *history)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    strict = sent("google", *history)["contents"][2]["parts"]
    assert strict[0]["functionResponse"]["parts"][0]["inlineData"]["data"] == "aWc="
    loose = sent("google", *history, model="gemini-2.5-flash")["contents"][2]["parts"]
    assert [next(iter(part)) for part in loose] == ["functionResponse", "functionResponse", "inlineData"]


# From one provider to another

ANSWERS: dict[str, AssistantMessage] = {
    "anthropic": AssistantMessage(
        (
            Reasoning("hm", signature="sig", provider="anthropic"),
            Opaque("anthropic", "server_tool_use", '{"type":"server_tool_use","id":"s"}'),
            Opaque("anthropic", "container", '{"id":"c"}'),
            Text("A", raw='{"type":"text","text":"A","citations":[{"cited_text":"x"}]}', provider="anthropic"),
            ToolCall("a", "weather", "{}", raw='{"type":"tool_use","id":"a","caller":{}}', provider="anthropic"),
        )
    ),
    "responses": AssistantMessage(
        (
            Reasoning("hm", "rs", "enc", "openai", raw='{"type":"reasoning","id":"rs","encrypted_content":"enc"}'),
            Opaque("openai", "web_search_call", '{"type":"web_search_call","id":"w"}'),
            Text("A", raw='{"type":"message","id":"m","content":[{"annotations":[{"url":"u"}]}]}', provider="openai"),
            ToolCall("a", "weather", "{}", raw='{"type":"function_call","id":"f"}', provider="openai"),
        )
    ),
    "chat": AssistantMessage((Reasoning("hm", provider="deepseek/chat"), Text("A"), ToolCall("a", "weather", "{}"))),
    "google": AssistantMessage(
        (
            Reasoning("hm", provider="google"),
            Opaque("google", "executableCode", '{"executableCode":{"code":"1"}}'),
            Opaque("google", "groundingMetadata", "{}"),
            Text("A", raw='{"text":"A","thoughtSignature":"s"}', provider="google"),
            ToolCall("a", "weather", "{}", signature="sig", provider="google"),
        )
    ),
}
LOST: dict[str, set[str]] = {
    "anthropic": {"reasoning of anthropic", "server_tool_use of anthropic", "citations of anthropic"},
    "responses": {"reasoning of openai", "web_search_call of openai", "citations of openai"},
    "chat": {"reasoning of deepseek"},
    "google": {
        "reasoning of google", "executableCode of google", "signature of a text of google",
        "signature of a call of google",
    },
}  # fmt: skip


@pytest.mark.parametrize("source", list(ANSWERS))
@pytest.mark.parametrize("target", list(MODELS))
def test_content_of_other_providers_is_dropped_and_reported(source: str, target: str) -> None:
    answer = ANSWERS[source]
    history = (UserMessage("Q"), answer, ToolMessage("a", "weather", "rain"), UserMessage("And?"))
    body = written(target, *history)
    vendor = "deepseek" if source == "chat" else "openai"
    if source == target:
        assert written(target, *history, vendor=vendor).dropped == ()
        return
    assert set(body.dropped) == LOST[source]
    text = body.data.decode()
    assert '"A"' in text
    assert "weather" in text
    assert "rain" in text
    for secret in ("sig", '"enc"', "cited_text", "annotations", "thoughtSignature", "executableCode", "web_search"):
        left = "skip_thought_signature_validator"
        assert secret not in text.replace(f'"thoughtSignature":"{left}"', ""), f"{secret} of {source} went to {target}"
    twice = written(target, *history[:3], answer, ToolMessage("a", "weather", "rain"))
    assert set(twice.dropped) == {f"{word} (2)" for word in LOST[source]}


async def test_dropped_content_is_reported_before_the_answer() -> None:
    async with serving() as server, model_of("chat", server) as model:
        server.play(sse(chat.chunk("stop", content="A")))
        events = await events_of(model, request(UserMessage("Q"), ANSWERS["google"], ToolMessage("a", "f", "x")))
        assert isinstance(events[0], Dropped)
        assert set(events[0].what) == LOST["google"]
        server.play(sse(chat.chunk("stop", content="A")))
        assert not any(isinstance(event, Dropped) for event in await events_of(model))
