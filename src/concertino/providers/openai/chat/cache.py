"""Cache breakpoints: marks at the end of a prefix that the provider caches.

GPT-5.6 and later cache up to a `prompt_cache_breakpoint` on a part of a message by the user, the developer or a tool,
never the assistant; in the mode `explicit` there are no others, and up to four are written (OpenAI, "Prompt caching",
and the SDK's types). OpenRouter accepts Anthropic's `cache_control` on the same parts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...http.encoding import WireMessage, dumps

MAX_BREAKPOINTS = 4
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
EXPLICIT = {"mode": "explicit"}
CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}
_CONTENT_FIELDS = {"function_call_output": "output"}


def with_breakpoints(
    messages: list[WireMessage], indexes: Sequence[int], mark: dict[str, Any], text_type: str
) -> list[WireMessage]:
    """Return *messages* with *mark* at *indexes*, or on the nearest earlier message that can take it.

    *text_type* is the type of a text part.
    """
    messages = list(messages)
    for index in indexes:
        for at in range(index, -1, -1):
            if (message := _with_breakpoint(messages[at], mark, text_type)) is not None:
                messages[at] = message
                break
    return messages


def system_content(text: str, mark: dict[str, Any] | None, text_type: str) -> object:
    """Return the content of the system prompt, with *mark* if there is one."""
    return text if mark is None else [{"type": text_type, "text": text, **mark}]


def _with_breakpoint(message: WireMessage, mark: dict[str, Any], text_type: str) -> WireMessage | None:
    if message.role == "assistant":
        return None
    item = json.loads(message.first or message.rest or "{}")
    field = _CONTENT_FIELDS.get(item.get("type", ""), "content")
    content = item.get(field)
    parts = [{"type": text_type, "text": content}] if isinstance(content, str) and content else content
    if not isinstance(parts, list) or not parts:
        return None
    parts[-1] = {**parts[-1], **mark}
    text = dumps({**item, field: parts})
    return message._replace(first=text) if message.first else message._replace(rest=text)
