"""The first difference between two requests, and the tokens that one has more than the other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from ..messages import AssistantMessage, Message, ToolMessage
from ..providers.base import ModelRequest
from ..token_engine.counting.base import TokenCounter

FIELDS = ("model", "system", "tools", "messages", *(item.name for item in dataclasses.fields(ModelRequest)[4:]))
"""The fields of a request in the order in which they are compared."""
_MISSING = object()
_SHOWN = 120
"""Largest number of characters of a value."""


def are_equal(before: ModelRequest, after: ModelRequest, names: Sequence[str]) -> bool:
    """Return whether the requests have equal fields *names*; False for some that differ only in what is never sent."""
    return all(_value(before, name) == _value(after, name) for name in names)


def difference(before: ModelRequest, after: ModelRequest, names: Sequence[str]) -> tuple[str, str, str] | None:
    """Return the path of the first difference in the fields *names*, and both values; None if the requests are equal.

    Values are shortened around the difference. Only what a provider is sent counts.
    """
    for name in names:
        old, new = _value(before, name), _value(after, name)
        if old != new and (found := _first(name, _plain(old), _plain(new))) is not None:
            return found
    return None


def added_tokens(before: ModelRequest, after: ModelRequest, names: Sequence[str], counter: TokenCounter) -> int:
    """Return the counted tokens of the fields *names* that *after* has more than *before*."""
    others = [name for name in names if name != "messages"]
    pairs: list[tuple[Any, Any]] = [(getattr(before, name), getattr(after, name)) for name in others]
    pairs += zip_longest(before.messages, after.messages)
    return sum(_tokens(new, counter) - _tokens(old, counter) for old, new in pairs if old != new)


def _value(request: ModelRequest, name: str) -> Any:
    value = getattr(request, name)
    return list(value) if name == "messages" else value  # views of lists do not compare


def _tokens(value: Any, counter: TokenCounter) -> int:
    return 0 if value is None else counter.count(str(_plain(value)))


def _first(path: str, before: Any, after: Any) -> tuple[str, str, str] | None:
    if isinstance(before, dict) and isinstance(after, dict):
        inner = [(f"{path}.{name}".lstrip("."), name) for name in {**before, **after}]
        pairs = [(where, before.get(name, _MISSING), after.get(name, _MISSING)) for where, name in inner]
    elif isinstance(before, list) and isinstance(after, list):
        longest = range(max(len(before), len(after)))
        pairs = [(f"{path}[{index}]", _item(before, index), _item(after, index)) for index in longest]
    else:
        return None if before == after and type(before) is type(after) else (path, *_excerpts(before, after))
    return next((found for pair in pairs if (found := _first(*pair)) is not None), None)


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


def _plain(value: Any) -> Any:
    """Return a field of a request as JSON values, with what a provider is sent."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Message):
        return _sent(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return [_plain(each) for each in value]


def _sent(message: Message) -> dict[str, Any]:
    names = ("call_id", "name", "content", "is_error") if isinstance(message, ToolMessage) else ("text", "parts")
    found = {name: _plain(getattr(message, name)) for name in names if hasattr(message, name)}
    if isinstance(message, AssistantMessage):
        found.pop("text")
    else:
        found["media"] = [_plain(media) for media in getattr(message, "media", ())]
    return {"role": message.role, **found}
