"""Message sizes: the text that a provider counts, and the number of content blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ...messages import Media, Message, MessagePart
from .base import TokenCounter

FRAME = 8
"""Upper bound of the tokens that a provider adds to each message."""

ANY_MODEL = "any"
"""Instead of the id of a model: the largest size at any of them."""
_PER_FILE = 2_000
"""Assumed tokens of an image or file of unknown size."""
_HEADER = 120_000
"""Characters of base64 in which an image names its size; a JPEG may begin with 64 kB of other data."""
_PER_BYTE = 0.05
"""Assumed tokens per byte of a document or recording. A PDF page has 1,500 to 3,000 tokens and rarely less than 50 kB;
a second of speech has 10 to 32 tokens and some kB when compressed."""

Measure = Callable[[Message], int]


def measure_with(counter: TokenCounter, model: str = "") -> Measure:
    """Return a function that measures a message with *counter*, and its images as *model* bills them.

    The message caches the result.
    """
    return partial(_measure, counter, model)


def _measure(counter: TokenCounter, model: str, message: Message) -> int:
    known = getattr(message, "measured", None)
    if known is not None and known[0] is counter and known[2] in (None, model):
        return known[1]  # type: ignore[no-any-return]
    size = counter.count(message_text(message, model)) + FRAME
    billed_by = None  # the model that bills images
    if message.role == "assistant":
        for part in message.parts:
            if part.kind == "media":
                billed_by = model
    elif message.role != "system" and message.media:
        billed_by = model
    object.__setattr__(message, "measured", (counter, size, billed_by))
    return size


def tokens_of(counter: TokenCounter, model: str, message: Message) -> int:
    """Return the tokens of *message* by *counter*, without a provider's framing; the message caches its size."""
    return _measure(counter, model, message) - FRAME


def message_text(message: Message, model: str = "") -> str:
    """Return the text that a provider counts; images and files become filler of their size at *model*."""
    if message.role == "assistant":
        parts = message.parts
        return _part_text(model, parts[0]) if len(parts) == 1 else "".join([_part_text(model, part) for part in parts])
    if message.role == "system":
        return message.text
    text = message.text if message.role == "user" else message.call_id + message.content
    return text + "".join([_filler(media, model) for media in message.media]) if message.media else text


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
                    text, size = "", size + media_size(part.media, ANY_MODEL)
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
            size += sum([media_size(media, ANY_MODEL) for media in message.media])
    return size


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _part_text(model: str, part: MessagePart) -> str:
    if part.kind == "tool_call":
        return f"{part.id}{part.name}{part.arguments}"
    if part.kind == "media":
        return _filler(part.media, model)
    return part.raw if part.kind == "opaque" else part.text


def _filler(media: Media, model: str) -> str:
    return " 0" * (media_size(media, model) // 2)


def media_size(media: Media, model: str = "") -> int:
    """Return the assumed tokens of *media*, an even number; an image as *model* bills it."""
    if media.kind == "image":
        width, height = _dimensions(media.data[:_HEADER]) if media.data else (0, 0)
        if not width or not height:
            return _PER_FILE
        from .image_tokens import image_rule, largest  # noqa: PLC0415 - few conversations have images

        rule = largest if model == ANY_MODEL else image_rule(model)
        return max(2, rule(width, height) & ~1)
    if media.data is None:
        return _PER_FILE
    share = 0.75 if media.is_text else _PER_BYTE
    return max(_PER_FILE, int(len(media.data) * share) & ~1)


def _dimensions(data: str) -> tuple[int, int]:
    """Return width and height of the PNG, GIF, JPEG or WebP that begins with *data* in base64; zeros if unknown."""
    from binascii import Error, a2b_base64  # noqa: PLC0415 - few conversations have images

    try:
        head = a2b_base64(data[: len(data) // 4 * 4])
    except Error:
        return 0, 0
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head.startswith(b"GIF8") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP" and len(head) >= 30:
        return _webp(head)
    at = 2 if head.startswith(b"\xff\xd8") else len(head)
    while at + 9 <= len(head) and head[at] == 0xFF:  # a JPEG's segments: marker, length, content
        if 0xC0 <= head[at + 1] <= 0xCF and head[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9], "big"), int.from_bytes(head[at + 5 : at + 7], "big")
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return 0, 0


def _webp(head: bytes) -> tuple[int, int]:
    """Return width and height from the first chunk of a WebP (RFC 9649)."""
    if head[12:16] == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
