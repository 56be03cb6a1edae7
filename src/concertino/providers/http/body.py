"""The body of an answer as events, whatever form it has: a stream of events, a stream of AWS, or one JSON text.

The form is told by the first byte, because servers and proxies name it wrongly: `{` and `[` begin JSON, `<` a page,
and a zero the length of AWS's first frame, which is below 16 MiB.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from typing import Protocol

from ...errors import BrokenStreamError
from .sse import Event, SseDecoder

WHOLE = "\0whole"
"""The name of the one event of an answer that did not come as a stream."""

LARGEST = 128 * 1024 * 1024
"""How many bytes an event may have; images in base64 have some millions."""

_BLANK = b" \t\r\n\xef\xbb\xbf"


class _Decoder(Protocol):
    def feed(self, piece: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...


class BodyDecoder:
    """Takes a body in pieces, cut anywhere, and gives the events that are complete.

    Raises `BrokenStreamError` for what is no answer of a model, and for an event without end.
    """

    __slots__ = ("_decoder", "_provider", "_waiting")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._decoder: _Decoder | None = None
        self._waiting = 0

    def feed(self, piece: bytes) -> list[Event]:
        """The events that *piece* completes."""
        if self._decoder is None:
            if not piece.strip(_BLANK):
                return []
            self._decoder = self._choose(piece.lstrip(_BLANK))
        try:
            events = self._decoder.feed(piece)
        except (ValueError, KeyError) as error:
            raise self._broken(f"sent a damaged frame: {error}") from error
        self._waiting = 0 if events else self._waiting + len(piece)
        if self._waiting > LARGEST:
            raise self._broken("sent an event without end")
        return events

    def close(self) -> list[Event]:
        """The last event, where the body ended without saying so."""
        return [] if self._decoder is None else self._decoder.close()

    def _choose(self, piece: bytes) -> _Decoder:
        match piece[:1]:
            case b"{" | b"[":
                return _WholeDecoder()
            case b"\0":
                return _AwsDecoder()
            case b"<":
                raise self._broken(f"answered with a page: {piece[:80]!r}")
            case _:
                return SseDecoder()

    def _broken(self, words: str) -> BrokenStreamError:
        return BrokenStreamError(f"{self._provider} {words}", provider=self._provider)


class _WholeDecoder:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes) -> list[Event]:
        self._pieces.append(piece)
        return []

    def close(self) -> list[Event]:
        return [Event(WHOLE, b"".join(self._pieces).decode("utf-8-sig", "replace"))]


class _AwsDecoder:
    """AWS's event streams (`application/vnd.amazon.eventstream`), as Bedrock frames the events of other providers.

    A frame: its length and that of its headers (4 bytes each, big-endian), a checksum, headers, payload, a checksum.
    A header: a byte of length, its name, a byte of type (7: text), 2 bytes of length, its value. The payload is JSON;
    in an event `chunk` it has the provider's event in `bytes`. An exception has its name in `:exception-type`.
    (Amazon's "event stream encoding", and `botocore.eventstream`.)
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Event]:
        self._rest += piece
        events = []
        while len(self._rest) >= 16:
            length, header_length = struct.unpack(">II", self._rest[:8])
            if length < 16 + header_length:
                raise ValueError("its lengths do not fit")
            if len(self._rest) < length:
                break
            frame, self._rest = self._rest[:length], self._rest[length:]
            if binascii.crc32(frame[:-4]) != struct.unpack(">I", frame[-4:])[0]:
                raise ValueError("its checksum is wrong")
            events += self._event(_headers(frame[12 : 12 + header_length]), frame[12 + header_length : -4])
        return events

    def _event(self, headers: dict[str, str], payload: bytes) -> list[Event]:
        body = json.loads(payload or b"{}")
        if headers.get(":message-type") in ("exception", "error"):
            kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
            words = body.get("message") or headers.get(":error-message") or kind
            return [Event("error", json.dumps({"type": "error", "error": {"type": kind, "message": words}}))]
        data = base64.b64decode(body.get("bytes") or "").decode("utf-8", "replace")
        return [Event("", data)] if data else []

    def close(self) -> list[Event]:
        return []


def _headers(data: bytes) -> dict[str, str]:
    found = {}
    while data:
        size = data[0]
        name, kind = data[1 : 1 + size].decode(), data[1 + size]
        if kind != 7:
            raise ValueError(f"its header {name!r} is no text")
        (length,) = struct.unpack(">H", data[2 + size : 4 + size])
        found[name] = data[4 + size : 4 + size + length].decode("utf-8", "replace")
        data = data[4 + size + length :]
    return found
