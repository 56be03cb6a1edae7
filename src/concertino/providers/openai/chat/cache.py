"""Marks for the cache: where a prefix ends that the provider is to remember.

GPT-5.6 and later cache what ends at a `prompt_cache_breakpoint`, on a part of what is said by the user, the developer
or a tool, and none of an answer's; in the mode `explicit` there are no others, and up to four are written (OpenAI,
"Prompt caching", and the SDK's types). OpenRouter takes Anthropic's `cache_control` in the same places.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...http.encoding import Form, dumps

MOST_MARKS = 4
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
EXPLICIT = {"mode": "explicit"}
CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}
_FIELDS = {"function_call_output": "output"}


def marked(forms: list[Form], marks: Sequence[int], mark: dict[str, Any], text: str) -> list[Form]:
    """*forms* with a *mark* at the ends of those in *marks*, or before, where one cannot bear it; *text* is the type
    that a part has which is a text."""
    forms = list(forms)
    for place in marks:
        for at in range(place, -1, -1):
            if (form := _marked(forms[at], mark, text)) is not None:
                forms[at] = form
                break
    return forms


def system(text: str, mark: dict[str, Any] | None, kind: str) -> object:
    """The content of a message of the system's, which may bear a mark; *kind* is the type of a text."""
    return text if mark is None else [{"type": kind, "text": text, **mark}]


def _marked(form: Form, mark: dict[str, Any], text: str) -> Form | None:
    if form.role == "assistant":
        return None
    item = json.loads(form.first or form.rest or "{}")
    kind = item.get("type", "")
    field = _FIELDS.get(kind, "content")
    content = item.get(field)
    parts = [{"type": text, "text": content}] if isinstance(content, str) and content else content
    if not isinstance(parts, list) or not parts:
        return None
    parts[-1] = {**parts[-1], **mark}
    written = dumps({**item, field: parts})
    return form._replace(first=written) if form.first else form._replace(rest=written)
