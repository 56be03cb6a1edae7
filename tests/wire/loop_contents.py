"""The content of a request, recorded or ours: tool results and user content, in one form for all formats.

`test_lossless.blocks_of` reads the model's content. Differences without content are removed here, and only here:
- a text that is a string or a list of text parts is the same text;
- Google wraps a result in an object whose one key (`result`, `output`, `return_value`, ...) is the caller's choice;
- JSON is compared as values: whitespace and the order of keys do not count.
"""

from __future__ import annotations

import json
from typing import Any

Content = tuple[str, str, str]
"""What it is, whose it is (a call's id or a tool's name), and the text of it."""


def contents(kind: str, body: Any) -> list[Content]:
    """Return all results and user texts in the order of *body*."""
    return _READERS[kind](body) if isinstance(body, dict) else []


def text_of(value: Any) -> str:
    """Return a text in any of its forms."""
    if isinstance(value, list):
        return "".join(map(text_of, value))
    if isinstance(value, dict):
        return value["text"] if isinstance(value.get("text"), str) else ""
    return "" if value is None else str(value)


def same_text(text: str) -> str:
    """Return *text*, or the canonical form of JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)
    except ValueError:
        return text


def _anthropic(body: dict[str, Any]) -> list[Content]:
    found: list[Content] = []
    for message in body.get("messages") or []:
        if message.get("role") != "user":
            continue
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_result":
                found.append(("result", block["tool_use_id"], text_of(block.get("content"))))
            elif block["type"] == "text":
                found.append(("user", "", block["text"]))
    return found


def _chat(body: dict[str, Any]) -> list[Content]:
    found: list[Content] = []
    for message in body.get("messages") or []:
        if message.get("role") == "tool":
            found.append(("result", message["tool_call_id"], text_of(message.get("content"))))
        elif message.get("role") == "user":
            found.append(("user", "", text_of(message.get("content"))))
    return found


def _responses(body: dict[str, Any]) -> list[Content]:
    asked = body.get("input")
    if isinstance(asked, str):
        return [("user", "", asked)]
    found: list[Content] = []
    for item in asked or []:
        if item.get("type") == "function_call_output":
            found.append(("result", item["call_id"], text_of(item.get("output"))))
        elif item.get("role") == "user":
            found.append(("user", "", text_of(item.get("content"))))
    return found


def _google(body: dict[str, Any]) -> list[Content]:
    found: list[Content] = []
    asked = body.get("contents")
    for content in asked if isinstance(asked, list) else []:
        if content.get("role") == "model":
            continue
        for part in content["parts"]:
            answered = part.get("functionResponse") or part.get("function_response")
            if answered:
                found.append(("result", answered["name"], _unwrapped(answered.get("response"))))
            elif isinstance(part.get("text"), str):
                found.append(("user", "", part["text"]))
    return found


def _unwrapped(value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_READERS = {"anthropic": _anthropic, "chat": _chat, "responses": _responses, "google": _google}
