"""What is counted of messages whose parts are no plain text."""

from __future__ import annotations

import pytest

from concertino.messages import AssistantMessage, Media, Message, Opaque, Text, ToolCall, ToolMessage, UserMessage
from concertino.token_engine.estimate import EstimatingCounter
from concertino.token_engine.window import SlidingWindow, _bytes, message_text

LARGE = "A" * 4_000_000
MESSAGES: list[Message] = [
    UserMessage("Q", (Media("image/png", data=LARGE),)),
    UserMessage("Ä", (Media("application/pdf", data=LARGE), Media("audio/wav", url="u"))),
    UserMessage("Q", (Media("text/plain", data="A" * 9_001),)),
    ToolMessage("id", "f", "x", media=(Media("image/png", data="AAAA"),)),
    AssistantMessage((Opaque("p", "t", '{"é":1}'), Text("Ü", raw="{}", provider="p"), ToolCall("a", "f", "{}"))),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_the_bytes_bound_the_text(message: Message) -> None:
    assert _bytes(message) >= len(message_text(message).encode())


def test_a_picture_counts_as_a_picture_and_not_as_its_bytes() -> None:
    picture, document, note = (EstimatingCounter().count(message_text(message)) for message in MESSAGES[:3])
    assert 1_000 < picture < 5_000
    assert 50_000 < document < 300_000
    assert 2_000 < note < 9_000


def test_a_conversation_with_a_picture_fits_the_window() -> None:
    window = SlidingWindow(EstimatingCounter(), 20_000)
    for message in (UserMessage("Q"), MESSAGES[0], UserMessage("And?")):
        window.append(message)
    assert len(window.view({}, 1_000)) == 3
