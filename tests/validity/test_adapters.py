"""The adapters turn odd conversations into requests that the vendors accept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concertino.messages import (
    AssistantMessage,
    Media,
    Message,
    MessagePart,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers import ModelRequest

from .judge import problems

TOOL = ToolSpec("look_up", "Looks up.", {"type": "object", "properties": {}})
HELLO = UserMessage("Hello.")
MORE = UserMessage("And more.")


def answer(*parts: MessagePart) -> AssistantMessage:
    return AssistantMessage(parts, "end", "m")


def text(words: str, provider: str) -> Text:
    """Return a text, for OpenAI as an item with the id that its reasoning refers to."""
    part = {"type": "output_text", "text": words, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    return Text(words, provider="openai", raw=json.dumps(item)) if provider == "openai" else Text(words)


def thought(provider: str) -> Reasoning:
    return Reasoning("Hm.", provider=provider, id="rs_1", signature="c2ln")


def calls(*ids: str, **more: Any) -> list[ToolCall]:
    return [ToolCall(call_id, "look_up", "{}", **more) for call_id in ids]


def results(*ids: str, content: str = "found", **more: Any) -> list[ToolMessage]:
    return [ToolMessage(call_id, "look_up", content, **more) for call_id in ids]


CONVERSATIONS: dict[str, list[Message]] = {
    "one word": [HELLO],
    "nothing said": [UserMessage("")],
    "only an image": [UserMessage("", (Media("image/png", data="aGk="),))],
    "a note begins": [SystemMessage("It is late."), HELLO],
    "a live call": [HELLO, answer(*calls("a")), *results("a")],
    "live calls with a note behind": [
        HELLO,
        answer(*calls("a", "b")),
        *results("a", "b"),
        SystemMessage("It is late."),
    ],
    "live calls with a word behind": [HELLO, answer(*calls("a", "b")), *results("a", "b"), MORE],
    "text between calls": [
        HELLO,
        answer(Text("One."), *calls("a"), Text("Two."), *calls("b")),
        *results("a", "b"),
    ],
    "text behind a call": [HELLO, answer(*calls("a"), Text("I wait.")), *results("a")],
    "an empty result": [HELLO, answer(*calls("a")), *results("a", content="")],
    "a blank result": [HELLO, answer(*calls("a")), *results("a", content=" \n")],
    "a failed result": [HELLO, answer(*calls("a")), *results("a", content="no", is_error=True)],
    "a shown result": [
        HELLO,
        answer(*calls("a")),
        *results("a", content="", media=(Media("image/png", data="aGk="),)),
    ],
    "arguments that are no JSON": [HELLO, answer(ToolCall("a", "look_up", '{"a":')), *results("a")],
    "an answer without anything": [HELLO, answer(), MORE],
    "a blank answer": [HELLO, answer(Text(" \n")), MORE],
    "two answers": [HELLO, answer(Text("One.")), answer(Text("Two.")), MORE],
    "white space behind an answer": [HELLO, answer(Text("One. \n")), MORE],
    "a dot in an id": [HELLO, answer(*calls("call.a")), *results("call.a")],
    **{
        f"{name} of {provider}": [HELLO, answer(thought(provider), *parts), *answers]
        for provider in ("anthropic", "openai", "google")
        for name, parts, answers in (
            ("nothing but reasoning", [], [MORE]),
            ("reasoning before text", [text("Yes.", provider)], [MORE]),
            ("reasoning before a call", calls("a"), results("a")),
            ("reasoning before text and a call", [text("I look.", provider), *calls("a")], results("a")),
        )
    },
}


@pytest.mark.parametrize("marked", [False, True], ids=["plain", "marked for the cache"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_an_odd_conversation_is_valid(name: str, marked: bool) -> None:
    messages = CONVERSATIONS[name]
    marks = tuple(range(len(messages)))[-3:] if marked else None
    request = ModelRequest(model="", system="Be kind.", messages=messages, tools=(TOOL,), breakpoints=marks)
    assert problems(request) == {}
