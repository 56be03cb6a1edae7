"""Server-sent events, decoded as bytes arrive.

Follows "Interpreting an event stream" in the HTML standard (server-sent events): lines end in CRLF, LF or CR; a blank
line ends an event; `data` lines of one event are joined with LF; a line that begins with a colon is a comment. One
deviation: an event that lacks only its last blank line still counts, because some servers close the connection right
after `data: [DONE]`.
"""

from __future__ import annotations

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """An event: its name ("" if it has none) and its data."""

    name: str
    data: str
    damaged: bool = False
    """Whether the data was not valid UTF-8; U+FFFD replaces the damage."""


def decoded(name: str, data: bytes) -> SseEvent:
    """Return an event with its data decoded."""
    try:
        return SseEvent(name, data.decode())
    except UnicodeDecodeError:
        return SseEvent(name, data.decode("utf-8", "replace"), damaged=True)


class SseDecoder:
    """Decode a stream that arrives in pieces of any size.

    Lines are decoded whole, so a piece may end inside a character.
    """

    __slots__ = ("_after_cr", "_begun", "_data", "_name", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of the unfinished line
        self._data: list[bytes] = []
        self._name = b""
        self._after_cr = False
        self._begun = False

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that *piece* completes."""
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")  # a CRLF was cut in two
            self._after_cr = False
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *lines = piece.split(b"\n")
        self._rest.append(first)
        if not lines:
            return []
        lines.insert(0, b"".join(self._rest))
        self._rest = [lines.pop()]
        return self._read(lines)

    def close(self) -> list[SseEvent]:
        """Return the last event if the stream ended without the blank line after it."""
        return self._read([b"".join(self._rest), b""])

    def _read(self, lines: list[bytes]) -> list[SseEvent]:
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        events = []
        for line in lines:
            if not line:
                if self._data:
                    data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    name = self._name.decode("utf-8", "replace") if self._name else ""
                    events.append(decoded(name, data))
                    self._data = []
                self._name = b""
                continue
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif field == b"event":
                self._name = value.removeprefix(b" ")
        return events
