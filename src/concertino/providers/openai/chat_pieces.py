"""A run of text or of reasoning, or one call of a chat completion, that is being written."""

from __future__ import annotations

from typing import Any

from ...messages import Part, Reasoning, Text, ToolCall
from ..wire import dumps

_OURS = frozenset({"id", "index", "type", "function"})


class Piece:
    """A piece of an answer: of the kind `text`, `refusal`, `reasoning` or `call`."""

    __slots__ = ("_more", "id", "kind", "name", "ready", "texts")

    def __init__(self, kind: str, call_id: str = "", name: str = "") -> None:
        self.kind = kind
        self.id = call_id
        self.name = name
        self.texts: list[str] = []
        self.ready = False
        self._more: dict[str, Any] | None = None

    def take(self, delta: dict[str, Any]) -> None:
        """Keep what a call has besides its function, such as Google's `extra_content` with a signature."""
        for name, value in delta.items():
            if name not in _OURS and value is not None and name != "custom":
                self._more = {**(self._more or {}), name: value}

    def part(self, label: str) -> Part:
        """The piece as a part; *label* is whose it is."""
        text = "".join(self.texts)
        match self.kind:
            case "text":
                return Text(text)
            case "refusal":
                return Text(text, raw=dumps({"refusal": text}), provider=label)
            case "reasoning":
                return Reasoning(text, provider=label)
            case _:
                raw = dumps(self._more) if self._more else None
                return ToolCall(self.id, self.name, text or "{}", raw=raw, provider=label if raw else "")
