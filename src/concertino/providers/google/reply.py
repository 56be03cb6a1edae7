"""Read the chunks of a streamed generateContent answer.

Facts are from the Gemini API reference (`GenerateContentResponse`, `UsageMetadata`, "Thought signatures").

Usage: `promptTokenCount` includes `cachedContentTokenCount`; `candidatesTokenCount` excludes `thoughtsTokenCount`;
`toolUsePromptTokenCount` is input that the prompt's count excludes; `totalTokenCount` is the sum of the four without
the cached one. Counts are cumulative: the newest value of each field counts. Cache writes are not reported.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import BrokenStreamError, ContentFilteredError
from ...ids import new_call_id
from ...messages import Media, MediaPart, MessagePart, Opaque, Reasoning, StopReason, Text, ToolCall
from ...usage import Receipt, Tokens
from ..base import Logprob, ModelEvent, ReasoningChunk, TextChunk, ToolCallChunk, ToolCallReady
from ..http.encoding import dumps
from ..http.reader import AnswerReader, count_in, first_choice
from .errors import stream_error
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
"""All others are "broken": `OTHER`, `NO_IMAGE`, `IMAGE_OTHER`, and unknown ones."""

METADATA = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
"""Fields next to the parts. They arrive in pieces; the newest value of each inner field counts."""

_UNSIGNED = {"text", "thought"}
_ATTRIBUTES = {"thought", "thoughtSignature", "videoMetadata", "partMetadata"}
"""The fields of a part that are not its content."""


class ContentReader(AnswerReader):
    """An `AnswerReader` for generateContent. The format has no final event: a finish reason ends the answer."""

    total = "totalTokenCount"

    __slots__ = ("_call", "_done", "_listed", "_metadata", "_probabilities", "_reason", "_run")

    def __init__(self) -> None:
        super().__init__(PROVIDER)
        self._done: list[MessagePart] = []
        self._call: PartialCall | None = None
        self._run: tuple[str, list[str]] | None = None  # consecutive text or thoughts without a signature
        self._metadata: dict[str, Any] = {}
        self._probabilities: list[dict[str, Any]] = []
        self._reason = ""
        self._listed = False  # the body is a list of chunks, which may be cut off

    def _read_body(self, answer: Any) -> Sequence[ModelEvent]:
        """See `AnswerReader._read_body`. Without `alt=sse`, a stream is one JSON list of chunks, possibly cut off."""
        self._listed = isinstance(answer, list)
        return [item for chunk in (answer if self._listed else [answer]) for item in self._read(chunk)]

    def _is_whole(self) -> bool:
        return self._call is None and not self._listed and bool(self._done or self._run)

    def partial(self) -> list[MessagePart]:
        """See `AnswerReader.partial`."""
        return self._done + ([] if self._run is None else [_joined(*self._run)])

    def _parts(self) -> list[MessagePart]:
        for _ in self._finish_call():
            pass
        self._finish_run()
        if self._stop_reason() == "broken" and not any(_has_content(part) for part in self._done):
            raise BrokenStreamError(f"google failed to produce an answer: {self._reason}", provider=PROVIDER)
        return self._done + [Opaque(PROVIDER, name, dumps(value)) for name, value in self._metadata.items()]

    def _stop_reason(self) -> StopReason:
        return STOP_REASONS.get(self.stop or "STOP", "broken")

    def _explanation(self) -> str:
        return self._reason

    def _tokens(self) -> Tokens | None:
        return tokens(self.usage)

    def _reported(self) -> Receipt:
        queries = self._metadata.get("groundingMetadata", {}).get("webSearchQueries") or ()
        urls = self._metadata.get("urlContextMetadata", {}).get("urlMetadata") or ()
        code = sum(part.kind == "opaque" and part.type == "executableCode" for part in self._done)
        modalities: Counter[str] = Counter()
        for field, direction in _DETAILS.items():
            for entry in self.usage.get(field) or ():
                modalities[f"{direction}_{entry['modality'].lower()}"] += count_in(entry, "tokenCount")
        return Receipt(
            service_tier=self.usage.get("serviceTier") or self.usage.get("trafficType") or "",
            server_tools={
                "web_search": len(list(filter(None, queries))),
                "web_fetch": len(urls),
                "code_execution": code,
            },
            modalities=dict(modalities),
        )

    def _logprobs(self) -> tuple[Logprob, ...]:
        return tuple(
            [
                Logprob(
                    chosen["token"],
                    chosen["logProbability"],
                    tuple([(one["token"], one["logProbability"]) for one in top]),
                )
                for result in self._probabilities
                for chosen, top in _tokens_of(result)
            ]
        )

    def _read(self, chunk: dict[str, Any], name: str = "") -> Sequence[ModelEvent]:
        if error := chunk.get("error"):
            raise stream_error(error)
        self.model = chunk.get("modelVersion") or self.model
        self.response_id = chunk.get("responseId") or self.response_id
        self.usage.update(chunk.get("usageMetadata") or {})
        if reason := (chunk.get("promptFeedback") or {}).get("blockReason"):
            self.end = "reason"
            raise ContentFilteredError(f"google refused the request: {reason}", provider=PROVIDER)
        candidate = first_choice(chunk.get("candidates"))
        if candidate is None:
            return ()
        if reason := candidate.get("finishReason"):
            self.stop = reason
            self._reason = candidate.get("finishMessage") or reason
            self.end = "reason"
        if candidate.get("logprobsResult"):
            self._probabilities.append(candidate["logprobsResult"])
        for field in METADATA:
            if candidate.get(field):
                self._metadata[field] = {**self._metadata.get(field, {}), **candidate[field]}
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
            kind = next((name for name in part if name not in _ATTRIBUTES), "")
            if kind == "inlineData" and not part.get("thought"):
                self._done.append(_media(part))
            elif kind:
                self._done.append(Opaque(PROVIDER, kind, dumps(part)))
            return
        kind = "thought" if part.get("thought") else "text"
        if part.keys() - _UNSIGNED:  # a part with a signature must not be merged with others
            self._finish_run()
            raw = dumps(part)
            if kind == "thought":
                self._done.append(Reasoning(text, signature=signature, provider=PROVIDER, raw=raw))
            else:
                self._done.append(Text(text, raw=raw, provider=PROVIDER))
        elif text:
            if self._run is None or self._run[0] != kind:
                self._finish_run()
                self._run = kind, []
            self._run[1].append(text)
        if text:
            yield ReasoningChunk(text) if kind == "thought" else TextChunk(text)

    def _part_of_call(self, part: dict[str, Any], call: dict[str, Any], signature: str | None) -> Iterator[ModelEvent]:
        if name := call.get("name"):
            yield from self._finish_call()
            self._finish_run()
            self._call = PartialCall(call.get("id") or new_call_id(), name, call.get("args"), signature)
            self._call.keep_extras(part)
            if call.get("willContinue"):
                yield ToolCallChunk(self._call.id, name, "")
        elif self._call is not None:
            self._call.add(call, signature)
        if not call.get("willContinue"):
            yield from self._finish_call()

    def _finish_call(self) -> Iterator[ModelEvent]:
        if self._call is not None:
            call, self._call = self._call, None
            raw = dumps(call.extras) if call.extras else None
            done = ToolCall(call.id, call.name, dumps(call.arguments), call.signature, raw=raw, provider=PROVIDER)
            self._done.append(done)
            yield ToolCallChunk(done.id, done.name, done.arguments)
            yield ToolCallReady(done)

    def _finish_run(self) -> None:
        if self._run is not None:
            self._done.append(_joined(*self._run))
            self._run = None


def _media(part: dict[str, Any]) -> MediaPart:
    """Return an image that the model produced; its signature goes back with it."""
    content = part["inlineData"]
    rest = {name: value for name, value in part.items() if name != "inlineData"}
    media = Media(content["mimeType"], content["data"], name=content.get("displayName") or "")
    return MediaPart(media, raw=dumps(rest), provider=PROVIDER)


def _has_content(part: MessagePart) -> bool:
    return bool(part.text) if part.kind == "text" else part.kind != "reasoning"


def _joined(kind: str, pieces: list[str]) -> MessagePart:
    text = "".join(pieces)
    return Reasoning(text, provider=PROVIDER) if kind == "thought" else Text(text)


def tokens(usage: dict[str, Any]) -> Tokens | None:
    """Return the API's counts as `Tokens`, or None without a report."""
    if "promptTokenCount" not in usage and "candidatesTokenCount" not in usage:
        return None
    thoughts = count_in(usage, "thoughtsTokenCount")
    return Tokens(
        prompt=count_in(usage, "promptTokenCount") + count_in(usage, "toolUsePromptTokenCount"),
        completion=count_in(usage, "candidatesTokenCount") + thoughts,
        cached=count_in(usage, "cachedContentTokenCount"),
        reasoning=thoughts,
    )


_DETAILS = {
    "promptTokensDetails": "input",
    "toolUsePromptTokensDetails": "input",
    "cacheTokensDetails": "cached",
    "candidatesTokensDetails": "output",
}
"""The fields of `UsageMetadata` with tokens by modality."""


def _tokens_of(result: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Sequence[dict[str, Any]]]]:
    """Return each token of a `LogprobsResult` with the most likely ones in its position."""
    likely = result.get("topCandidates") or []
    for index, chosen in enumerate(result.get("chosenCandidates") or []):
        yield chosen, likely[index].get("candidates") or [] if index < len(likely) else []


_REPRESENTED = {"id", "name", "args", "partialArgs", "willContinue"}
"""The fields that a `ToolCall` represents itself, or that only matter in a stream."""


class PartialCall:
    """A call under construction."""

    __slots__ = ("arguments", "extras", "id", "name", "signature")

    def __init__(self, call_id: str, name: str, arguments: dict[str, Any] | None, signature: str | None) -> None:
        self.id = call_id
        self.name = name
        self.arguments: dict[str, Any] = arguments or {}
        self.signature = signature
        self.extras: dict[str, Any] = {}
        """Further fields of the part, and of the call in it, which go back with the call."""

    def keep_extras(self, part: dict[str, Any]) -> None:
        """Keep the fields of the call's first part that a `ToolCall` does not represent."""
        call = part["functionCall"]
        inner = {name: value for name, value in call.items() if name not in _REPRESENTED}
        outer = {name: value for name, value in part.items() if name not in ("functionCall", "thoughtSignature")}
        self.extras = {**outer, **({"functionCall": inner} if inner else {})}

    def add(self, call: dict[str, Any], signature: str | None) -> None:
        """Apply a continuation of the call."""
        self.signature = signature or self.signature
        self.arguments.update(call.get("args") or {})
        for piece in call.get("partialArgs") or ():
            _set_at(self.arguments, _steps(piece["jsonPath"]), piece)


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


_MOST_SKIPPED = 1_000
"""Elements of a list that a piece of arguments may skip: they are created before it."""


def _steps(path: str) -> list[str | int]:
    return [
        int(found[2]) if found[2] is not None else found[1] or found[3] or found[4] or ""
        for found in _STEP.finditer(path)
    ]


def _set_at(root: dict[str, Any], steps: list[str | int], piece: dict[str, Any]) -> None:
    """Set the value of *piece* at the path *steps*, creating missing containers; strings are appended."""
    container: Any = root
    for step, following in itertools.pairwise(steps):
        container = _at(container, step, [] if isinstance(following, int) else {})
    if not steps:
        return
    last = steps[-1]
    if "stringValue" in piece:
        before = _at(container, last, "")
        container[last] = (before if isinstance(before, str) else "") + piece["stringValue"]
    else:
        _at(container, last, None)
        container[last] = piece.get("numberValue", piece.get("boolValue"))


def _at(container: Any, step: str | int, default: Any) -> Any:
    """Return the value at *step* of *container*, after inserting *default* if it is missing."""
    if isinstance(step, int):
        if step > len(container) + _MOST_SKIPPED:
            raise ValueError(f"the index {step} is far behind the end of the list")
        while len(container) <= step:
            container.append(default if len(container) == step else None)
        return container[step]
    return container.setdefault(step, default)
