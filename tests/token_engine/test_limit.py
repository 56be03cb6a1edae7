"""The hard limit: no request of a long conversation exceeds the window, counted with a tokenizer of the provider.

`python -m benchmarks.context_counts` measures the same over more conversations.
"""

from __future__ import annotations

from random import Random

import pytest
from benchmarks.context_conversations import DATA, Conversation, chained, conversation, drawn
from benchmarks.context_counts import largest

from concertino.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage

WINDOWS = (8_000, 16_000, 32_000, 64_000)


def pages() -> Conversation:
    """Return a loop that reads pages, most of them too long for a window of 8,000 tokens."""
    chance, messages = Random(3), list[Message]([UserMessage("Read them all.")])
    for number in range(40):
        found = f"Page {number}: the list of orders. " * chance.choice((20, 200, 2_000))
        messages += [
            AssistantMessage((Text("Next."), ToolCall(f"c{number}", "work", f'{{"id": "c{number}", "of": ""}}'))),
            ToolMessage(f"c{number}", "work", found),
        ]
    return conversation("pages", [*messages, AssistantMessage((Text("Done."),))])


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.3])
@pytest.mark.parametrize("window", WINDOWS[:2])
def test_no_request_exceeds_the_window(window: int, factor: float) -> None:
    assert largest(pages(), window, factor) <= window
    assert largest(conversation("drawn", drawn(5, 30)), window, factor) <= window


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the recorded conversations are not part of a clone")
@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
def test_no_request_of_a_recorded_conversation_exceeds_the_window(window: int, *, unseen: bool) -> None:
    for kind, played in chained(unseen=unseen).items():
        assert largest(played, window, 1.0) <= window, kind
