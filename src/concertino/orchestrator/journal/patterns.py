"""Redaction by pattern: what a pattern matches never enters a run, and therefore no request, store, event or log.

A run's texts are redacted where they enter it: the chat, each message, each piece that a model or a tool sends. So the
model, the store and every consumer see the same text, and a run that is resumed elsewhere sends the same requests.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from ...errors import ConfigurationError
from ...events import ReasoningDelta, RunEvent, TextDelta, ToolCallDelta, ToolStreamed
from ...messages import (
    AssistantMessage,
    Media,
    MediaPart,
    Message,
    MessagePart,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ...records import record
from ..chat import Attachment, Chat
from ..plain import plain

M = TypeVar("M", bound=Message)
_compiled = lru_cache(re.compile)
UNKNOWN_TOOL = "unknown_tool"
"""Name that replaces a tool name outside the registry wherever the policy forbids text."""


@record
class Pattern:
    """Text that must not enter a run, such as `EMAIL`. Raises `ConfigurationError` if a field is invalid.

    A streamed text is held back while its end may become a match: the last characters of the class *characters*, at
    most *longest* of them.
    """

    name: str
    """The mark that replaces a match, without its brackets."""
    pattern: str
    """A regular expression."""
    characters: str
    """A character class, as in a regular expression: the only characters that a match can contain."""
    longest: int
    """The number of characters of the longest match."""

    def __post_init__(self) -> None:
        for field in ("name", "pattern", "characters"):
            if not isinstance(value := getattr(self, field), str) or not value:
                raise ConfigurationError(f"Pattern({field}={value!r:.80}): use text")
        if not isinstance(self.longest, int) or self.longest < 1:
            raise ConfigurationError(f"Pattern(longest={self.longest!r:.80}): use a whole number above 0")
        try:
            matches_empty = self.expression.search("") is not None
            self.character.search("")
        except re.error as error:
            raise ConfigurationError(f"Pattern({self.name!r}): invalid regular expression: {error}") from error
        if matches_empty:
            raise ConfigurationError(f"Pattern(pattern={self.pattern!r:.80}) matches empty text")

    @property
    def expression(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return _compiled(self.pattern)

    @property
    def character(self) -> re.Pattern[str]:
        """The compiled character class."""
        return _compiled(self.characters)

    def open_end(self, text: str) -> int:
        """Return the position in *text* from which on a match may not be complete yet."""
        first = max(len(text) - self.longest, 0)
        start = len(text)
        while start > first and self.character.match(text, start - 1):
            start -= 1
        return start


EMAIL = Pattern(
    "email",
    r"[\w.%+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",
    r"[\w.%+'@-]",
    longest=640,
)
CARD_NUMBER = Pattern("card number", r"(?<![\d-])(?:\d[ -]?){12,18}\d(?![\d-])", r"[\d -]", longest=40)
IBAN = Pattern("iban", r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b", r"[A-Z0-9 ]", longest=48)


class Redactor:
    """Replaces every match of its patterns by a mark, `[email]`."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = tuple(patterns)
        self._rules = [(pattern.expression, f"[{pattern.name}]") for pattern in self.patterns]

    def text(self, text: str) -> str:
        """Return *text* with a mark in place of each match."""
        for expression, mark in self._rules:
            text = expression.sub(mark, text)
        return text

    def value(self, value: Any) -> Any:
        """Return *value* with all its texts redacted; what is not JSON becomes JSON. The same object if it is clean."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, dict):
            changed: Any = {self.value(key): self.value(item) for key, item in value.items()}
        elif isinstance(value, list | tuple):
            changed = [self.value(item) for item in value]
            value = list(value)
        else:
            changed = self.value(simple) if isinstance(simple := plain(value), dict | list) else self.text(str(simple))
            return value if changed == simple else changed
        return value if changed == value else changed

    def arguments(self, text: str) -> str:
        """Return the JSON text of a call's arguments with every text in it redacted, however it is escaped."""
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        changed = self.value(arguments)
        return self.text(text) if changed == arguments else json.dumps(changed, ensure_ascii=False)

    def call(self, call: ToolCall) -> ToolCall:
        """Return *call* redacted. Its signature and the provider's JSON go with the original arguments."""
        arguments = self.arguments(call.arguments)
        name = call.name if self.text(call.name) == call.name else UNKNOWN_TOOL
        if (name, arguments) == (call.name, call.arguments) and not self._quotes(call.raw):
            return call
        return ToolCall(call.id, name, arguments)

    def message(self, message: M) -> M:
        """Return *message* redacted: the same object if nothing in it matches, and then not searched again."""
        if getattr(message, "redacted_by", None) is self:
            return message
        changed: M = self._changed(message)
        object.__setattr__(changed, "redacted_by", self)
        return changed

    def chat(self, chat: Chat) -> Chat:
        """Return *chat* with the texts redacted that belong to the user and the conversation."""
        history = [self.message(message) for message in chat.history]
        same = all(map(_is_same, history, chat.history))
        return dataclasses.replace(
            chat,
            message=self.text(chat.message),
            history=chat.history if same else history,
            media=[self._media(media) for media in chat.media],
            summary=self.text(chat.summary),
            system_prompt=None if chat.system_prompt is None else self.text(chat.system_prompt),
            personalization=self.text(chat.personalization),
            memories=[self.text(memory) for memory in chat.memories],
            project_rules=self.text(chat.project_rules),
            attachments=self._files(chat.attachments),
            project_attachments=self._files(chat.project_attachments),
        )

    def open_end(self, text: str) -> int:
        """Return the position in *text* from which on a match may not be complete yet."""
        end = min(pattern.open_end(text) for pattern in self.patterns)
        if end == len(text):
            return end
        spans = [found.span() for expression, _ in self._rules for found in expression.finditer(text)]
        while cut := [start for start, stop in spans if start < end < stop]:
            end = min(cut)
        return end

    def _files(self, files: Iterable[Attachment]) -> list[Attachment]:
        return [
            dataclasses.replace(file, name=self.text(file.name), description=self.text(file.description))
            for file in files
        ]

    def _changed(self, message: Any) -> Any:
        if isinstance(message, AssistantMessage):
            parts = tuple([self._part(part) for part in message.parts])
            return message if all(map(_is_same, parts, message.parts)) else dataclasses.replace(message, parts=parts)
        if isinstance(message, ToolMessage):
            fields: dict[str, Any] = {
                name: self.text(value)
                for name in ("name", "content", "whole", "summary")
                if (value := getattr(message, name)) is not None
            }
        else:
            fields = {"text": self.text(message.text)}
        if isinstance(message, UserMessage | ToolMessage) and message.media:
            fields["media"] = tuple([self._media(media) for media in message.media])
        changed = any(getattr(message, name) != value for name, value in fields.items())
        return dataclasses.replace(message, **fields) if changed else message

    def _part(self, part: MessagePart) -> MessagePart:
        """Return *part* redacted, without a signature or the provider's JSON that would contain the original."""
        if isinstance(part, ToolCall):
            return self.call(part)
        if isinstance(part, MediaPart):
            return dataclasses.replace(part, media=self._media(part.media))
        if isinstance(part, Opaque):
            return dataclasses.replace(part, raw=self.text(part.raw)) if self._quotes(part.raw) else part
        text = self.text(part.text)
        if text == part.text and not self._quotes(part.raw):
            return part
        return Reasoning(text) if isinstance(part, Reasoning) else Text(text)

    def _media(self, media: Media) -> Media:
        name = self.text(media.name)
        return media if name == media.name else dataclasses.replace(media, name=name)

    def _quotes(self, raw: str | None) -> bool:
        return raw is not None and self.text(raw) != raw


class RedactedPieces:
    """Redacts the pieces of streamed texts on their way to *emit*, however a match is split over them."""

    _FIELDS: dict[type, str] = {  # noqa: RUF012 - a constant
        TextDelta: "text",
        ReasoningDelta: "text",
        ToolCallDelta: "arguments",
        ToolStreamed: "content",
    }

    def __init__(self, redactor: Redactor, emit: Callable[[RunEvent], None]) -> None:
        self._redactor = redactor
        self._emit = emit
        self._open: dict[tuple[type, str], tuple[RunEvent, str]] = {}
        """By kind and call: the last event, and the text that may become a match."""

    def put(self, event: RunEvent) -> None:
        """Emit the part of *event* and of what came before it that no later piece can make a match."""
        kind, call_id = type(event), getattr(event, "call_id", "")
        field = self._FIELDS[kind]
        for other in [key for key in self._open if key[1] != call_id or key[0] is not kind]:
            if kind is not ToolStreamed and not (other[1] and call_id):  # parallel calls may alternate
                self._flush(other)
        text = self._open.pop((kind, call_id), (event, ""))[1] + getattr(event, field)
        end = self._redactor.open_end(text)
        if end:
            self._send(event, text[:end])
        if end < len(text):
            self._open[kind, call_id] = event, text[end:]

    def flush(self, call_id: str | None = None) -> None:
        """Emit the rest of all texts, or of the texts of one call: they are complete."""
        for key in [key for key in self._open if call_id in (None, key[1])]:
            self._flush(key)

    def _flush(self, key: tuple[type, str]) -> None:
        event, text = self._open.pop(key)
        self._send(event, text)

    def _send(self, event: RunEvent, text: str) -> None:
        changed: dict[str, Any] = {self._FIELDS[type(event)]: self._redactor.text(text)}
        self._emit(dataclasses.replace(event, **changed))


@lru_cache
def redactor_of(patterns: tuple[Pattern, ...]) -> Redactor | None:
    """Return the redactor of *patterns*; None without patterns."""
    return Redactor(patterns) if patterns else None


def _is_same(one: object, other: object) -> bool:
    return one is other
