"""Messages: the pure values that a conversation is made of. No ids of storage, no I/O, no provider's format.

A message becomes a provider's wire form once: `Message.wire` remembers it, because messages never change and
a conversation sends each of them again with every step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Literal, TypeVar, overload

W = TypeVar("W")

Retain = Literal["once", "window", "pin"]
"""How long the model sees a result. `once`: use and throw, in one request, then what stands for it. `window`: as long
as there is room and it pays. `pin`: always. A `once` result is also stored as what stands for it, unless the data
policy keeps whole results."""

StopReason = Literal["end", "tool_calls", "length", "filter", "broken", "pause"]
"""Why a model stopped: it was done, it calls tools, it ran out of room, a filter cut it, the stream broke, or the
provider paused a long turn of its own tools, which goes on when the conversation is sent again as it is."""


@dataclass(frozen=True, slots=True)
class Text:
    """What the model says to the user."""

    text: str
    kind: Literal["text"] = "text"
    raw: str | None = field(default=None, repr=False, compare=False)
    """The provider's own JSON of this block where it has more than our fields: citations, ids, signatures. It goes
    back as it came, to that provider only."""
    provider: str = field(default="", compare=False)
    """Whose `raw` it is."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What the model thinks. It goes back to the provider that signed it, and to no other."""

    text: str
    id: str | None = None
    """The provider's id of this item, where it gives one."""
    signature: str | None = None
    """The provider's signature or encrypted content, to be sent back as it came."""
    provider: str = ""
    """Who signed it."""
    kind: Literal["reasoning"] = "reasoning"
    raw: str | None = field(default=None, repr=False, compare=False)
    """As `Text.raw`."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants called."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it: it may be broken."""
    signature: str | None = None
    """A provider's signature on the call, to be sent back as it came (Gemini)."""
    kind: Literal["tool_call"] = "tool_call"
    raw: str | None = field(default=None, repr=False, compare=False)
    """As `Text.raw`."""
    provider: str = field(default="", compare=False)
    """Whose `raw` and `signature` these are."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block that only its provider understands, such as a call of a tool that runs at the provider, and its result.

    It keeps its place among the parts, goes back as it came to that provider, and to no other.
    """

    provider: str
    type: str
    """The provider's own name for this kind of block."""
    raw: str = field(repr=False)
    """The block as the provider's JSON."""
    kind: Literal["opaque"] = "opaque"


Part = Text | Reasoning | ToolCall | Opaque


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a document or a recording: `data`, its content, or else `url` or `file_id`, where it is found."""

    media_type: str
    """`image/png`, `application/pdf`, `audio/wav`, ..."""
    data: str | None = field(default=None, repr=False)
    """The content in base64."""
    url: str | None = None
    file_id: str | None = None
    """The provider's own id of a file that was uploaded to it."""
    name: str = ""


class _Wired:
    """Remembers a message's wire form, for one format at a time, its size, by one counter at a time, and its calls."""

    __slots__ = ("_calls", "_size", "_wire")
    _calls: tuple[ToolCall, ...]
    _wire: tuple[str, Any]
    _size: tuple[object, Any]

    def wire(self, style: str, build: Callable[[Any], W]) -> W:
        """This message in the format named *style*, built by *build* at the first call only."""
        try:
            kept_style, form = self._wire
            if kept_style == style:
                return form  # type: ignore[no-any-return]
        except AttributeError:
            pass
        form = build(self)
        object.__setattr__(self, "_wire", (style, form))
        return form

    def sized(self, counter: object, count: Callable[[Any], W]) -> W:
        """This message's size, found by *count* at the first call with this *counter* only."""
        try:
            kept_counter, size = self._size
            if kept_counter is counter:
                return size  # type: ignore[no-any-return]
        except AttributeError:
            pass
        size = count(self)
        object.__setattr__(self, "_size", (counter, size))
        return size


@dataclass(frozen=True, slots=True)
class SystemMessage(_Wired):
    """An instruction from the product or the engine, in the course of the conversation."""

    text: str
    role: ClassVar[Literal["system"]] = "system"


@dataclass(frozen=True, slots=True)
class UserMessage(_Wired):
    """What the user says, and shows."""

    text: str
    media: tuple[Media, ...] = ()
    tool: str | None = None
    """The tool whose result this is, for an agent whose calls are not its provider's own."""
    role: ClassVar[Literal["user"]] = "user"


@dataclass(frozen=True, slots=True)
class AssistantMessage(_Wired):
    """One answer of a model: its text, reasoning and calls in the order in which they came."""

    parts: tuple[Part, ...]
    stop_reason: StopReason = "end"
    model: str = ""
    """The model as the provider named it in its answer."""
    role: ClassVar[Literal["assistant"]] = "assistant"

    @property
    def text(self) -> str:
        """All text of the answer, reasoning left out."""
        return "".join(part.text for part in self.parts if part.kind == "text")

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, in order."""
        try:
            return self._calls
        except AttributeError:
            calls = tuple([part for part in self.parts if part.kind == "tool_call"])
            object.__setattr__(self, "_calls", calls)
            return calls


@dataclass(frozen=True, slots=True)
class ToolMessage(_Wired):
    """The outcome of one call, as the model is to read it."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    whole: str | None = field(default=None, repr=False)
    """The result before it was cut or wrapped, if it was. It is kept and never sent."""
    summary: str | None = field(default=None, repr=False)
    """What stands for the result once it is no longer sent, in the tool's own words; None: an extract does."""
    media: tuple[Media, ...] = ()
    """Images and documents beside `content`, for providers that take them in results."""
    retain: Retain = "window"
    handle: str = field(default="", compare=False)
    """The engine's short name of the call, to recall the whole result by; "": the engine did not make it."""
    role: ClassVar[Literal["tool"]] = "tool"


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments; an object."""

    @cached_property
    def text(self) -> str:
        """All of it as one text, for counting."""
        return f"{self.name} {self.description} {json.dumps(self.parameters)}"


@dataclass(frozen=True, slots=True)
class ForcedTool:
    """The model must call this tool."""

    name: str


ToolChoice = Literal["auto", "required", "none"] | ForcedTool
"""`auto`: the model decides. `required`: at least one call. `none`: no call. Or one named tool."""


class Messages(Sequence[Message]):
    """A read-only view of the first *end* messages of a growing list: a snapshot that costs nothing to take.

    The list behind it may only be appended to.
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
        place = index + self._end if index < 0 else index
        if not 0 <= place < self._end:
            raise IndexError(index)
        return self._items[place]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._items, self._end)

    def __repr__(self) -> str:
        return f"Messages({list(self)!r})"
