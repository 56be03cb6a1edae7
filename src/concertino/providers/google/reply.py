"""The chunks of a streamed generateContent answer, read. Facts are from the Gemini API reference
(`GenerateContentResponse`, `UsageMetadata`, "Thought signatures").

Usage: `promptTokenCount` includes `cachedContentTokenCount`; `candidatesTokenCount` leaves out
`thoughtsTokenCount`; `toolUsePromptTokenCount` is input beside the prompt; `totalTokenCount` is the sum of the four
without the cached one. Counts are cumulative: the newest of each field counts. Writing to the cache is not reported.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ...errors import BrokenStreamError, ContentFilteredError, OverloadedError, ProviderError
from ...ids import new_call_id
from ...messages import Opaque, Part, Reasoning, StopReason, Text, ToolCall
from ...usage import Tokens
from ..base import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ..errors import by_status, make
from ..http.encoding import dumps
from ..http.sse import Event
from ..http.transport import finished, payload
from .request import PROVIDER

STOP_REASONS: dict[str, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "TOO_MANY_TOOL_CALLS": "length",
    "MALFORMED_FUNCTION_CALL": "broken",
    "UNEXPECTED_TOOL_CALL": "broken",
    "MALFORMED_RESPONSE": "broken",
    "MISSING_THOUGHT_SIGNATURE": "broken",
    "SAFETY": "filter",
    "RECITATION": "filter",
    "LANGUAGE": "filter",
    "BLOCKLIST": "filter",
    "PROHIBITED_CONTENT": "filter",
    "SPII": "filter",
    "ESCALATION": "filter",
    "MODEL_ARMOR": "filter",
    "PUP_LIMITED_DISABLED": "filter",
    "IMAGE_SAFETY": "filter",
    "IMAGE_PROHIBITED_CONTENT": "filter",
    "IMAGE_RECITATION": "filter",
}
"""All others are "broken": `OTHER`, `NO_IMAGE`, `IMAGE_OTHER`, and what nobody knows yet."""


BESIDE = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
"""What comes beside the parts, in pieces of which the newest of each field counts."""

_PLAIN = {"text", "thought"}
_MARKS = {"thought", "thoughtSignature", "videoMetadata", "partMetadata"}
"""What a part has besides its content."""


class ContentReader:
    """A `Reader` of generateContent. The format has no last event: a finish reason ends the answer."""

    __slots__ = ("_beside", "_call", "_model", "_open", "_parts", "_stop", "_usage", "_why", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._parts: list[Part] = []
        self._call: PartialCall | None = None
        self._open: tuple[str, list[str]] | None = None  # a run of text or thoughts without a signature
        self._beside: dict[str, Any] = {}
        self._model = ""
        self._stop = ""
        self._why = ""
        self._usage: dict[str, Any] = {}

    def read(self, event: Event) -> Iterable[ModelEvent]:
        """See `Reader.read`."""
        return self._take(payload(event, PROVIDER))

    def whole(self, answer: Any) -> Iterator[ModelEvent]:
        """See `Reader.whole`. Without `alt=sse`, a stream is one list of chunks."""
        for chunk in answer if isinstance(answer, list) else [answer]:
            yield from self._take(chunk)
        self.ended = self.ended or (isinstance(answer, dict) and bool(self._parts or self._open))  # it is all there

    def partial(self) -> tuple[list[Part], str]:
        """See `Reader.partial`."""
        return self._parts + ([] if self._open is None else [_run(*self._open)]), self._model

    def counted(self) -> Tokens | None:
        """See `Reader.counted`."""
        return tokens(self._usage)

    def reply(self) -> Reply:
        """See `Reader.reply`."""
        if not self.ended:
            raise BrokenStreamError("the answer of google ended without a finish reason", provider=PROVIDER)
        for _ in self._finish_call():
            pass
        self._finish_run()
        stop = STOP_REASONS.get(self._stop or "STOP", "broken")
        if stop == "broken" and not any(_is_of_use(part) for part in self._parts):
            raise BrokenStreamError(f"the answer of google went wrong: {self._why}", provider=PROVIDER)
        parts = self._parts + [Opaque(PROVIDER, name, dumps(value)) for name, value in self._beside.items()]
        return finished(PROVIDER, parts, stop, self._model, tokens(self._usage), self._why)

    def _take(self, chunk: dict[str, Any]) -> Iterable[ModelEvent]:
        if error := chunk.get("error"):
            raise stream_error(error)
        self._model = chunk.get("modelVersion") or self._model
        self._usage.update(chunk.get("usageMetadata") or {})
        if reason := (chunk.get("promptFeedback") or {}).get("blockReason"):
            self.ended = True
            raise ContentFilteredError(f"google refused the request: {reason}", provider=PROVIDER)
        candidates = chunk.get("candidates")
        if not candidates:
            return ()
        candidate = candidates[0]
        if reason := candidate.get("finishReason"):
            self._stop = reason
            self._why = candidate.get("finishMessage") or reason
            self.ended = True
        for name in BESIDE:
            if candidate.get(name):
                self._beside[name] = {**self._beside.get(name, {}), **candidate[name]}
        parts = (candidate.get("content") or {}).get("parts")
        return [item for part in parts for item in self._part(part)] if parts else ()

    def _part(self, part: dict[str, Any]) -> Iterator[ModelEvent]:
        signature = part.get("thoughtSignature")
        if (call := part.get("functionCall")) is not None:
            yield from self._part_of_call(part, call, signature)
            return
        yield from self._finish_call()
        text = part.get("text")
        if text is None:
            self._finish_run()
            kind = next((name for name in part if name not in _MARKS), "")
            if kind:
                self._parts.append(Opaque(PROVIDER, kind, dumps(part)))
            return
        kind = "thought" if part.get("thought") else "text"
        if part.keys() - _PLAIN:  # a part with a signature must not be joined with others
            self._finish_run()
            raw = dumps(part)
            if kind == "thought":
                self._parts.append(Reasoning(text, signature=signature, provider=PROVIDER, raw=raw))
            else:
                self._parts.append(Text(text, raw=raw, provider=PROVIDER))
        elif text:
            if self._open is None or self._open[0] != kind:
                self._finish_run()
                self._open = kind, []
            self._open[1].append(text)
        if text:
            yield ReasoningChunk(text) if kind == "thought" else TextChunk(text)

    def _part_of_call(self, part: dict[str, Any], call: dict[str, Any], signature: str | None) -> Iterator[ModelEvent]:
        if name := call.get("name"):
            yield from self._finish_call()
            self._finish_run()
            self._call = PartialCall(call.get("id") or new_call_id(), name, call.get("args"), signature)
            self._call.keep(part)
            if call.get("willContinue"):
                yield ToolCallChunk(self._call.id, name, "")
        elif self._call is not None:
            self._call.add(call, signature)
        if not call.get("willContinue"):
            yield from self._finish_call()

    def _finish_call(self) -> Iterator[ModelEvent]:
        if self._call is not None:
            call, self._call = self._call, None
            arguments = dumps(call.arguments)
            raw = dumps(call.more) if call.more else None
            made = ToolCall(call.id, call.name, arguments, call.signature, raw=raw, provider=PROVIDER)
            self._parts.append(made)
            yield ToolCallChunk(made.id, made.name, made.arguments)
            yield ToolCallReady(made)

    def _finish_run(self) -> None:
        if self._open is not None:
            self._parts.append(_run(*self._open))
            self._open = None


def _is_of_use(part: Part) -> bool:
    return bool(part.text) if part.kind == "text" else part.kind != "reasoning"


def _run(kind: str, pieces: list[str]) -> Part:
    text = "".join(pieces)
    return Reasoning(text, provider=PROVIDER) if kind == "thought" else Text(text)


def tokens(usage: dict[str, Any]) -> Tokens | None:
    """The API's counts in the meaning of `Tokens`."""
    if "promptTokenCount" not in usage and "candidatesTokenCount" not in usage:
        return None
    thoughts = usage.get("thoughtsTokenCount") or 0
    return Tokens(
        prompt=(usage.get("promptTokenCount") or 0) + (usage.get("toolUsePromptTokenCount") or 0),
        completion=(usage.get("candidatesTokenCount") or 0) + thoughts,
        cached=usage.get("cachedContentTokenCount") or 0,
        reasoning=thoughts,
    )


def stream_error(error: dict[str, Any]) -> ProviderError:
    """The error that stands in the place of a chunk."""
    code = error.get("code")
    kind = by_status(code) if isinstance(code, int) and code >= 400 else OverloadedError
    return make(kind, f"google: {error.get('message') or error}", provider=PROVIDER, status=code)


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


_OURS = {"id", "name", "args", "partialArgs", "willContinue"}


class PartialCall:
    """A call that is being written."""

    __slots__ = ("arguments", "id", "more", "name", "signature")

    def __init__(self, call_id: str, name: str, arguments: dict[str, Any] | None, signature: str | None) -> None:
        self.id = call_id
        self.name = name
        self.arguments: dict[str, Any] = arguments or {}
        self.signature = signature
        self.more: dict[str, Any] = {}
        """What the part, or the call in it, has besides."""

    def keep(self, part: dict[str, Any]) -> None:
        """Keep what there is no other place for, so that it goes back."""
        call = part["functionCall"]
        inner = {name: value for name, value in call.items() if name not in _OURS}
        more = {name: value for name, value in part.items() if name not in ("functionCall", "thoughtSignature")}
        self.more = {**more, **({"functionCall": inner} if inner else {})}

    def add(self, call: dict[str, Any], signature: str | None) -> None:
        """Take what the next part says."""
        self.signature = signature or self.signature
        self.arguments.update(call.get("args") or {})
        for piece in call.get("partialArgs") or ():
            _put(self.arguments, _steps(piece["jsonPath"]), piece)


def _steps(path: str) -> list[str | int]:
    return [
        int(found[2]) if found[2] is not None else found[1] or found[3] or found[4] or ""
        for found in _STEP.finditer(path)
    ]


def _put(root: dict[str, Any], steps: list[str | int], piece: dict[str, Any]) -> None:
    """Put the value of *piece* at *steps*, making what is missing on the way."""
    place: Any = root
    for step, following in itertools.pairwise(steps):
        place = _at(place, step, [] if isinstance(following, int) else {})
    if not steps:
        return
    last = steps[-1]
    if "stringValue" in piece:
        before = _at(place, last, "")
        place[last] = (before if isinstance(before, str) else "") + piece["stringValue"]
    else:
        _at(place, last, None)
        place[last] = piece.get("numberValue", piece.get("boolValue"))


def _at(place: Any, step: str | int, default: Any) -> Any:
    """What is at *step* of *place*; *default* is put there if nothing is."""
    if isinstance(step, int):
        while len(place) <= step:
            place.append(default if len(place) == step else None)
        return place[step]
    return place.setdefault(step, default)
