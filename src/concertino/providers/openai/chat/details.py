"""OpenRouter's `reasoning_details`, which come in pieces and go back as the list that they make.

After its guide "Reasoning tokens": entries of one `index` and `type` follow each other; their `text` and `summary`
grow, a `signature` comes with the last, and encrypted entries (`data`) come whole.
"""

from __future__ import annotations

from typing import Any

_GROWING = ("text", "summary")


def add(details: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    """Take *pieces* into *details*."""
    for piece in pieces:
        last = details[-1] if details else None
        if last is None or not _continues(last, piece):
            details.append(dict(piece))
            continue
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str):
                last[name] = (last.get(name) or "") + value
            elif value is not None:
                last[name] = value


def _continues(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    same = last.get("type") == piece.get("type") and last.get("index") == piece.get("index")
    return same and "data" not in piece and (last.get("id") or piece.get("id")) == (piece.get("id") or last.get("id"))
