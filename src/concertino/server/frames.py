"""Server-sent events. An answer that arrives in pieces is encoded once, and each piece is put into it."""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

from pydantic_core import to_json

from ..events import RunEvent, TextDelta, event_json

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NO_TEXT = '"text":""'
"""The field of an empty text; within another field, its quotes are escaped."""


def frame(data: Any, *, id: int | str = "", event: str = "") -> bytes:
    """Return one server-sent event: text as it is, or any other value as JSON.

    Lines end with LF, the only end that AG-UI's client accepts.
    """
    named = f"event: {event}\n" if event else ""
    numbered = f"id: {id}\n" if id != "" else ""
    body = data.encode(errors="replace") if isinstance(data, str) else _json(data)
    return b"%bdata: %b\n\n" % (f"{numbered}{named}".encode(), body)


def _json(data: Any) -> bytes:
    try:
        return to_json(data, inf_nan_mode="constants")  # four times as fast as `json`
    except ValueError:  # half of a surrogate pair, or deeply nested
        return _JSON.encode(data).encode(errors="replace")


class EventFrames:
    """Makes the frames of one stream. The pieces of one text differ in their position and their text only."""

    __slots__ = ("_around", "_last")

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()
        self._around = ("", "")

    def frame(self, position: int | str, event: RunEvent) -> bytes:
        """Return the frame of an event."""
        if type(event) is not TextDelta:
            return frame(event_json(event), id=position)
        last = (event.run_id, event.agent_path, event.index, event.audience, event.call_id, event.attempt)
        if last != self._last:
            before, _, after = _JSON.encode({**event_json(event), "text": ""}).partition(_NO_TEXT)
            self._last, self._around = last, (f'data: {before}"text":', f"{after}\n\n")
        before, after = self._around
        return f"id: {position}\n{before}{encode_basestring(event.text)}{after}".encode(errors="replace")
