"""A content block of a streamed message, put together as its pieces come in."""

from __future__ import annotations

import json
from typing import Any

from ...messages import Opaque, Part, Reasoning, Text, ToolCall
from ..wire import dumps, is_object
from .request import PROVIDER, REDACTED

_OURS = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
}
"""The fields that our own parts have a place for. A block with more keeps its own form beside them."""


class Block:
    """A content block that is being written."""

    __slots__ = ("_fields", "_text", "ended", "id", "kind", "name", "ready")

    def __init__(self, content: dict[str, Any]) -> None:
        self._fields = content
        self._text: list[str] = []  # of a text, a thought, or arguments
        self.kind: str = content["type"]
        self.id: str = content["id"] if self.kind == "tool_use" else ""
        self.name: str = content["name"] if self.kind == "tool_use" else ""
        self.ended = False
        self.ready = False

    def begin(self) -> str:
        """The text that the block begins with."""
        if self.kind not in ("text", "thinking"):
            return ""
        text: str = self._fields.get(self.kind) or ""
        if text:
            self._text.append(text)
        return text

    @property
    def empty(self) -> bool:
        """Whether no arguments have come."""
        return not self._fields.get("input") and not any(self._text)

    def add(self, piece: str) -> None:
        """Take a piece of text, or of arguments."""
        self._text.append(piece or "")

    def take(self, delta: dict[str, Any]) -> None:
        """Take a delta of any other kind."""
        fields = self._fields
        match delta["type"]:
            case "signature_delta":
                fields["signature"] = delta["signature"]
            case "citations_delta":
                fields["citations"] = [*(fields.get("citations") or []), delta["citation"]]
            case "compaction_delta":
                fields.update((name, value) for name, value in delta.items() if name != "type")
            case _:
                for name, value in delta.items():
                    before = fields.get(name)
                    if name != "type":
                        fields[name] = before + value if isinstance(before, str) and isinstance(value, str) else value

    def part(self) -> Part | None:
        """The block as a part; None for a text without text."""
        fields, text = self._fields, "".join(self._text)
        match self.kind:
            case "text":
                raw = self._raw(text=text)
                return Text(text, raw=raw, provider=PROVIDER if raw else "") if text else None
            case "thinking":
                raw = self._raw(thinking=text)
                return Reasoning(text, signature=fields.get("signature") or None, provider=PROVIDER, raw=raw)
            case "redacted_thinking":
                return Reasoning("", id=REDACTED, signature=fields.get("data"), provider=PROVIDER, raw=self._raw())
            case "tool_use":
                given = text or (dumps(fields["input"]) if fields.get("input") else "{}")
                raw = self._raw(input=json.loads(given)) if is_object(given) else None
                return ToolCall(self.id, self.name, given, raw=raw, provider=PROVIDER if raw else "")
            case kind:
                whole = fields
                if text and is_object(text):
                    whole = {**fields, "input": json.loads(text)}
                return Opaque(PROVIDER, kind, dumps(whole))

    def _raw(self, **written: Any) -> str | None:
        """The block's own form, if it has more than the part has."""
        more = any(value not in (None, [], "") for name, value in self._fields.items() if name not in _OURS[self.kind])
        return dumps({**self._fields, **written}) if more else None
