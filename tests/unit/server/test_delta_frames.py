"""A frame of a piece is what a frame of any event is, whatever the texts around it contain."""

from __future__ import annotations

import json

import pytest

from concertino.events import RunEvent, TextDelta, ToolStarted, event_json
from concertino.server.frames import EventFrames

HOLE = '"text":""'
TEXTS = ["", "word ", 'a "quote" \\ and\nlines\r\t\0', "naïve 漢字 🦎", "\u2028\u2029", "\ud800", HOLE]


@pytest.mark.parametrize("path", ["desk", HOLE, 'a"b'])
def test_the_frames_of_pieces_are_those_of_their_events(path: str) -> None:
    frames = EventFrames()
    sent: list[RunEvent] = [TextDelta("run", path, 1, text, attempt="run:1:1") for text in TEXTS]
    sent += [ToolStarted("run", path, 1, "call", "look", "{}"), *sent, TextDelta("run", path, 2, "next", "draft", "c")]
    for number, event in enumerate(sent):
        expected = json.dumps(event_json(event), ensure_ascii=False, separators=(",", ":"))
        frame = f"id: {number}\ndata: {expected}\n\n".encode(errors="replace")
        assert frames.frame(number, event) == frame
