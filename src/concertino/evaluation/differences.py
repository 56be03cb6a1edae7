"""The first difference between two JSON values."""

from __future__ import annotations

import json
from typing import Any

_MISSING = object()
_SHOWN = 120
"""Largest number of characters of a value."""


def first_difference(path: str, before: Any, after: Any) -> tuple[str, str, str] | None:
    """Return the path of the first difference and both values, shortened around it; None if the values are equal."""
    if isinstance(before, dict) and isinstance(after, dict):
        inner = [(f"{path}.{name}".lstrip("."), name) for name in {**before, **after}]
        pairs = [(where, before.get(name, _MISSING), after.get(name, _MISSING)) for where, name in inner]
    elif isinstance(before, list) and isinstance(after, list):
        longest = range(max(len(before), len(after)))
        pairs = [(f"{path}[{index}]", _item(before, index), _item(after, index)) for index in longest]
    else:
        return None if before == after and type(before) is type(after) else (path, *_excerpts(before, after))
    return next((found for pair in pairs if (found := first_difference(*pair)) is not None), None)


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _MISSING


def _excerpts(before: Any, after: Any) -> tuple[str, str]:
    first, second = (_text(value) for value in (before, after))
    pairs = enumerate(zip(first, second, strict=False))
    same = next((index for index, (old, new) in pairs if old != new), min(len(first), len(second)))
    start = max(same - _SHOWN // 3, 0) if max(len(first), len(second)) > _SHOWN else 0
    return _excerpt(first, start), _excerpt(second, start)


def _text(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _excerpt(text: str, start: int) -> str:
    return ("..." if start else "") + text[start : start + _SHOWN] + ("..." if start + _SHOWN < len(text) else "")
