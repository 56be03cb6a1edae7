"""Transcripts of messages that have left the view: word for word, or the passages of them that match a query.

Each of several messages or passages begins with a mark that is derived from all of them. So no text in a result can
pass for another message. A text that is recalled alone is returned as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

from ..ids import digest
from ..messages import AssistantMessage, Message, ToolMessage
from ..records import record
from ..token_engine.digests import whole_of
from ..token_engine.token_engine import TokenEngine

_PASSAGE = 600
"""Characters of a passage that a search finds."""
_PASSAGES = 8
"""Passages that a search finds at most."""
_WORDS = 100
"""Words of a query that count: each is looked for in all that is not in view."""
_WORD, _UNSPACED = (
    re.compile(r"[\w\u0900-\u0dff./@:#-]{2,}"),
    re.compile(r"(?=([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2}))"),
)
"""The words of a query, with the vowel signs of Indian scripts, which `\\w` lacks; and every pair of characters in
scripts that are written without spaces: Thai, Lao, Khmer, kana and Chinese."""


@record
class Recalled:
    """Text that is not in view."""

    text: str
    stored: bool = True
    """False if a part of it must not be kept after the run."""


@record
class _Part:
    """A message or a passage of it."""

    author: str
    text: str
    stored: bool


def recall(window: TokenEngine, handle: str = "", query: str = "") -> Recalled | None:
    """Return the whole content that was cut, reduced, summarized or omitted under *handle*; None if unknown.

    With *query*, return the passages that match it best, of that content or of all that is not in view.
    """
    parts = list(map(_part, window.recall(handle)))
    if query:
        parts = _found_in(parts, query)
    elif len(parts) == 1:
        return Recalled(parts[0].text, parts[0].stored)
    return _marked(parts) if parts else None


def transcript(messages: Sequence[Message], *, longest: int | None = None, most: int | None = None) -> str:
    """Return the text of *messages*, as they are sent, with their authors.

    Each text and each call's arguments are cut to *longest* characters. With *most*, only the last messages are
    returned, whose texts together have at most that many characters.
    """
    parts = [_part(message, longest, whole=False) for message in messages]
    if most is not None:
        parts = [_Part(part.author, part.text[:most], part.stored) for part in parts]
        sizes = accumulate(len(part.text) for part in reversed(parts))
        parts = parts[-sum(size <= most for size in sizes) :]
    return _marked(parts).text


def _part(message: Message, longest: int | None = None, *, whole: bool = True) -> _Part:
    """Return the text of *message*; a result as it is sent unless *whole*."""
    if isinstance(message, ToolMessage):
        text = whole_of(message) if whole else message.content
        return _Part(f"result of {message.name}", text[:longest], message.stored)
    text = message.text[:longest]
    if isinstance(message, AssistantMessage):
        text += "".join(f"\n{call.name}({call.arguments[:longest]})" for call in message.tool_calls)
    return _Part(message.role, text, message.stored)


def _marked(parts: Sequence[_Part]) -> Recalled:
    mark = f"[{digest(repr([(part.author, part.text) for part in parts]))[:12]}]"
    texts = [f"{mark} {part.author}:\n{part.text}" for part in parts]
    head = f"{mark} begins each message; lines without it are text of the message."
    return Recalled("\n\n".join([head, *texts]), all(part.stored for part in parts))


def _found_in(parts: Sequence[_Part], query: str) -> list[_Part]:
    """Return the passages of *parts* that match *query* best, in order.

    A passage matches by the words that it contains, whatever their case and accents; a rare word counts more, and the
    whole query most.
    """
    phrase = _folded(query.strip())
    found = dict.fromkeys([*_WORD.findall(phrase), *_UNSPACED.findall(phrase)]) or [phrase]
    words = list(islice(found, _WORDS))
    passages = [_Part(part.author, text, part.stored) for part in parts for text in _passages(part.text)]
    folded = [_folded(f"{passage.author}:\n{passage.text}") for passage in passages]
    frequency = {word: sum(word in text for text in folded) for word in words}
    weights = {word: math.log(1 + len(passages) / count) for word, count in frequency.items() if count}
    scores = [sum(weights[word] for word in weights if word in text) + 10 * (phrase in text) for text in folded]
    best = sorted(filter(scores.__getitem__, range(len(scores))), key=lambda number: (-scores[number], -number))
    return [passages[number] for number in sorted(best[:_PASSAGES])]


def _folded(text: str) -> str:
    """Return *text* without differences of case, accents and composition."""
    if text.isascii():
        return text.lower()
    import unicodedata  # noqa: PLC0415 - few runs need it

    return "".join([each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each)])


def _passages(text: str) -> Iterator[str]:
    """Yield *text* in passages that overlap by a quarter, so that none cuts a sentence that another has not whole."""
    step = _PASSAGE * 3 // 4
    for start in range(0, max(len(text) - _PASSAGE // 4, 1), step):
        yield text[start : start + _PASSAGE]
