"""Encode requests: each message becomes JSON once, and a request joins the kept texts.

So a request's cost over the history is the cost of joining strings.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from ...errors import UnsupportedError
from ...messages import Media, MessagePart, ToolSpec
from ...text import marked_charset

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dumps(value: object) -> str:
    """Return compact JSON."""
    return _encode(value)


class RequestBody(NamedTuple):
    """An encoded request, and descriptions of the content that it leaves out."""

    data: bytes
    dropped: tuple[str, ...] = ()


class WireMessage(NamedTuple):
    """A message in a provider's format: JSON elements, joined by commas."""

    role: str
    first: str
    """Elements that precede all others of their turn: tool results, right after their calls."""
    rest: str
    dropped: tuple[str, ...] = ()
    """Descriptions of the content that is left out."""
    refused: str = ""
    """The reason why the provider cannot take the message's media, or ""."""
    note: str = ""
    """Facts about the message that the rest of the request depends on, in the adapter's own format."""


def turns(messages: Iterable[WireMessage], key: str, opening: str = "") -> list[str]:
    """Merge *messages* into turns of alternating roles, whose elements are under *key*.

    A conversation that does not begin with the user gets a first user turn with the element *opening*.
    """
    merged: list[str] = []
    role = ""
    elements: list[str] = []
    results = 0  # the number of elements that precede all others
    for current, first, rest, _, _, _ in messages:
        if current != role and (first or rest):
            if role:
                merged.append(_turn(role, key, elements))
            elif opening and current != "user":
                merged.append(_turn("user", key, [opening]))
            role, elements, results = current, [], 0
        if first:
            elements.insert(results, first)
            results += 1
        if rest:
            elements.append(rest)
    if role:
        merged.append(_turn(role, key, elements))
    return merged


def _turn(role: str, key: str, elements: list[str]) -> str:
    return f'{{"role":"{role}","{key}":[{",".join(elements)}]}}'


def dropped_content(messages: Sequence[WireMessage], provider: str, assistant: str) -> tuple[str, ...]:
    """Return descriptions of the content that *messages* leave out, each once with its count.

    *assistant* is the model's role. Raises `UnsupportedError` if a message after the newest answer has media that the
    provider cannot take; in earlier messages such media count as dropped.
    """
    counts = Counter([description for message in messages if message.dropped for description in message.dropped])
    for message in reversed(messages):
        if message.role == assistant:
            break
        if message.refused:
            raise unsupported_content(message.refused, provider)
    return tuple([name if count == 1 else f"{name} ({count})" for name, count in counts.items()])


def unsupported_content(problem: str, provider: str) -> UnsupportedError:
    """Return the error for content that cannot be sent."""
    error = UnsupportedError(problem, provider=provider)
    error.sent = False
    return error


NOT_RETURNED = frozenset(
    {
        "container", "annotations", "citations", "search_results",
        "groundingMetadata", "citationMetadata", "urlContextMetadata",
    }
)  # fmt: skip
"""Types of metadata that providers send with an answer and do not accept in a conversation."""


def dropped_of(part: MessagePart, own: str) -> tuple[str, ...]:
    """Return descriptions of what *part* loses when only the provider *own* can take its native form."""
    if part.provider == own or (not part.provider and part.kind != "media"):
        return ()
    origin = f"of {part.provider.partition('/')[0] or 'an answer'}"
    raw = part.raw or ""
    if part.kind == "opaque":
        return () if part.type in NOT_RETURNED else (f"{part.type} {origin}",)
    if part.kind == "reasoning":
        return (f"reasoning {origin}",)
    if part.kind == "media":
        return (f"{part.media.kind} {origin}",)
    if part.kind == "tool_call":
        return (f"signature of a call {origin}",) if part.signature else ()
    found = [f"citations {origin}"] if '"citations":[{' in raw or '"annotations":[{' in raw else []
    return (*found, *([f"signature of a text {origin}"] if '"thoughtSignature":' in raw else []))


def merge(base: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Merge *extra* into *base* and return it. Objects are merged key by key; all other values are replaced."""
    for key, value in extra.items():
        existing = base.get(key)
        if isinstance(existing, dict) and isinstance(value, Mapping):
            base[key] = merge(dict(existing), value)
        else:
            base[key] = value
    return base


def encode_body(head: dict[str, Any], extra: Mapping[str, Any], lists: Mapping[str, Iterable[str]]) -> bytes:
    """Encode a request: *head* with *extra* merged into it, and *lists*, whose elements are JSON already.

    A list that *extra* names as well is replaced, except for tools, which are joined: a provider's own tools can be
    declared nowhere else.
    """
    if "tools" in extra and "tools" in lists and isinstance(extra["tools"], list):
        lists = {**lists, "tools": [*lists["tools"], *map(dumps, extra["tools"])]}
        extra = {name: value for name, value in extra.items() if name != "tools"}
    text = dumps(merge(head, extra))[1:-1]
    pieces = [b"{", _utf8(text)]  # joined once: copying a long history costs more than everything else here
    comma = "," if text else ""
    for name, elements in lists.items():
        if name not in extra:
            pieces += [f'{comma}"{name}":['.encode(), _utf8(",".join(elements)), b"]"]
            comma = ","
    return b"".join([*pieces, b"}"])


def _utf8(text: str) -> bytes:
    # A lone surrogate has no UTF-8 form; every provider accepts a question mark in its position.
    return text.encode("utf-8", "replace")


class ToolForms:
    """The JSON of a request's tools, encoded again only when the tuple changes."""

    def __init__(self, build: Callable[[ToolSpec], object]) -> None:
        self._build = build
        self._tools: tuple[ToolSpec, ...] = ()
        self._forms: list[str] = []

    def __call__(self, tools: tuple[ToolSpec, ...]) -> list[str]:
        """Return the JSON of each of *tools*."""
        if tools is not self._tools:
            self._forms = [dumps(self._build(tool)) for tool in tools]
            self._tools = tools
        return self._forms


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a JSON number")
    return value


_decode = json.JSONDecoder(parse_float=_finite, parse_constant=_finite).decode
"""Strict JSON, as providers read it: models write `NaN` and `Infinity`, and Python's default accepts them."""


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def is_object(text: str) -> bool:
    """Return whether *text* is a complete JSON object."""
    return text.rstrip().endswith("}") and _object(text) is not None


def arguments_object(text: str) -> dict[str, Any]:
    """Return a call's arguments as the object that providers expect.

    Arguments that are not a JSON object become the value of the single key `arguments`.
    """
    value = _object(text or "{}")
    return {"arguments": text} if value is None else value


def arguments_text(text: str) -> str:
    """Return a call's arguments as the JSON text of an object, unchanged if they are one."""
    return text if _object(text) is not None else dumps(arguments_object(text))


def replace_fields(raw: str, **fields: Any) -> str:
    """Return the JSON object *raw* with *fields* replaced; None removes a field."""
    value = {**json.loads(raw), **fields}
    return dumps({name: kept for name, kept in value.items() if kept is not None or name not in fields})


_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64  # OpenAI's limit, the shortest


def portable_id(call_id: str, longest: int = 64) -> str:
    """Return *call_id* if every provider accepts it, else a hash of it."""
    if len(call_id) <= longest and _ID.fullmatch(call_id):
        return call_id
    return f"call_{blake2b(call_id.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"


def portable_name(name: str) -> str:
    """Return a tool's name with the characters and length that every provider accepts.

    Models call tools by invalid names, which no provider accepts in a conversation.
    """
    return _NOT_IN_NAMES.sub("_", name[:_LONGEST_NAME]) or "unnamed"


IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of images that OpenAI's and Anthropic's formats take."""


def is_text(media: Media) -> bool:
    """Return whether the content of *media* is given and is text, which every model can read."""
    return media.data is not None and media.is_text


def media_type(media: Media) -> str:
    """Return the registered name of the media's type, without parameters such as `charset` or `codecs`."""
    return "image/jpeg" if media.essence == "image/jpg" else media.essence


def media_url(media: Media) -> str:
    """Return the media's URL, or its data as a data URL."""
    return media.url or f"data:{media_type(media)};base64,{media.data}"


def media_text(media: Media) -> str:
    """Return the content of a text file, or "" if its data is not base64.

    The charset is that of its byte order mark, else UTF-8, else Windows-1252, in which other files mostly are.
    """
    try:
        content = base64.b64decode(media.data or "", validate=True)
    except (binascii.Error, ValueError):
        return ""
    try:
        return content.decode(marked_charset(content) or "utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def media_placeholder(media: Media) -> str:
    """Return the text that replaces media which the provider cannot take."""
    name = f" {media.name!r}" if media.name else ""
    return f"({_NOUNS[media.kind]}{name} that cannot be shown here)"


def media_refusal(media: Media, api: str, remedy: str) -> str:
    """Return the error message for media that *api* cannot take.

    The media's name is user content and stays out of it, because errors are logged.
    """
    source = "data" if media.data is not None else "url" if media.url is not None else "file_id"
    return f"{api} does not take {_NOUNS[media.kind]} ({media.media_type}) by {source}; {remedy}"


_NOUNS = {"image": "an image", "audio": "a recording", "video": "a video", "document": "a document"}
