"""Content without a field of our own goes back unmodified: streams after the references, and the next requests."""

from __future__ import annotations

import json
from typing import Any

from concertino.messages import AssistantMessage, Message, Reasoning, Text, ToolCall, ToolMessage, UserMessage

from . import test_wire_anthropic as anthropic
from . import test_wire_google as google
from . import test_wire_responses as responses
from .test_typed_requests import sent, written
from .wire_kit import played, reply_of, sse


async def answer(kind: str, *events: dict[str, Any]) -> AssistantMessage:
    return reply_of(await played(kind, sse(*events))).message


# Anthropic

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Köln"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "enc", "page_age": None}],
}
CITATION = {"type": "web_search_result_location", "url": "u", "cited_text": "x", "encrypted_index": "e", "title": None}
CALLER = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}


async def test_anthropic_server_tools_citations_and_callers() -> None:
    message = await answer(
        "anthropic",
        anthropic.BEGIN,
        anthropic.start(0, **{**SEARCH, "input": {}}),
        anthropic.delta(0, "input_json_delta", partial_json='{"query": '),
        anthropic.delta(0, "input_json_delta", partial_json='"Köln"}'),
        anthropic.stop(0),
        anthropic.start(1, **FOUND),
        anthropic.stop(1),
        anthropic.start(2, type="text", text="", citations=[]),
        anthropic.delta(2, "citations_delta", citation=CITATION),
        anthropic.delta(2, "text_delta", text="A city."),
        anthropic.stop(2),
        anthropic.start(3, type="tool_use", id="toolu_1", name="f", input={}, caller=CALLER),
        anthropic.delta(3, "input_json_delta", partial_json='{"x": 1}'),
        anthropic.stop(3),
        *anthropic.end("tool_use", output_tokens=3),
    )
    assert [part.kind for part in message.parts] == ["opaque", "opaque", "text", "tool_call"]
    assert message.text == "A city."
    turn = sent("anthropic", UserMessage("Q"), message, ToolMessage("toolu_1", "f", "x"))["messages"][1]
    assert turn["content"] == [
        SEARCH,
        FOUND,
        {"type": "text", "text": "A city.", "citations": [CITATION]},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}, "caller": CALLER},
    ]


async def test_anthropic_compaction_fallback_and_an_unknown_block() -> None:
    fallback = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "claude-b"}}
    message = await answer(
        "anthropic",
        anthropic.BEGIN,
        anthropic.start(0, type="compaction", content=None, encrypted_content=None),
        anthropic.delta(0, "compaction_delta", content="So far.", encrypted_content="enc"),
        anthropic.stop(0),
        anthropic.start(1, **fallback),
        anthropic.start(2, type="novelty", words=""),
        anthropic.delta(2, "novelty_delta", words="one "),
        anthropic.delta(2, "novelty_delta", words="two", level=3),
        anthropic.stop(2),
        anthropic.start(3, type="text", text="A"),
        *anthropic.end("pause_turn", output_tokens=3),
    )
    assert (message.stop_reason, message.model) == ("pause", "claude-b")
    assert sent("anthropic", UserMessage("Q"), message)["messages"][1]["content"] == [
        {"type": "compaction", "content": "So far.", "encrypted_content": "enc"},
        fallback,
        {"type": "novelty", "words": "one two", "level": 3},
        {"type": "text", "text": "A"},
    ]


async def test_anthropic_container_goes_back_until_it_expires() -> None:
    extra = {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}
    for expires, expected in (("2999-01-01T00:00:00Z", "container_1"), ("2020-01-01T00:00:00Z", None)):
        end = anthropic.end("end_turn", output_tokens=3)
        end[0]["delta"]["container"] = {"id": "container_1", "expires_at": expires}
        message = await answer("anthropic", anthropic.BEGIN, anthropic.start(0, type="text", text="A"), *end)
        assert message.text == "A"
        found = sent("anthropic", UserMessage("Q"), message, UserMessage("And?"), extra=extra)
        assert found.get("container") == expected
        assert found["messages"][1]["content"] == [{"type": "text", "text": "A"}]
        assert "container" not in sent("anthropic", UserMessage("Q"), message)


# Responses

SEARCHED: dict[str, Any] = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "Köln"},
}
REASONED: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": None,
    "encrypted_content": "enc",
    "status": None,
}
SAID: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [
        {"type": "output_text", "text": "A", "annotations": [{"type": "url_citation", "url": "u"}], "logprobs": []}
    ],
}
CALLED: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"x": 1}',
    "namespace": "n",
    "status": "completed",
}
ITEMS = [REASONED, SEARCHED, SAID, CALLED]


def without_null(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value is not None}


def history_of(message: AssistantMessage) -> tuple[Message, ...]:
    return UserMessage("Q"), message, ToolMessage("call_1", "f", "x")


async def test_responses_items_go_back_whole() -> None:
    message = await answer("responses", *(responses.done(n, item) for n, item in enumerate(ITEMS)), responses.ended())
    found = sent("responses", *history_of(message))["input"]
    assert found[1:-1] == [without_null(item) for item in ITEMS]
    assert found[-1] == {"type": "function_call_output", "call_id": "call_1", "output": "x"}


async def test_responses_items_lose_ids_that_refer_to_missing_reasoning() -> None:
    message = await answer("responses", *(responses.done(n, item) for n, item in enumerate(ITEMS)), responses.ended())
    found = sent("responses", *history_of(message), model="gpt-4o")["input"][1:-1]
    assert [item["type"] for item in found] == ["message", "function_call"], "the search cannot do without its id"
    assert not any("id" in item for item in found)
    lost = written("responses", *history_of(message), model="gpt-4o").dropped
    assert lost == ("reasoning of openai", "web_search_call of openai")
    unsigned = {**REASONED, "encrypted_content": None}
    events = [responses.done(n, item) for n, item in enumerate([unsigned, SAID])]
    message = await answer("responses", *events, responses.ended())
    assert "id" not in sent("responses", UserMessage("Q"), message)["input"][1]
    stored = sent("responses", UserMessage("Q"), message, extra={"store": True})["input"]
    assert [item.get("id") for item in stored[1:]] == ["rs_1", "msg_1"]


async def test_responses_plain_reasoning_goes_back_as_text() -> None:
    plain = {"type": "reasoning", "id": "1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    message = await answer("responses", responses.done(0, plain), responses.done(1, SAID), responses.ended())
    assert message.parts[0] == Reasoning("Hm.", "1", None, "openai")
    assert sent("responses", UserMessage("Q"), message)["input"][1] == plain


async def test_responses_invalid_arguments_go_back_as_valid_json() -> None:
    broken = {**CALLED, "arguments": '{"x":'}
    message = await answer("responses", responses.done(0, broken), responses.ended())
    assert message.tool_calls == (ToolCall("call_1", "f", '{"x":'),)
    found = sent("responses", *history_of(message))["input"][1]
    assert json.loads(found["arguments"]) == {"arguments": '{"x":'}


# Gemini


async def test_google_parts_go_back_unmodified() -> None:
    parts: list[dict[str, Any]] = [
        {"text": "Hm.", "thought": True},
        {"executableCode": {"language": "PYTHON", "code": "1+1", "id": "x"}, "thoughtSignature": "czE="},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"inlineData": {"mimeType": "image/png", "data": "aWc="}},
        {"text": "Two", "thoughtSignature": "czI="},
        {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}, "thoughtSignature": "czM="},
        {"functionCall": {"id": "b", "name": "f", "args": {}}, "partMetadata": {"k": "v"}},
    ]
    grounding = {"groundingChunks": [{"web": {"uri": "u"}}]}
    chunks = [google.chunk(part) for part in parts] + [google.chunk(reason="STOP")]
    chunks[2]["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["q"]}
    chunks[-1]["candidates"][0]["groundingMetadata"] = grounding
    message = await answer("google", *chunks)
    assert sent("google", UserMessage("Q"), message)["contents"][1] == {"role": "model", "parts": parts}
    (other,) = [part for part in message.parts if part.kind == "opaque" and part.type == "groundingMetadata"]
    assert json.loads(other.raw) == {"webSearchQueries": ["q"], **grounding}


async def test_google_text_pieces_are_joined_unless_signed() -> None:
    message = await answer("google", *(google.chunk({"text": text}) for text in "abc"), google.chunk(reason="STOP"))
    assert message.parts == (Text("abc"),)
