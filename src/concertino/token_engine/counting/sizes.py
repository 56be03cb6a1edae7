"""Message sizes: the text that a provider counts, and the number of content blocks."""

from __future__ import annotations

from collections.abc import Iterable

from ...messages import Media, Message, MessagePart
from .base import TokenCounter

FRAME = 8
"""Upper bound of the tokens that a provider adds to each message."""
_PER_FILE = 2_000
"""Assumed tokens of an image or file of unknown size."""
_PER_BYTE = 0.05
"""Assumed tokens per byte of a document or recording. A PDF page has 1,500 to 3,000 tokens and rarely less than 50 kB;
a second of speech has 10 to 32 tokens and some kB when compressed."""


def size_of(counter: TokenCounter, model: str, message: Message, frame: int = FRAME) -> int:
    """Return the tokens of *message* by *counter*, its images as *model* bills them; the message caches its size."""
    known = getattr(message, "measured", None)
    if known is not None and known[0] is counter and known[2] == model:
        return known[1] + frame  # type: ignore[no-any-return]
    size = counter.count(message_text(message, model))
    object.__setattr__(message, "measured", (counter, size, model))
    return size + frame


def message_text(message: Message, model: str | None = "") -> str:
    """Return the text that a provider counts; images and files become filler of their size at *model* (None: any)."""
    if message.role == "assistant":
        parts = message.parts
        return _part_text(model, parts[0]) if len(parts) == 1 else "".join([_part_text(model, part) for part in parts])
    if message.role == "system":
        return message.text
    text = message.text if message.role == "user" else message.call_id + message.content
    return text + "".join([_filler(media, model) for media in message.media]) if message.media else text


def max_tokens(messages: Iterable[Message]) -> int:
    """Return an upper bound of the tokens of *messages*: a token is at least a byte."""
    size = 0
    for message in messages:  # as `message_text`, almost without a call: most steps need no more than this
        text = ""
        if message.role == "assistant":
            for part in message.parts:
                if part.kind == "text":
                    text += part.text
                elif part.kind == "tool_call":
                    text += part.id + part.name + part.arguments
                else:
                    text += _part_text(None, part)
        elif message.role == "system" or message.media:
            text = message_text(message, None)
        else:
            text = message.text if message.role == "user" else message.call_id + message.content
        size += FRAME + (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))
    return size


def _part_text(model: str | None, part: MessagePart) -> str:
    if part.kind == "tool_call":
        return f"{part.id}{part.name}{part.arguments}"
    if part.kind == "media":
        return _filler(part.media, model)
    return part.raw if part.kind == "opaque" else part.text


def _filler(media: Media, model: str | None) -> str:
    return " 0" * (media_size(media, model) // 2)


def media_size(media: Media, model: str | None = "") -> int:
    """Return the assumed tokens of *media*, an even number; an image as *model* bills it, None: as any model does."""
    if media.data is None:
        return _PER_FILE
    if media.kind == "image":
        from ...image_tokens import image_tokens  # noqa: PLC0415 - few conversations have images

        tokens = image_tokens(media.data, model)
        return max(2, tokens & ~1) if tokens else _PER_FILE
    share = 0.75 if media.is_text else _PER_BYTE
    return max(_PER_FILE, int(len(media.data) * share) & ~1)
