"""Message sizes: the text that a provider counts, and the number of content blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ...messages import Media, Message, MessagePart
from .base import TokenCounter

FRAME = 8
"""Upper bound of the tokens that a provider adds to each message."""

_PER_FILE = 2_000
"""Assumed tokens of an image or file of unknown size."""
_PER_PIXEL, _LEAST_IMAGE, _MOST_IMAGE = 1 / 750, 260, 1_600
"""Tokens of an image: Anthropic's price of a pixel, between Gemini's price of an image and Anthropic's largest."""
_HEADER = 120_000
"""Characters of base64 in which an image names its size; a JPEG may begin with 64 kB of other data."""
_PER_BYTE = 0.05
"""Assumed tokens per byte of a document or recording. A PDF page has 1,500 to 3,000 tokens and rarely less than 50 kB;
a second of speech has 10 to 32 tokens and some kB when compressed."""

Measure = Callable[[Message], int]


def measure_with(counter: TokenCounter) -> Measure:
    """Return a function that measures a message with *counter*; the message caches the result."""
    return partial(_measure, counter)


def _measure(counter: TokenCounter, message: Message) -> int:
    known = getattr(message, "measured", None)
    if known is not None and known[0] is counter:
        return known[1]  # type: ignore[no-any-return]
    size = counter.count(message_text(message)) + FRAME
    object.__setattr__(message, "measured", (counter, size))
    return size


def tokens_of(counter: TokenCounter, message: Message) -> int:
    """Return the tokens of *message* by *counter*, without a provider's framing; the message caches its size."""
    return _measure(counter, message) - FRAME


def message_text(message: Message) -> str:
    """Return the text that a provider counts; images and files become filler of their assumed size."""
    if message.role == "assistant":
        parts = message.parts
        return _part_text(parts[0]) if len(parts) == 1 else "".join(map(_part_text, parts))
    if message.role == "system":
        return message.text
    text = message.text if message.role == "user" else message.call_id + message.content
    return text + "".join(map(_filler, message.media)) if message.media else text


def max_tokens(messages: Iterable[Message]) -> int:
    """Return an upper bound of the tokens of *messages*, their bytes, without building their text."""
    size = 0
    for message in messages:
        size += FRAME
        if message.role == "assistant":
            for part in message.parts:
                if part.kind == "tool_call":
                    text, size = part.arguments, size + len(part.id) + len(part.name)
                elif part.kind == "media":
                    text, size = "", size + media_size(part.media)
                else:
                    text = part.raw if part.kind == "opaque" else part.text
                size += len(text) if text.isascii() else _bytes(text)
            continue
        if message.role == "tool":
            text, size = message.content, size + len(message.call_id)
        else:
            text = message.text
        size += len(text) if text.isascii() else _bytes(text)
        if message.role != "system" and message.media:
            size += sum(map(media_size, message.media))
    return size


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def blocks(message: Message) -> int:
    """Return the number of content blocks that *message* becomes at a provider that counts them."""
    if message.role == "assistant":
        return max(len(message.parts), 1)
    return 1 + len(message.media) if message.role != "system" else 1


def _part_text(part: MessagePart) -> str:
    if part.kind == "tool_call":
        return f"{part.id}{part.name}{part.arguments}"
    if part.kind == "media":
        return _filler(part.media)
    return part.raw if part.kind == "opaque" else part.text


def _filler(media: Media) -> str:
    return " 0" * (media_size(media) // 2)


def media_size(media: Media) -> int:
    """Return the assumed tokens of *media*, an even number."""
    if media.kind == "image":
        pixels = _pixels(media.data[:_HEADER]) if media.data else 0
        return min(max(int(pixels * _PER_PIXEL), _LEAST_IMAGE), _MOST_IMAGE) & ~1 if pixels else _PER_FILE
    if media.data is None:
        return _PER_FILE
    share = 0.75 if media.is_text else _PER_BYTE
    return max(_PER_FILE, int(len(media.data) * share) & ~1)


def _pixels(data: str) -> int:
    """Return the pixels of the PNG, GIF or JPEG that begins with *data* in base64; 0 if unknown."""
    from binascii import Error, a2b_base64  # noqa: PLC0415 - few conversations have images

    try:
        head = a2b_base64(data[: len(data) // 4 * 4])
    except Error:
        return 0
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        return int.from_bytes(head[16:20], "big") * int.from_bytes(head[20:24], "big")
    if head.startswith(b"GIF8") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little") * int.from_bytes(head[8:10], "little")
    at = 2 if head.startswith(b"\xff\xd8") else len(head)
    while at + 9 <= len(head) and head[at] == 0xFF:  # a JPEG's segments: marker, length, content
        if 0xC0 <= head[at + 1] <= 0xCF and head[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 5 : at + 7], "big") * int.from_bytes(head[at + 7 : at + 9], "big")
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return 0
