"""Conversion of tool results and agent states to text and JSON."""

from __future__ import annotations

import functools
import json
from typing import Any

from ..errors import ConfigurationError

MAX_CUSTOM_DATA = 65_536
"""Longest JSON text of a custom event's data, in characters."""
AT_ONCE = 100_000
"""Bytes of a structure that may be encoded in one go: a few milliseconds, in which no other thread can run."""


def as_text(value: Any) -> str:
    """Return text unchanged and other values as JSON, with `str` for values that JSON cannot represent."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else _ENCODER.encode(value)  # the encoder has a high fixed cost


def bounded_text(value: Any, most: int) -> str:
    """Return `as_text` of *value* without the middle of a text of more than *most* bytes.

    The time and the memory that it takes depend on *most*, not on the size of the value.
    """
    text = text_at_once(value, most)
    return cut_bytes(_start_of(value, most), most) if text is None else text


def text_at_once(value: Any, most: int) -> str | None:
    """Return `bounded_text` of *value*; None for a structure that takes long to encode."""
    if not isinstance(value, str):
        if type(value) is not int and not is_within(value, AT_ONCE):
            return None
        value = as_text(value)
    return cut_bytes(value, most)


def is_within(value: Any, most: int) -> bool:
    """Return whether *value* has at most *most* bytes as JSON. The answer is approximate for escaped characters."""
    seen, values = 0, [value]
    while values:
        value = values.pop()
        if isinstance(value, str | bytes):
            seen += len(value)
        elif isinstance(value, dict | list | tuple | set | frozenset):
            if len(value) > most:
                return False
            values += value
            if isinstance(value, dict):
                values += value.values()
        elif hasattr(value, "__dict__"):
            values += vars(value).values()
        seen += 1
        if seen > most:
            return False
    return True


def cut_bytes(text: str, most: int) -> str:
    """Return *text* without its middle if it has more than *most* bytes in UTF-8."""
    # Encode no more of a huge text than may be kept, and nothing of a short one: a character has at most four bytes.
    if 4 * len(text) <= most or (len(text) <= most and len(text.encode(errors="surrogatepass")) <= most):
        return text
    half = most // 2
    start = text[:half].encode(errors="surrogatepass")[:half].decode(errors="ignore")
    end = text[-half:].encode(errors="surrogatepass")[-half:].decode(errors="ignore")
    return f"{start}\n[... the middle of {len(text):,} characters was left out: the limit is {most:,} bytes ...]\n{end}"


def _start_of(value: Any, most: int) -> str:
    """Return the start of *value* as JSON, encoded piece by piece up to *most* characters."""
    pieces, length = [], 0
    for piece in _ENCODER.iterencode(value):
        pieces.append(piece[: most - length])
        length += len(piece)
        if length > most:
            return f"{''.join(pieces)}\n[... the rest was left out: the limit is {most:,} bytes ...]"
    return "".join(pieces)


def plain(value: Any) -> Any:
    """Return *value* as plain JSON values, or its `repr` if it is recursive or cannot be encoded."""
    if value is None or type(value) in (str, int, bool):
        return value
    try:
        return json.loads(_ENCODER.encode(value))
    except (ValueError, TypeError, RecursionError):
        return repr(value)


def custom_data(name: str, data: Any) -> Any:
    """Return the data of a custom event as new JSON values.

    Raises `ConfigurationError` if *name* is invalid, *data* are not JSON, or their text is longer than the limit.
    """
    if not isinstance(name, str) or not 0 < len(name) <= 100:
        raise ConfigurationError(f"emit({name!r:.120}, ...): the name must be a text of 1 to 100 characters")
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"emit({name!r}, ...): the data are not JSON: {error}; use dicts with text keys, lists and plain values"
        ) from error
    if len(text) > MAX_CUSTOM_DATA:
        raise ConfigurationError(
            f"emit({name!r}, ...): the data have {len(text):,} characters of JSON, more than {MAX_CUSTOM_DATA:,}: "
            "send a reference to them"
        )
    return json.loads(text)


def dump_state(state: Any) -> str | None:
    """Return an agent's state as JSON text, or None. Raises `ConfigurationError` if it cannot be encoded."""
    if state is None:
        return None
    try:
        adapter = _adapter(type(state))  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
        return str(adapter.dump_json(state), "utf-8")
    except Exception as error:
        raise ConfigurationError(
            f"the agent's state, a {type(state).__name__}, cannot be stored: {error}; use a dataclass or a pydantic "
            "model of plain values"
        ) from error


def load_state(like: Any, text: str | None) -> Any:
    """Restore a state from *text* with the type of *like*; "" is None.

    Raises `ConfigurationError` if it does not match.
    """
    if text is None or like is None:
        return like
    if not text:
        return None
    try:
        return _adapter(type(like)).validate_json(text)  # type: ignore[arg-type]  # as above
    except ValueError as error:
        raise ConfigurationError(
            f"the agent's state from the journal does not match {type(like).__name__}: {error}; give new fields "
            "of a state a default, so that earlier runs can be resumed"
        ) from error


@functools.cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - importing pydantic doubles the time of `import concertino`

    return TypeAdapter(kind)


def _simple(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_simple)
