"""The texts that `recall` shows: what has left the view, word for word, or the passages of it that match a query."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from ..messages import AssistantMessage, Message, ToolMessage
from ..records import record
from ..token_engine.digests import whole_of
from ..token_engine.token_engine import TokenEngine

_PASSAGE = 600
"""Characters of a passage that a search finds."""
_PASSAGES = 8
"""Passages that a search finds at most."""


@record
class Recalled:
    """Text that is not in view."""

    text: str
    stored: bool = True
    """False if a part of it must not be kept after the run."""


def recall(window: TokenEngine, handle: str = "", query: str = "") -> Recalled | None:
    """Return the whole content that was cut, reduced, summarized or omitted under *handle*; None if unknown.

    With *query*, return the passages that match it best, of that content or of all that is not in view.
    """
    messages = window.recall(handle)
    if not messages:
        return None
    if handle and isinstance(result := messages[0], ToolMessage):
        texts = [Recalled(whole_of(result), result.stored)]
    else:
        texts = list(map(transcript, messages))
    if handle:
        texts = [_joined("\n\n", texts)]
    return _found_in(texts, query) if query else texts[0]


def transcript(message: Message, *, whole: bool = True) -> Recalled:
    """Return the text of *message* with its role; a result as it is sent unless *whole*."""
    if isinstance(message, ToolMessage):
        return Recalled(f"result of {message.name}:\n{whole_of(message) if whole else message.content}", message.stored)
    if isinstance(message, AssistantMessage):
        calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
        return Recalled(f"assistant:\n{message.text}{calls}", message.stored)
    return Recalled(f"{message.role}:\n{message.text}", message.stored)


def _found_in(texts: Sequence[Recalled], query: str) -> Recalled | None:
    """Return the passages of *texts* that match *query* best, in order; None if nothing matches.

    A passage matches by the words that it contains; a rare word counts more, and the whole query most.
    """
    phrase = query.lower().strip()
    words = {word for word in re.findall(r"[\w./@:#-]+", phrase) if len(word) > 1} or {phrase}
    passages = [Recalled(text, whole.stored) for whole in texts for text in _passages(whole.text)]
    lower = [passage.text.lower() for passage in passages]
    frequency = {word: sum(word in text for text in lower) for word in words}
    weights = {word: math.log(1 + len(passages) / count) for word, count in frequency.items() if count}
    scores = [sum(weights[word] for word in weights if word in text) + 10 * (phrase in text) for text in lower]
    best = sorted(filter(scores.__getitem__, range(len(scores))), key=lambda number: (-scores[number], -number))
    return _joined("\n\n[...]\n", [passages[number] for number in sorted(best[:_PASSAGES])]) if best else None


def _joined(separator: str, texts: Sequence[Recalled]) -> Recalled:
    return Recalled(separator.join([each.text for each in texts]), all(each.stored for each in texts))


def _passages(text: str) -> Iterator[str]:
    """Yield *text* in passages that overlap by a quarter, so that none cuts a sentence that another has not whole."""
    step = _PASSAGE * 3 // 4
    for start in range(0, max(len(text) - _PASSAGE // 4, 1), step):
        yield text[start : start + _PASSAGE]
