"""Messages: the pure values of a conversation, free of storage ids, I/O and provider formats.

A message caches its encoding in a provider's format (`Message.wire`), because messages never change and every step
sends the whole conversation again.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress, islice, repeat
from operator import is_, not_
from typing import Any, ClassVar, Literal, TypeVar, overload

from .records import record

W = TypeVar("W")

Retain = Literal["once", "window", "newest", "pin"]
"""Retention of a tool result in full. `once`: in one request, then its summary or an extract. `window`:
while it fits the context window and removing it does not pay. `newest`: until a later result of the tool replaces it,
then as `window`. `pin`: always. The store also replaces a `once` result
by its summary unless the data policy keeps whole results."""

Effort = Literal["none", "minimal", "low", "medium", "high"]
"""The amount of reasoning before the answer."""

StopReason = Literal["end", "tool_calls", "length", "filter", "broken", "pause"]
"""Why a model stopped: it finished, it called tools, it reached the output limit, a filter cut the answer, the stream
broke, or the provider paused a long turn of its own tools, which continues when the conversation is sent again."""

MediaKind = Literal["image", "audio", "video", "document"]


@record
class Text:
    """Text for the user."""

    text: str
    kind: Literal["text"] = "text"
    raw: str | None = field(default=None, repr=False, compare=False)
    """The provider's JSON of this block if it contains more than these fields: citations, ids, signatures. Sent back
    unchanged, to that provider only."""
    provider: str = field(default="", compare=False)
    """Provider that `raw` comes from."""


@record
class Reasoning:
    """The model's reasoning. Sent back only to the provider that signed it."""

    text: str
    id: str | None = None
    """The provider's id of this item, if it has one."""
    signature: str | None = None
    """The provider's signature or encrypted content, sent back unchanged."""
    provider: str = ""
    """Provider that signed the reasoning."""
    kind: Literal["reasoning"] = "reasoning"
    raw: str | None = field(default=None, repr=False, compare=False)
    """See `Text.raw`."""


@record
class ToolCall:
    """A tool call that the model requests."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it, possibly malformed."""
    signature: str | None = None
    """The provider's signature on the call, sent back unchanged (Gemini)."""
    kind: Literal["tool_call"] = "tool_call"
    raw: str | None = field(default=None, repr=False, compare=False)
    """See `Text.raw`."""
    provider: str = field(default="", compare=False)
    """Provider that `raw` and `signature` come from."""


@record
class Opaque:
    """A block that only its provider understands, such as a call of a tool that runs at the provider, or its result.

    It keeps its position among the parts and is sent back unchanged, to that provider only.
    """

    provider: str
    type: str
    """The provider's name for this kind of block."""
    raw: str = field(repr=False)
    """The block as the provider's JSON."""
    kind: Literal["opaque"] = "opaque"


class _Digested:
    """Cache of a medium's digest."""

    __slots__ = ("_digest",)
    _digest: str


@record
class Media(_Digested):
    """An image, a document or a recording, given as `data`, `url` or `file_id`."""

    media_type: str
    """`image/png`, `application/pdf`, `audio/wav`, ..."""
    data: str | None = field(default=None, repr=False)
    """Content in base64."""
    url: str | None = None
    file_id: str | None = None
    """The provider's id of an uploaded file."""
    name: str = ""

    @property
    def essence(self) -> str:
        """The media type in lower case, without parameters such as `charset` or `codecs`."""
        return self.media_type.partition(";")[0].strip().lower()

    @property
    def kind(self) -> MediaKind:
        """Return the kind of the media type; everything except images, audio and video is a document."""
        return _MEDIA_KINDS.get(self.essence.partition("/")[0], "document")

    @property
    def is_text(self) -> bool:
        """True if the type is text, which every model can read."""
        return self.essence.startswith("text/") or self.essence in _TEXTS

    @property
    def data_problem(self) -> str:
        """Why `data` is not base64 text; "" if it is."""
        try:
            binascii.a2b_base64(self.data or "", strict_mode=True)
        except (TypeError, ValueError) as error:
            return f"its data is not base64 text: {error}"
        return ""

    @property
    def digest(self) -> str:
        """The SHA-256 of `data` in hexadecimal, by which a store keeps it; empty without data."""
        try:
            return self._digest
        except AttributeError:
            digest = hashlib.sha256(self.data.encode()).hexdigest() if self.data else ""
            object.__setattr__(self, "_digest", digest)
            return digest


_TEXTS = frozenset({
    "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/javascript",
    "application/x-javascript", "application/sql", "application/toml", "application/x-ndjson",
})  # fmt: skip
_MEDIA_KINDS: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}


@record
class MediaPart:
    """An image or a recording that the model produced."""

    media: Media
    kind: Literal["media"] = "media"
    raw: str | None = field(default=None, repr=False, compare=False)
    """The provider's JSON of this block without its content. Sent back with it, to that provider only."""
    provider: str = field(default="", compare=False)
    """Provider that `raw` comes from."""


MessagePart = Text | Reasoning | ToolCall | MediaPart | Opaque


class _Wired:
    """Cache of a message's wire form (for one format), size (by one counter), tool calls and validation."""

    __slots__ = ("_calls", "_valid", "_wire", "measured", "redacted_by")
    _calls: tuple[ToolCall, ...]
    _valid: bool
    _wire: tuple[str, Any]
    measured: tuple[object, Any]
    """A token counter, and the size by it; unset until the token engine has measured the message."""
    redacted_by: object
    """The redactor that has searched the message; unset before."""

    def wire(self, style: str, build: Callable[[Any], W]) -> W:
        """Return this message in the wire format *style*; call *build* only if that form is not cached."""
        try:
            kept_style, form = self._wire
            if kept_style == style:
                return form  # type: ignore[no-any-return]
        except AttributeError:
            pass
        form = build(self)
        object.__setattr__(self, "_wire", (style, form))
        return form


@record
class SystemMessage(_Wired):
    """An instruction from the product or the engine within the conversation."""

    text: str
    role: ClassVar[Literal["system"]] = "system"
    stored: ClassVar[bool] = True


@record
class UserMessage(_Wired):
    """A message from the user, with text and media."""

    text: str
    media: tuple[Media, ...] = ()
    tool: str | None = None
    """Name of the tool whose result this is, for agents that parse tool calls from text."""
    stored: bool = True
    """False for a message that must not be kept after the run, such as a tool's result."""
    retain: Literal["window", "pin"] = "window"
    """`pin`: the message stays in view, word for word. Others of the user's messages stay within `Retention.users`."""
    role: ClassVar[Literal["user"]] = "user"


@record
class AssistantMessage(_Wired):
    """An answer of a model: text, reasoning and tool calls in their original order."""

    parts: tuple[MessagePart, ...]
    stop_reason: StopReason = "end"
    model: str = ""
    """Name of the model as the provider reported it."""
    role: ClassVar[Literal["assistant"]] = "assistant"
    stored: ClassVar[bool] = True

    @property
    def text(self) -> str:
        """The text of the answer without its reasoning."""
        return "".join([part.text for part in self.parts if part.kind == "text"])

    @property
    def media(self) -> tuple[Media, ...]:
        """The media that the model produced, in order."""
        return tuple([part.media for part in self.parts if part.kind == "media"])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in order."""
        try:
            return self._calls
        except AttributeError:
            calls = tuple([part for part in self.parts if part.kind == "tool_call"])
            object.__setattr__(self, "_calls", calls)
            return calls


@record
class ToolMessage(_Wired):
    """The result of one tool call, as the model reads it."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    whole: str | None = field(default=None, repr=False)
    """The full result if `content` is a shortened version; stored and never sent."""
    summary: str | None = field(default=None, repr=False)
    """The tool's own replacement for the result once it has left the view; None: an extract of it."""
    media: tuple[Media, ...] = ()
    """Images and documents next to `content`, for providers that accept them in results."""
    stored: bool = True
    """False for a result that must not be kept after the run."""
    retain: Retain = "window"
    handle: str = field(default="", compare=False)
    """The engine's short name for the full result, used to recall it; "" if the engine did not create the message."""
    role: ClassVar[Literal["tool"]] = "tool"


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def mark_valid(messages: Iterable[Message]) -> None:
    """Record that the contents of *messages* have been validated; see `unvalidated`."""
    for message in messages:
        object.__setattr__(message, "_valid", True)


def unvalidated(messages: Iterable[Message]) -> list[Message]:
    """Return the messages that are not marked as valid, and all values that are not messages."""
    # Each turn looks through its whole history, so no line of Python may run for each message.
    known = map(getattr, messages, repeat("_valid"), repeat(False))
    return list(compress(messages, map(not_, known)))


@dataclass(frozen=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments; its type is `object`."""

    @cached_property
    def text(self) -> str:
        """The specification as one text, for token counting."""
        return f"{self.name} {self.description} {json.dumps(self.parameters)}"


@record
class ForcedTool:
    """A tool choice that forces one tool."""

    name: str


ToolChoice = Literal["auto", "required", "none"] | ForcedTool
"""`auto`: the model decides. `required`: at least one call. `none`: no call. `ForcedTool`: a call of that tool."""


class Messages(Sequence[Message]):
    """A read-only view of the first *end* messages of a growing list: a snapshot without a copy.

    The underlying list must only be appended to.
    """

    __slots__ = ("_end", "_items")

    def __init__(self, items: list[Message], end: int | None = None) -> None:
        self._items = items
        self._end = len(items) if end is None else end

    def __len__(self) -> int:
        return self._end

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [self._items[i] for i in range(*index.indices(self._end))]
        position = index + self._end if index < 0 else index
        if not 0 <= position < self._end:
            raise IndexError(index)
        return self._items[position]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._items, self._end)

    def __repr__(self) -> str:
        return f"Messages({list(self)!r})"

    def followed_by(self, more: Iterable[Message]) -> Messages:
        """Return these messages and then *more*, in the same list if nothing else was appended to it."""
        items = self._items if len(self._items) == self._end else self._items[: self._end]
        items.extend(more)
        return Messages(items)


def begins_with(messages: Sequence[Message], first: Sequence[Message]) -> bool:
    """Return whether *messages* begin with the same objects as *first*; at once for two views of one list."""
    if len(first) > len(messages):
        return False
    of_one_list = isinstance(messages, Messages) and isinstance(first, Messages) and messages._items is first._items
    return of_one_list or all(map(is_, first, messages))
