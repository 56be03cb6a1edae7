"""How large messages are: the text that a provider counts, what kind of text it is, and how many blocks it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...messages import AssistantMessage, Media, Message, Part, SystemMessage, ToolMessage, UserMessage
from .base import TokenCounter

FRAME = 8
"""What a provider's own framing of a message costs at most, in tokens."""
PROSE, DATA, FOREIGN = range(3)
"""Kinds of text, which tokenizers treat differently: words, signs and digits, and what is not ASCII."""
KINDS = 3

_PER_FILE = 2_000
"""What stands for the tokens of an image or a file whose size is not known: an image of the usual size costs 258
(Gemini), up to 1,600 (Anthropic) or up to 1,500 (OpenAI)."""
_PER_BYTE = 0.05
"""And of a document or a recording that is known: a page of a PDF has 1,500 to 3,000 tokens and seldom below 50 kB,
a second of speech 10 to 32 tokens and, compressed, some kB."""
_SHORT = 64
"""Bytes of a text whose kind makes no difference, and that an estimate need not look at."""
_SAMPLE = 2_000
"""Characters that are looked at to tell the kind of a text."""
_WORDS = str.maketrans("", "", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")


class Size(NamedTuple):
    """How large a message is, by a counter."""

    tokens: int
    kind: int


Measure = Callable[[Message], Size]


_COUNTED: dict[tuple[str, str], int] = {}
_MOST_COUNTED = 64


def _count_once(counter: TokenCounter, text: str) -> int:
    """The tokens of a prompt, or of tools, that all runs of an agent have: counted for the first of them."""
    key = counter.name, text
    tokens = _COUNTED.get(key)
    if tokens is None:
        if len(_COUNTED) >= _MOST_COUNTED:
            _COUNTED.clear()
        tokens = _COUNTED[key] = counter.count(text)
    return tokens


class Fixed:
    """The parts that go along with every request, each counted once."""

    __slots__ = ("_counted", "_counter", "texts", "tokens")

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counted: dict[str, tuple[str, int]] = {}
        self.texts: Mapping[str, str] = {}
        """By name, such as `system prompt`."""
        self.tokens = 0

    def take(self, texts: Mapping[str, str]) -> None:
        """From now on it is these *texts*: the same object means the same texts."""
        if texts is self.texts:
            return
        for name, text in texts.items():
            if name not in self._counted or self._counted[name][0] is not text:
                self._counted[name] = (text, _count_once(self._counter, text))
        self.texts = texts
        self.tokens = sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """The tokens of each part, by name."""
        return {name: self._counted[name][1] for name in self.texts}


def measure_with(counter: TokenCounter) -> Measure:
    """A function that counts a message with *counter*, once: the message remembers it."""

    def count(message: Message) -> Size:
        text = message_text(message)
        return Size(counter.count(text) + FRAME, _kind(text) if len(text) > _SHORT else PROSE)

    def measure(message: Message) -> Size:
        if not counter.exact and (most := most_tokens(message)) < _SHORT:
            return Size(most // 3 + FRAME, PROSE)
        return message.sized(counter, count)

    return measure


def message_text(message: Message) -> str:
    """All of a message that a provider counts; for images and files, as much text as they may count."""
    match message:
        case AssistantMessage(parts):
            return "".join(map(_part_text, parts))
        case ToolMessage():
            return message.call_id + message.content + "".join(map(_filler, message.media))
        case UserMessage(text):
            return text + "".join(map(_filler, message.media))
        case SystemMessage(text):
            return text


def most_tokens(message: Message) -> int:
    """More tokens than *message* can have: its bytes, without making its text. Every message passes here once."""
    if message.role == "tool":
        size = _bytes(message.content) + len(message.call_id) + FRAME
        return size + sum(map(media_size, message.media)) if message.media else size
    if message.role == "user" and message.media:
        return _bytes(message.text) + sum(map(media_size, message.media)) + FRAME
    if message.role != "assistant":
        return _bytes(message.text) + FRAME
    size = FRAME
    for part in message.parts:
        if part.kind == "tool_call":
            size += _bytes(part.arguments) + len(part.id) + len(part.name)
        else:
            size += _bytes(part.raw if part.kind == "opaque" else part.text)
    return size


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def blocks(message: Message) -> int:
    """How many blocks of content *message* is for a provider that counts them."""
    if message.role == "assistant":
        return max(len(message.parts), 1)
    return 1 + len(message.media) if message.role != "system" else 1


def _part_text(part: Part) -> str:
    if part.kind == "tool_call":
        return f"{part.id}{part.name}{part.arguments}"
    return part.raw if part.kind == "opaque" else part.text


def _filler(media: Media) -> str:
    return " 0" * (media_size(media) // 2)


def media_size(media: Media) -> int:
    """The tokens that *media* may count, an even number."""
    if media.data is None or media.media_type.startswith("image/"):
        return _PER_FILE
    share = 0.75 if media.media_type.startswith("text/") else _PER_BYTE
    return max(_PER_FILE, int(len(media.data) * share) & ~1)


def _kind(text: str) -> int:
    sample = text[:_SAMPLE]
    if not sample.isascii() and len(sample.encode("ascii", "ignore")) < 0.7 * len(sample):
        return FOREIGN
    return DATA if len(sample.translate(_WORDS)) > 0.2 * len(sample) else PROSE
