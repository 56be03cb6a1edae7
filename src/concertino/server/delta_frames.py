"""Frames of events: an answer that arrives in pieces is encoded once, and each piece is put into it."""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

from ..events import RunEvent, TextDelta, event_json

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NO_TEXT = '"text":""'
"""The field of an empty text; within another field, its quotes are escaped."""


class EventFrames:
    """Makes the frames of one stream. The pieces of one text differ in their position and their text only."""

    __slots__ = ("_around", "_last")

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()
        self._around = ("", "")

    def frame(self, position: int | str, event: RunEvent) -> bytes:
        """Return the frame of an event."""
        if type(event) is not TextDelta:
            return f"id: {position}\ndata: {_JSON.encode(event_json(event))}\n\n".encode(errors="replace")
        last = (event.run_id, event.agent_path, event.index, event.audience, event.call_id, event.attempt)
        if last != self._last:
            before, _, after = _JSON.encode({**event_json(event), "text": ""}).partition(_NO_TEXT)
            self._last, self._around = last, (f'data: {before}"text":', f"{after}\n\n")
        before, after = self._around
        return f"id: {position}\n{before}{encode_basestring(event.text)}{after}".encode(errors="replace")
