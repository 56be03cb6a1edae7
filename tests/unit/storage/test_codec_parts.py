"""Parts in a provider's own form, and media: stored as they are, and read where they are missing."""

from __future__ import annotations

import json

import pytest

from concertino.errors import StorageError
from concertino.messages import (
    AssistantMessage,
    Media,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.storage.codec import decode_message, decode_messages, encode_message

RAW = '{"type":"text","text":"Grüße \\ud83d","citations":[{"cited_text":"x"}]}'
MESSAGES: list[Message] = [
    AssistantMessage(
        (
            Text("A", raw=RAW, provider="anthropic"),
            Reasoning("hm", "rs", "enc", "openai", raw='{"type":"reasoning"}'),
            ToolCall("a", "f", "{}", "sig", raw='{"caller":{}}', provider="anthropic"),
            Opaque("anthropic", "server_tool_use", '{"type":"server_tool_use","input":{"q":"\ud83d"}}'),
        ),
        "pause",
    ),
    UserMessage("Q", (Media("image/png", data="aWc="), Media("application/pdf", url="u", name="n"))),
    ToolMessage("a", "f", "x", media=(Media("image/png", file_id="f"),)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.role)
def test_messages_come_back(message: Message) -> None:
    back = decode_message(encode_message(message))
    assert back == message
    if isinstance(message, AssistantMessage) and isinstance(back, AssistantMessage):
        for before, after in zip(message.parts, back.parts, strict=True):
            assert (after.raw, after.provider) == (before.raw, before.provider)


def test_many_messages_come_back_at_once() -> None:
    messages = [*MESSAGES, UserMessage("two surrogates: \ud83d\ude00"), UserMessage("a path: C:\\udir")]
    assert decode_messages(list(map(encode_message, messages))) == messages


def test_absent_fields_are_not_written() -> None:
    form = json.loads(encode_message(AssistantMessage((Text("A"), ToolCall("a", "f", "{}")))))
    assert form == {
        "v": 1,
        "role": "assistant",
        "parts": [
            {"kind": "text", "text": "A"},
            {"kind": "tool_call", "id": "a", "name": "f", "arguments": "{}"},
        ],
        "stop_reason": "end",
        "model": "",
    }
    assert "media" not in encode_message(UserMessage("Q"))


def test_older_messages_are_read() -> None:
    old = '{"v":1,"role":"assistant","parts":[{"kind":"text","text":"A"}],"stop_reason":"end","model":"m"}'
    assert decode_message(old) == AssistantMessage((Text("A"),), "end", "m")
    assert decode_message('{"v":1,"role":"user","text":"Q"}') == UserMessage("Q")


def test_corrupt_media_is_an_error() -> None:
    for media in ('[{"kind":"x"}]', "[5]", '"x"', '{"a":1}'):
        with pytest.raises(StorageError, match="corrupt"):
            decode_message(f'{{"v":1,"role":"user","text":"Q","media":{media}}}')
