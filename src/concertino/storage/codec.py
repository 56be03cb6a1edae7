"""Messages as JSON text, and back. Every later version must read what a store writes today.

A message is an object with its fields by name, `v` (the version of this format) and `role`; a part has its `kind`.
Fields that are None are omitted. Text stays readable: only lone surrogates are escaped, which UTF-8 cannot encode and
broken clients send.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any, TypeVar

from ..errors import DamagedDataError, StorageError
from ..messages import (
    AssistantMessage,
    Media,
    MediaPart,
    Message,
    MessagePart,
    Opaque,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ..usage import Receipt

T = TypeVar("T")

VERSION = 1
"""Version of the format. A reader refuses a greater one."""

_MESSAGES: tuple[type[Message], ...] = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)
_PARTS: tuple[type[MessagePart], ...] = (Text, Reasoning, ToolCall, MediaPart, Opaque)
_BY_ROLE = {cls.role: cls for cls in _MESSAGES}
_BY_KIND: dict[str, type[MessagePart]] = {
    "text": Text,
    "reasoning": Reasoning,
    "tool_call": ToolCall,
    "media": MediaPart,
    "opaque": Opaque,
}
_DEFAULTS = {
    ("provider", Text): "",
    ("provider", ToolCall): "",
    ("provider", MediaPart): "",
    ("handle", ToolMessage): "",
    ("retain", ToolMessage): "window",
    ("retain", UserMessage): "window",
}
"""Fields that were added later, with the value that is omitted: most messages have it."""
_FIELDS: dict[type, tuple[tuple[str, Any], ...]] = {
    cls: tuple((field.name, _DEFAULTS.get((field.name, cls))) for field in fields(cls) if field.name != "kind")
    for cls in (*_MESSAGES, *_PARTS, Media)
}
"""The fields of each class, with the value that is omitted besides None."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPE = "\\ud"
"""The beginning of an escaped surrogate. A message without one has no split text."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")


def encode_message(message: Message, contents: dict[str, str] | None = None) -> str:
    """Return *message* as JSON text in valid Unicode. Raises `StorageError` if it cannot be encoded.

    With *contents*, the text names the content of media by its digest, and the content itself is added to *contents*.
    """
    if not isinstance(message, _MESSAGES):
        raise StorageError(f"cannot store a {type(message).__name__}: pass a message")
    form: dict[str, Any] = {"v": VERSION, "role": message.role, **_plain(message)}
    if isinstance(message, AssistantMessage):
        form["parts"] = [_plain_part(part, contents) for part in message.parts]
    if media := form.pop("media", ()):
        form["media"] = [_media_form(item, contents) for item in media]
    return encode_json(form)


class WithoutContents(dict[str, str]):
    """Empty contents of all media, for readers of texts."""

    def __contains__(self, digest: object) -> bool:
        return True

    def __missing__(self, digest: str) -> str:
        return ""


def decode_message(text: str, contents: Mapping[str, str] | None = None) -> Message:
    """Return the message encoded as *text*, with the *contents* of its media by digest.

    Raises `StorageError` if it is corrupt or of a newer format, or if the content of a medium is missing.
    """
    return _message_of(_load(text), {} if contents is None else contents, split=_ESCAPE in text)


def decode_messages(texts: Sequence[str], contents: Mapping[str, str] | None = None) -> list[Message]:
    """Return the messages encoded as *texts*: one call of the parser for all is faster. Raises as `decode_message`."""
    text, known = f"[{','.join(texts)}]", contents or {}
    split = _ESCAPE in text
    return [_message_of(form, known, split=split) for form in _load(text)]


def _message_of(form: Any, contents: Mapping[str, str], *, split: bool) -> Message:
    """Return the message of *form*, which may have *split* texts. Its dictionaries are changed."""
    if not isinstance(form, dict) or not isinstance(version := form.pop("v", None), int):
        raise DamagedDataError("corrupt stored message: it has no format version")
    if version > VERSION:
        raise StorageError(
            f"a stored message has format {version}, and this concertino reads up to {VERSION}: install a newer one"
        )
    try:
        cls = _BY_ROLE[form.pop("role")]
        if cls is AssistantMessage:
            form["parts"] = tuple([_part(part, contents, split=split) for part in form["parts"]])
        elif "media" in form:
            form["media"] = tuple([_media(item, contents) for item in form["media"]])
        return cls(**(_joined(form) if split else form))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedDataError(f"corrupt stored message: {error!r}") from error


def encode_outcome(outcome: Mapping[str, Any], contents: dict[str, str]) -> str:
    """Return an operation's outcome as JSON text. The contents of its media are added to *contents*, by digest."""
    if media := outcome.get("media"):
        outcome = {**outcome, "media": [_media_form(Media(**form), contents) for form in media]}
    return encode_json(outcome)


def decode_outcome(text: str, contents: Mapping[str, str]) -> dict[str, Any]:
    """Return the outcome encoded as *text*, with the *contents* of its media by digest. Raises `DamagedDataError`."""
    outcome = decode_json(text, dict)
    if media := outcome.get("media"):
        outcome["media"] = [_plain(_media(form, contents)) for form in media]
    return outcome


def outcome_digests(text: str) -> list[str]:
    """Return the digests of the media in the outcome encoded as *text*."""
    if '"digest":' not in text:
        return []
    return [form["digest"] for form in decode_json(text, dict).get("media", ()) if "digest" in form]


def encode_json(value: Any) -> str:
    """Return *value* as JSON text in valid Unicode. Raises `StorageError` if it cannot be encoded."""
    try:
        text = _ENCODER.encode(value)
        if text.isascii() or not _SURROGATE.search(text):
            return text
        # Only a message's texts are split: in free JSON a list may be a list.
        if isinstance(value, dict) and "v" in value:
            text = _ENCODER.encode(_split(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"cannot encode a value as JSON: {error}") from error
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def decode_json(text: str, kind: type[T]) -> T:
    """Return the value encoded as *text*. Raises `StorageError` if it is corrupt or not a *kind*."""
    value = _load(text)
    if not isinstance(value, kind):
        raise DamagedDataError(f"corrupt stored value: expected {kind.__name__}, got {type(value).__name__}")
    return value


def encode_receipt(receipt: Receipt | None) -> str | None:
    """Return *receipt* as JSON text without defaults; None for None."""
    return None if receipt is None else encode_json(receipt_json(receipt))


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """Return *receipt* as JSON without defaults."""
    form = {field.name: getattr(receipt, field.name) for field in fields(receipt)}
    form["cost"] = None if receipt.cost is None else str(receipt.cost)
    return {name: value for name, value in form.items() if value not in (None, "", {})}


def decode_receipt(text: str | None) -> Receipt | None:
    """Return the receipt encoded as *text*. Raises `DamagedDataError` if it is corrupt."""
    if text is None:
        return None
    form = decode_json(text, dict)
    try:
        return Receipt(**{**form, "cost": None if form.get("cost") is None else Decimal(form["cost"])})
    except (TypeError, ArithmeticError) as error:
        raise DamagedDataError(f"corrupt stored receipt: {error!r}") from error


def storable(text: str) -> str:
    """Return *text* in valid Unicode: a lone surrogate, which is not a character, becomes U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub("\ufffd", text)


def memory_id(scope_key: str, text: str) -> str:
    """Return the id of a scope's memory of *text*, the same for the same text."""
    import hashlib  # noqa: PLC0415 - few programs keep memories

    return hashlib.sha256(f"{scope_key}{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _plain(value: Message | MessagePart | Media) -> dict[str, Any]:
    return {
        name: field
        for name, omitted in _FIELDS[type(value)]
        if (field := getattr(value, name)) is not None and field != omitted
    }


def _media_form(media: Media, contents: dict[str, str] | None) -> dict[str, Any]:
    form = _plain(media)
    if contents is not None and media.data:
        contents[media.digest] = form.pop("data")
        form["digest"] = media.digest
    return form


def _media(form: dict[str, Any], contents: Mapping[str, str]) -> Media:
    if (digest := form.pop("digest", None)) is not None:
        if digest not in contents:
            raise DamagedDataError(f"corrupt stored message: the content of its medium {digest[:12]} is missing")
        form["data"] = contents[digest]
    return Media(**_joined(form))


def _plain_part(part: MessagePart, contents: dict[str, str] | None) -> dict[str, Any]:
    if not isinstance(part, _PARTS):
        raise StorageError(f"cannot store a {type(part).__name__}: pass a part of a message")
    form = {"kind": part.kind, **_plain(part)}
    if isinstance(part, MediaPart):
        form["media"] = _media_form(part.media, contents)
    return form


def _part(form: dict[str, Any], contents: Mapping[str, str], *, split: bool) -> MessagePart:
    cls = _BY_KIND[form.pop("kind")]
    if cls is MediaPart:
        form["media"] = _media(form["media"], contents)
    return cls(**(_joined(form) if split else form))


def _joined(form: dict[str, Any]) -> dict[str, Any]:
    """Return *form* with each split text joined."""
    return {name: "".join(value) if isinstance(value, list) else value for name, value in form.items()}


def _split(value: Any) -> Any:
    """Return *value* with each text split where JSON would merge two surrogates into one character."""
    if isinstance(value, str):
        pieces = _PAIR.split(value)
        return value if len(pieces) == 1 else pieces
    if isinstance(value, dict):
        return {name: _split(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_split(item) for item in value]
    return value


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise DamagedDataError(f"corrupt stored value: {error}") from error
