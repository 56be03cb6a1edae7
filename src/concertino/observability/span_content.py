"""Texts in the form of the conventions. The events that they come from are what the data policy shows to observers."""

from __future__ import annotations

import json
from typing import Any

from ..messages import AssistantMessage
from . import names


def input_messages(text: str) -> str:
    """Return a user's message."""
    return _json([{"role": "user", "parts": [_text(text)]}])


def output_text(text: str) -> str:
    """Return an answer."""
    return _json([{"role": "assistant", "parts": [_text(text)], "finish_reason": "stop"}])


def output_messages(message: AssistantMessage) -> str:
    """Return a model's answer, without media."""
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        match part.kind:
            case "text" if part.text:
                parts.append(_text(part.text))
            case "reasoning" if part.text:
                parts.append({"type": "reasoning", "content": part.text})
            case "tool_call":
                call = {"type": "tool_call", "id": part.id, "name": part.name, "arguments": _value(part.arguments)}
                parts.append(call)
    reason = names.FINISHED.get(message.stop_reason, message.stop_reason)
    return _json([{"role": "assistant", "parts": parts, "finish_reason": reason}])


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
