"""Recalling: the whole of what a model no longer sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..messages import AssistantMessage, Message, ToolMessage
from .digest import handle_of
from .edits import Edit, Summarise


def recalled(record: Sequence[Message], edits: Iterable[Edit], handle: str) -> str | None:
    """What was cut, reduced, summarised or left out under *handle*; None: there is nothing of that name."""
    for message in reversed(record):
        if isinstance(message, ToolMessage) and handle_of(message) == handle:
            return message.content if message.whole is None else message.whole
    for edit in edits:
        if isinstance(edit, Summarise) and edit.handle == handle:
            return "\n\n".join(map(_spoken, record[edit.first : edit.end]))
    return None


def _spoken(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return f"result of {message.name}:\n{message.content if message.whole is None else message.whole}"
    if isinstance(message, AssistantMessage):
        calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
        return f"assistant:\n{message.text}{calls}"
    return f"{message.role}:\n{message.text}"
