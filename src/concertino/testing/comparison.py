"""Comparison of a request with a recorded one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote

from .case import Request
from .redaction import LEFT_OUT, is_secret_name

_MISSING = object()
_SHOWN = 120
"""Largest number of characters of a value in a message."""


def difference(recorded: Request, asked: Request, ignored: Collection[str] = ()) -> str | None:
    """Describe the first difference between *asked* and *recorded*; None if they match.

    *ignored* lists JSON paths in the body, such as `$.messages[*].name`.
    """
    if recorded.method != asked.method:
        return _line("method", recorded.method, asked.method)
    (path, query), (other_path, other_query) = _target(recorded.path), _target(asked.path)
    if not _same_text(path, other_path):
        return _line("path", path, other_path)
    for found in _differences("query", query, other_query):
        return _line(*found)
    if recorded.body is None:
        return None
    for where, ours, theirs in _differences("$", _value(recorded.body), _value(asked.body or b"")):
        if not any(_within(where, path) for path in ignored):
            return _line(where, ours, theirs)
    return None


def _within(where: str, path: str) -> bool:
    """Return whether *where* is *path* or below it."""
    return any(f"{form}.".startswith((f"{path}.", f"{path}[")) for form in (where, re.sub(r"\[\d+\]", "[*]", where)))


def _target(path: str) -> tuple[str, dict[str, str]]:
    """Return the path and the query, unquoted and without secret parameters."""
    bare, _, query = path.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    return unquote(bare), {name: value for name, value in pairs if not is_secret_name(name, query=True)}


def _value(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "backslashreplace")


def _differences(where: str, recorded: Any, asked: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the JSON path and both values of each difference, in the order of the recorded value."""
    match recorded, asked:
        case dict(), dict():
            for name in [*recorded, *(name for name in asked if name not in recorded)]:
                ours, theirs = recorded.get(name, _MISSING), asked.get(name, _MISSING)
                yield from _differences(f"{where}.{name}", ours, theirs)
        case list(), list():
            for index in range(max(len(recorded), len(asked))):
                ours = recorded[index] if index < len(recorded) else _MISSING
                theirs = asked[index] if index < len(asked) else _MISSING
                yield from _differences(f"{where}[{index}]", ours, theirs)
        case str(), str() if _same_text(recorded, asked):
            return
        case _ if recorded != asked or isinstance(recorded, bool) != isinstance(asked, bool):
            yield where, recorded, asked


def _same_text(recorded: str, asked: str) -> bool:
    """Return whether the texts are equal; redacted parts match any text."""
    if LEFT_OUT not in recorded:
        return recorded == asked
    pattern = ".*".join(re.escape(piece) for piece in recorded.split(LEFT_OUT))
    return re.fullmatch(pattern, asked, re.DOTALL) is not None


def _line(where: str, recorded: Any, asked: Any) -> str:
    start = _common(recorded, asked)
    return f"{where}: recorded {_shown(recorded, start)}, asked {_shown(asked, start)}"


def _common(recorded: Any, asked: Any) -> int:
    """Return the start of the excerpt to show of two long values: shortly before their first difference."""
    if not isinstance(recorded, str) or not isinstance(asked, str):
        return 0
    if max(len(recorded), len(asked)) <= _SHOWN:
        return 0
    pairs = enumerate(zip(recorded, asked, strict=False))
    same = next((index for index, (ours, theirs) in pairs if ours != theirs), min(len(recorded), len(asked)))
    return max(0, same - _SHOWN // 3)


def _shown(value: Any, start: int) -> str:
    if value is _MISSING:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    piece = text[start : start + _SHOWN]
    before, behind = "..." if start else "", "..." if start + _SHOWN < len(text) else ""
    return before + (repr(piece) if isinstance(value, str) else piece) + behind
