"""A window that keeps the record whole and sends its newest part when the whole does not fit."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ContextFloorError
from ..messages import AssistantMessage, Media, Message, Messages, Part, SystemMessage, ToolMessage, UserMessage
from .port import TokenCounter

_FRAME = 8
"""What a provider's own framing of a message costs at most, in tokens."""
_AFTER_TRIM = 0.5
"""A trim goes down to this share of the room at once, so that it is rare and the prefix is stable in between."""


_PER_FILE = 2_000
"""What stands for the tokens of an image or a file whose size is not known: an image of the usual size costs 258
(Gemini), up to 1,600 (Anthropic) or up to 1,500 (OpenAI)."""
_PER_BYTE = 0.05
"""And of a document or a recording that is known: a page of a PDF has 1,500 to 3,000 tokens and seldom below 50 kB,
a second of speech 10 to 32 tokens and, compressed, some kB."""


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


def _part_text(part: Part) -> str:
    if part.kind == "tool_call":
        return f"{part.id}{part.name}{part.arguments}"
    return part.raw if part.kind == "opaque" else part.text


def _filler(media: Media) -> str:
    return " 0" * (_media_size(media) // 2)


def _media_size(media: Media) -> int:
    """The tokens that *media* may count, an even number."""
    if media.data is None or media.media_type.startswith("image/"):
        return _PER_FILE
    share = 0.75 if media.media_type.startswith("text/") else _PER_BYTE
    return max(_PER_FILE, int(len(media.data) * share) & ~1)


class SlidingWindow:
    """A `ContextWindow` that drops the oldest turns, whole, when the limit is reached.

    *limit* is the model's context in tokens. As long as the text in bytes is below it, nothing is counted at all:
    a token is at least a byte. Past that, each message is counted once.
    """

    def __init__(self, counter: TokenCounter, limit: int, largest_result: int = 20_000) -> None:
        self.counter = counter
        self.trimmed = 0
        self._limit = limit
        self._largest_result = largest_result
        self._record: list[Message] = []
        self._sent = self._record  # the very same list, until the first trim
        self._edits: list[int] | None = None  # how long the record was at the last trim, and the places it left
        self._bytes = 0
        self._sizes: list[int] = []  # of `_sent`, counted only when the bytes no longer prove that it fits
        self._tokens = 0
        self._fixed: dict[str, tuple[str, int]] = {}  # counted, by name
        self._last_fixed: dict[str, str] | None = None
        self._fixed_bytes = 0

    def append(self, message: Message) -> None:
        """See `ContextWindow.append`."""
        self._record.append(message)
        if self._sent is not self._record:
            self._sent.append(message)
        self._bytes += _bytes(message)

    def replace(self, messages: list[Message]) -> None:
        """See `ContextWindow.replace`."""
        self._record = list(messages)
        self._edits = None
        self.trimmed = 0
        self._send(self._record)

    def edits(self) -> list[int] | None:
        """See `ContextWindow.edits`: how long the record was at the last trim, and the places that it left."""
        return self._edits

    def restore(self, edits: list[int]) -> None:
        """See `ContextWindow.restore`."""
        self._edits = edits
        self._send([self._record[place] for place in edits[1:]] + self._record[edits[0] :])
        self.trimmed = edits[0] - len(edits[1:])

    def record(self) -> Messages:
        """See `ContextWindow.record`."""
        return Messages(self._record)

    def view(self, fixed: dict[str, str], reserve: int) -> Messages:
        """See `ContextWindow.view`."""
        if self._bytes + self._size_of(fixed) + reserve > self._limit:
            self._fit(fixed, reserve)
        return Messages(self._sent)

    def cut(self, text: str, fixed: dict[str, str], reserve: int) -> str:
        """See `ContextWindow.cut`."""
        if _size(text) + self._size_of(fixed) + reserve + 4 * _FRAME <= self._limit:
            return text
        counted = {name: self._count_fixed(name, part) for name, part in fixed.items()}
        room = self._room(sum(counted.values()), reserve) - 4 * _FRAME
        if room <= 0:
            raise ContextFloorError(self._explain(counted, reserve, ()))
        return text if self.counter.count(text) <= room else self.counter.cut(text, room)

    def allowance(self, results: int) -> int:
        """See `ContextWindow.allowance`: half of the window at most is left to the results of one turn."""
        return max(1, min(self._largest_result, self._limit // 2 // max(results, 1)))

    def _fit(self, fixed: dict[str, str], reserve: int) -> None:
        for message in self._sent[len(self._sizes) :]:
            self._sizes.append(self._count(message))
            self._tokens += self._sizes[-1]
        counted = {name: self._count_fixed(name, text) for name, text in fixed.items()}
        room = self._room(sum(counted.values()), reserve)
        if self._tokens <= room:
            return
        kept = self._newest(int(room * _AFTER_TRIM))
        size = sum(self._count(message) for message in kept)
        if size > room:
            raise ContextFloorError(self._explain(counted, reserve, kept))
        self._edits = [len(self._record), *_places(kept, self._record)]
        self._send(kept)
        self.trimmed = len(self._record) - len(kept)

    def _size_of(self, fixed: dict[str, str]) -> int:
        if fixed is not self._last_fixed:
            self._last_fixed = fixed
            self._fixed_bytes = sum(map(_size, fixed.values()))
        return self._fixed_bytes

    def _room(self, fixed: int, reserve: int) -> int:
        margin = 0 if self.counter.exact else self._limit // 10  # an estimate may be too low
        return self._limit - fixed - reserve - margin

    def _newest(self, room: int) -> list[Message]:
        """The newest groups that fit *room*, the last one always, led by the newest user message."""
        groups = list(_groups(self._sent))
        last_user = max((i for i, g in enumerate(groups) if isinstance(g[0], UserMessage)), default=None)
        taken = 0 if last_user is None else sum(map(self._count, groups[last_user]))
        first = len(groups)
        for place in range(len(groups) - 1, -1, -1):
            size = 0 if place == last_user else sum(map(self._count, groups[place]))
            if taken + size > room and first < len(groups):
                break
            taken += size
            first = place
        lead = [groups[last_user]] if last_user is not None and last_user < first else []
        return [message for group in (*lead, *groups[first:]) for message in group]

    def _send(self, messages: list[Message]) -> None:
        self._sent = messages
        self._bytes = sum(map(_bytes, messages))
        self._sizes = []
        self._tokens = 0

    def _count(self, message: Message) -> int:
        return self.counter.count(message_text(message)) + _FRAME

    def _count_fixed(self, name: str, text: str) -> int:
        kept = self._fixed.get(name)
        if kept is None or kept[0] is not text:
            kept = self._fixed[name] = (text, self.counter.count(text))
        return kept[1]

    def _explain(self, fixed: dict[str, int], reserve: int, kept: Iterable[Message]) -> str:
        parts = dict(fixed)
        parts["room for the answer"] = reserve
        for message in kept:
            name = f"result of {message.name}" if isinstance(message, ToolMessage) else f"{message.role} message"
            parts[name] = parts.get(name, 0) + self._count(message)
        largest = sorted(parts.items(), key=lambda part: -part[1])
        shares = ", ".join(f"{name} {size:,}" for name, size in largest)
        return (
            f"the smallest possible request does not fit the context of {self._limit:,} tokens: {shares}. "
            f"Shorten the {largest[0][0]}, or use a model with a larger context"
        )


def _places(kept: list[Message], record: list[Message]) -> list[int]:
    """Where in *record* the messages of *kept*, a part of it in order, are; sought from the end."""
    places: list[int] = []
    place = len(record)
    for message in reversed(kept):
        place -= 1
        while record[place] is not message:
            place -= 1
        places.append(place)
    return places[::-1]


def _groups(messages: Iterable[Message]) -> Iterable[list[Message]]:
    """A call and its results are one group; each other message is its own."""
    group: list[Message] = []
    for message in messages:
        if group and not isinstance(message, ToolMessage):
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def _bytes(message: Message) -> int:
    """As many bytes as `message_text` has, without making it: every message passes here once."""
    if message.role == "tool":
        size = _size(message.content) + len(message.call_id) + _FRAME
        return size + sum(map(_media_size, message.media)) if message.media else size
    if message.role == "user" and message.media:
        return _size(message.text) + sum(map(_media_size, message.media)) + _FRAME
    if message.role != "assistant":
        return _size(message.text) + _FRAME
    size = _FRAME
    for part in message.parts:
        if part.kind == "tool_call":
            size += _size(part.arguments) + len(part.id) + len(part.name)
        else:
            size += _size(part.raw if part.kind == "opaque" else part.text)
    return size


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
