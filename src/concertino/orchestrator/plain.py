"""Values as text and as plain JSON: what tools return, and what agents keep as their state."""

from __future__ import annotations

import functools
import json
from typing import Any

from ..errors import ConfigurationError


def as_text(value: Any) -> str:
    """Text as it is; anything else as JSON, and what JSON does not know as its own text."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else _ENCODER.encode(value)  # the encoder is slow with single values


def plain(value: Any) -> Any:
    """*value* as JSON has it; what has no end, and what cannot be read, as the text that Python shows of it."""
    if value is None or type(value) in (str, int, bool):
        return value
    try:
        return json.loads(_ENCODER.encode(value))
    except (ValueError, TypeError, RecursionError):
        return repr(value)


def dump_state(state: Any) -> str | None:
    """An agent's own state as JSON text; None for none. Raises `ConfigurationError` if it cannot be kept."""
    if state is None:
        return None
    try:
        adapter = _adapter(type(state))  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
        return str(adapter.dump_json(state), "utf-8")
    except Exception as error:
        raise ConfigurationError(
            f"the agent's state, a {type(state).__name__}, cannot be kept: {error}; make it a dataclass or a pydantic "
            "model of plain values"
        ) from error


def load_state(like: Any, text: str | None) -> Any:
    """The state that was dumped as *text*, of the type of *like*. Raises `ConfigurationError` if it does not fit."""
    if text is None or like is None:
        return like
    try:
        return _adapter(type(like)).validate_json(text)  # type: ignore[arg-type]  # as above
    except ValueError as error:
        raise ConfigurationError(
            f"the agent's state from the journal does not fit {type(like).__name__}: {error}; an agent whose state has "
            "changed cannot take up runs from before: give new fields a default"
        ) from error


@functools.cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - pydantic doubles the time of `import concertino`

    return TypeAdapter(kind)


def _simple(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_simple)
