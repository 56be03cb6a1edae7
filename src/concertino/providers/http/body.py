"""Decode a response body into events: an SSE stream, an AWS event stream, or one JSON document.

The first byte selects the form, because servers and proxies send wrong content types: `{` and `[` begin JSON, `<` an
HTML page, and a zero the length of the first AWS frame, which is below 16 MiB.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import struct
from typing import Protocol

from ...errors import BrokenStreamError
from .sse import SseDecoder, SseEvent, decoded

WHOLE = "\0whole"
"""The name of the single event of an answer that was not streamed."""

MAX_EVENT_BYTES = 128 * 1024 * 1024
"""The size limit of an event; base64 images take several million bytes."""

_BLANK = b" \t\r\n\xef\xbb\xbf"


class _Decoder(Protocol):
    def feed(self, piece: bytes) -> list[SseEvent]: ...
    def close(self) -> list[SseEvent]: ...


class BodyDecoder:
    """Decode a body that arrives in pieces of any size.

    Raises `BrokenStreamError` if the body is not a model's answer or an event exceeds `MAX_EVENT_BYTES`.
    """

    __slots__ = ("_decoder", "_pending", "_provider")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._decoder: _Decoder | None = None
        self._pending = 0

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that *piece* completes."""
        if self._decoder is None:
            if not piece.strip(_BLANK):
                return []
            self._decoder = self._choose(piece.lstrip(_BLANK))
        try:
            events = self._decoder.feed(piece)
        except (ValueError, KeyError) as error:
            raise self._broken(f"sent a damaged frame: {error}") from error
        self._pending = 0 if events else self._pending + len(piece)
        if self._pending > MAX_EVENT_BYTES:
            raise self._broken(f"sent an event of more than {MAX_EVENT_BYTES} bytes")
        return events

    def close(self) -> list[SseEvent]:
        """Return the last event, which the end of the body completes."""
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

    def _broken(self, problem: str) -> BrokenStreamError:
        return BrokenStreamError(f"{self._provider} {problem}", provider=self._provider)


class _WholeDecoder:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes) -> list[SseEvent]:
        self._pieces.append(piece)
        return []

    def close(self) -> list[SseEvent]:
        return [decoded(WHOLE, b"".join(self._pieces).removeprefix(codecs.BOM_UTF8))]


class _AwsDecoder:
    """Decode AWS event streams (`application/vnd.amazon.eventstream`), in which Bedrock frames other vendors' events.

    A frame has its length and its headers' length (4 bytes each, big-endian), a checksum, headers, payload, and a
    checksum. A header has a length byte, its name, a type byte (7 is text), a 2-byte length, and its value. The payload
    is JSON; in an event `chunk` its field `bytes` contains the vendor's event. An exception is named in
    `:exception-type`. (Amazon, "Event stream encoding", and `botocore.eventstream`.)
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[SseEvent]:
        self._rest += piece
        events = []
        while len(self._rest) >= 16:
            length, header_length = struct.unpack(">II", self._rest[:8])
            if length < 16 + header_length:
                raise ValueError(f"its length {length} is too small for headers of {header_length} bytes")
            if len(self._rest) < length:
                break
            frame, self._rest = self._rest[:length], self._rest[length:]
            if binascii.crc32(frame[:-4]) != struct.unpack(">I", frame[-4:])[0]:
                raise ValueError("its checksum is wrong")
            events += self._event(_headers(frame[12 : 12 + header_length]), frame[12 + header_length : -4])
        return events

    def close(self) -> list[SseEvent]:
        return []

    def _event(self, headers: dict[str, str], payload: bytes) -> list[SseEvent]:
        body = json.loads(payload or b"{}")
        if headers.get(":message-type") in ("exception", "error"):
            kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
            message = body.get("message") or headers.get(":error-message") or kind
            return [SseEvent("error", json.dumps({"type": "error", "error": {"type": kind, "message": message}}))]
        data = base64.b64decode(body.get("bytes") or "")
        return [decoded("", data)] if data else []


def _headers(data: bytes) -> dict[str, str]:
    found = {}
    while data:
        size = data[0]
        name, kind = data[1 : 1 + size].decode(), data[1 + size]
        if kind != 7:
            raise ValueError(f"its header {name!r} has type {kind}; only text (7) is supported")
        (length,) = struct.unpack(">H", data[2 + size : 4 + size])
        found[name] = data[4 + size : 4 + size + length].decode("utf-8", "replace")
        data = data[4 + size + length :]
    return found
