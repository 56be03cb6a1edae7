"""The error in an answer's body: an object, as OpenAI has it, or what other servers send in its place.

A text beside the code (xAI, LM Studio), the object itself (Mistral, vLLM), `detail` with a list of what does not fit
(FastAPI, in which many servers are written), a list around it (Google's OpenAI endpoint), a text, or a proxy's page.
"""

from __future__ import annotations

import re
from typing import Any

from ..wire import dumps

_MOST = 1000
_PAGE = re.compile(r"\s*<(?:!doctype|html)\b", re.IGNORECASE)
_NO_WORDS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def error_of(body: Any) -> dict[str, Any]:
    """The error object in *body*, whatever its form; its `message` is a text, "" where nothing is said."""
    while isinstance(body, list) and body:
        body = body[0]
    inner = body["error"] if isinstance(body, dict) and body.get("error") else body
    fields = next((found for found in (inner, body) if isinstance(found, dict)), {})
    try:
        words = _words(inner)
    except RecursionError:
        words = ""
    return {**fields, "message": words if len(words) <= _MOST else f"{words[:_MOST]}…"}


def _words(said: Any) -> str:
    if isinstance(said, str):
        return " ".join(_NO_WORDS.sub(" ", said).split()) if _PAGE.match(said) else said.strip()
    if isinstance(said, list):
        return "; ".join(filter(None, map(_words, said)))
    if not isinstance(said, dict):
        return str(said) if said else ""
    if said.get("msg") and isinstance(said.get("loc"), list):
        return f"{'.'.join(map(str, said['loc']))}: {said['msg']}"
    for name in ("message", "error", "detail", "errors"):
        if said.get(name):
            return _words(said[name])
    return dumps(said) if said else ""
