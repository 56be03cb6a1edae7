"""What all adapters need to write a request: finished JSON that is joined from kept pieces.

A message, and a set of tools, becomes JSON text once. A request is these texts joined, so its cost over the history
is that of joining strings.
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
from ...messages import Media, Part, ToolSpec

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dumps(value: object) -> str:
    """Compact JSON."""
    return _encode(value)


class Body(NamedTuple):
    """A request: its JSON, and in words what it leaves out of the conversation."""

    data: bytes
    dropped: tuple[str, ...] = ()


class Form(NamedTuple):
    """A message in a provider's format. Elements are JSON, joined by commas."""

    role: str
    first: str
    """Elements that stand before all others of their turn: results right after their calls."""
    rest: str
    dropped: tuple[str, ...] = ()
    """What of the message is left out, in words."""
    refused: str = ""
    """Why this provider cannot take what the message shows; "" where it can."""
    mark: str = ""
    """What the request as a whole must know of the message."""


def turns(forms: Iterable[Form], key: str, opening: str = "") -> list[str]:
    """Messages as turns whose elements are in *key*: of one role only one in a row.

    A conversation that does not begin with the user is given *opening*, an element of the user's, where there is one.
    """
    found: list[str] = []
    role = ""
    elements: list[str] = []
    results = 0  # how many of the elements stand before all others
    for now, first, rest, _, _, _ in forms:
        if now != role and (first or rest):
            if role:
                found.append(_turn(role, key, elements))
            elif opening and now != "user":
                found.append(_turn("user", key, [opening]))
            role, elements, results = now, [], 0
        if first:
            elements.insert(results, first)
            results += 1
        if rest:
            elements.append(rest)
    if role:
        found.append(_turn(role, key, elements))
    return found


def _turn(role: str, key: str, elements: list[str]) -> str:
    return f'{{"role":"{role}","{key}":[{",".join(elements)}]}}'


def losses(forms: Sequence[Form], provider: str, answers: str) -> tuple[str, ...]:
    """What *forms* leave out, in words, each once with its number. *answers* is the role of the model.

    Raises `UnsupportedError` if the user shows something now that cannot be taken; what was shown before the newest
    answer is history, and history is taken as far as it can be.
    """
    found = Counter([word for form in forms if form.dropped for word in form.dropped])
    for form in reversed(forms):
        if form.role == answers:
            break
        if form.refused:
            raise UnsupportedError(form.refused, provider=provider)
    return tuple([word if number == 1 else f"{word} ({number})" for word, number in found.items()])


def lost(part: Part, own: str) -> tuple[str, ...]:
    """What *part* loses, in words, where only what is of *own* can go back as it came."""
    if part.provider in (own, ""):
        return ()
    whose = f"of {part.provider.partition('/')[0]}"
    raw = part.raw or ""
    if part.kind == "opaque":
        return () if part.type in ASIDE else (f"{part.type} {whose}",)
    if part.kind == "reasoning":
        return (f"reasoning {whose}",)
    if part.kind == "tool_call":
        return (f"signature of a call {whose}",) if part.signature else ()
    found = [f"citations {whose}"] if '"citations":[{' in raw or '"annotations":[{' in raw else []
    return (*found, *([f"signature of a text {whose}"] if '"thoughtSignature":' in raw else []))


ASIDE = frozenset(
    {"container", "annotations", "citations", "groundingMetadata", "citationMetadata", "urlContextMetadata"}
)
"""What providers send beside an answer and do not take back in a conversation: kept for whoever reads the message."""


def merge(base: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """*base* with *extra* over it: objects are merged key by key, all else is replaced. *base* is changed."""
    for key, value in extra.items():
        here = base.get(key)
        if isinstance(here, dict) and isinstance(value, Mapping):
            base[key] = merge(dict(here), value)
        else:
            base[key] = value
    return base


def body(head: dict[str, Any], extra: Mapping[str, Any], lists: Mapping[str, Iterable[str]]) -> bytes:
    """A request's JSON: *head* with *extra* merged into it, and *lists*, whose elements are JSON already.

    A list that *extra* names as well gives way to it; only tools are joined, as those that run at the provider can be
    named nowhere else.
    """
    if "tools" in extra and "tools" in lists and isinstance(extra["tools"], list):
        lists = {**lists, "tools": [*lists["tools"], *map(dumps, extra["tools"])]}
        extra = {name: value for name, value in extra.items() if name != "tools"}
    text = dumps(merge(head, extra))[1:-1]
    pieces = [b"{", _utf8(text)]  # joined once: copies of a long history cost more than all else here
    comma = "," if text else ""
    for name, elements in lists.items():
        if name not in extra:
            pieces += [f'{comma}"{name}":['.encode(), _utf8(",".join(elements)), b"]"]
            comma = ","
    return b"".join([*pieces, b"}"])


def _utf8(text: str) -> bytes:
    """A lone surrogate has no UTF-8 form; a question mark in its place is what every provider accepts."""
    return text.encode("utf-8", "replace")


class ToolForms:
    """The wire form of a request's tools, built again only when the tuple is another one."""

    def __init__(self, build: Callable[[ToolSpec], object]) -> None:
        self._build = build
        self._tools: tuple[ToolSpec, ...] = ()
        self._forms: list[str] = []

    def __call__(self, tools: tuple[ToolSpec, ...]) -> list[str]:
        """The JSON of each of *tools*."""
        if tools is not self._tools:
            self._forms = [dumps(self._build(tool)) for tool in tools]
            self._tools = tools
        return self._forms


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number of JSON")
    return value


_decode = json.JSONDecoder(parse_float=_finite, parse_constant=_finite).decode
"""As providers read JSON: `NaN` and `Infinity`, which models write and Python takes, are none of it."""


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that *text* is; None if it is none."""
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def arguments_object(text: str) -> dict[str, Any]:
    """A call's arguments as the object that providers want back.

    What the model wrote may be broken; then it comes back as the text that it was, under the name `arguments`.
    """
    value = _object(text or "{}")
    return {"arguments": text} if value is None else value


def spliced(raw: str, **fields: Any) -> str:
    """*raw*, an object's JSON, with *fields* in place of its own; None takes one out."""
    value = {**json.loads(raw), **fields}
    return dumps({name: held for name, held in value.items() if held is not None or name not in fields})


def is_object(text: str) -> bool:
    """Whether *text* is a whole JSON object, so that nothing which may follow belongs to it."""
    return text.rstrip().endswith("}") and _object(text) is not None


def arguments_text(text: str) -> str:
    """The same as text: unchanged if it is an object."""
    return text if _object(text) is not None else dumps(arguments_object(text))


_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64  # of OpenAI, the shortest of all


def plain_id(call_id: str, longest: int = 64) -> str:
    """A call's id in letters that each provider takes, and no longer than *longest*: the same for the same id, another
    one for another."""
    if len(call_id) <= longest and _ID.fullmatch(call_id):
        return call_id
    return f"call_{blake2b(call_id.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"


def plain_name(name: str) -> str:
    """The name by which a tool was called, as providers take it in a conversation: models call tools by names that no
    tool may have, and no provider takes these back."""
    return _NOT_IN_NAMES.sub("_", name[:_LONGEST_NAME]) or "unnamed"


_KINDS = {"image": "image", "audio": "audio", "video": "video", "text": "document", "application": "document"}


def kind_of(media: Media) -> str:
    """`image`, `audio`, `video` or `document`."""
    return _KINDS.get(media.media_type.partition("/")[0], "document")


def data_url(media: Media) -> str:
    """The content as a URL, or the URL that was given."""
    return media.url or f"data:{media.media_type};base64,{media.data}"


def text_of(media: Media) -> str:
    """The text of a text file; "" if it is none."""
    try:
        return base64.b64decode(media.data or "", validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


def placeholder(media: Media) -> str:
    """What stands in a message for what this provider cannot take."""
    named = f" {media.name!r}" if media.name else ""
    return f"({_WORDS[kind_of(media)]}{named} that cannot be shown here)"


def refusal(media: Media, api: str, remedy: str) -> str:
    """Why *api* cannot take *media*. Without its name, which is the user's word: this is read in logs."""
    where = "data" if media.data is not None else "url" if media.url is not None else "file_id"
    return f"{api} does not take {_WORDS[kind_of(media)]} ({media.media_type}) by {where}; {remedy}"


_WORDS = {"image": "an image", "audio": "a recording", "video": "a video", "document": "a document"}
