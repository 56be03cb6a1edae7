"""The events of a streamed message, read. Facts are from Anthropic's API reference, "Streaming messages".

Usage: `input_tokens` leaves out what was read from the cache (`cache_read_input_tokens`) and written to it
(`cache_creation_input_tokens`, of which `cache_creation` names the share of each lifetime); "total input tokens in a
request is the summation" of the three. `output_tokens` includes thinking, of which
`output_tokens_details.thinking_tokens` is the share. The counts of `message_delta` are cumulative and take the place of
those of `message_start`, field by field. What is done beside the answer stands in `iterations` only: the tokens of a
`compaction` are "not included in the top-level usage fields" (the SDK's `BetaUsage`), nor are those of an
`advisor_message`, as recorded answers show. All other entries are the answer's own turns, whose sum the top level is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ...errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from ...messages import Opaque, Part, Reasoning, StopReason, Text, ToolCall
from ...usage import Tokens
from ..base import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ..errors import make
from ..http.encoding import dumps, is_object
from ..http.sse import Event
from ..http.transport import finished, payload
from .request import CONTAINER, PROVIDER, REDACTED

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "refusal": "filter",
}

ERROR_TYPES: dict[str, type[ProviderError]] = {
    "invalid_request_error": BadRequestError,
    "authentication_error": AuthenticationError,
    "billing_error": PermissionDeniedError,
    "permission_error": PermissionDeniedError,
    "not_found_error": ModelNotFoundError,
    "request_too_large": ContextTooLongError,
    "rate_limit_error": RateLimitError,
    "timeout_error": ProviderTimeoutError,
    "api_error": OverloadedError,
    "overloaded_error": OverloadedError,
    # Bedrock's, which come as frames of their own
    "validationException": BadRequestError,
    "throttlingException": RateLimitError,
    "modelTimeoutException": ProviderTimeoutError,
    "accessDeniedException": PermissionDeniedError,
    "resourceNotFoundException": ModelNotFoundError,
}
"""The API's error types, as they come in the body of an error and in an `error` event of a stream."""


_CUTTABLE = ("text", "thinking")
"""The blocks of which a beginning is worth something."""
_BESIDE = ("compaction", "advisor_message")
"""The entries of `usage.iterations` that the top level leaves out."""


class MessageReader:
    """A `Reader` of the Messages API."""

    __slots__ = ("_blocks", "_container", "_empty", "_model", "_stop", "_usage", "_why", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._blocks: dict[int, Block] = {}
        self._empty: Block | None = None  # a call that ended without arguments, or was cut off before them
        self._container: dict[str, Any] | None = None
        self._model = ""
        self._stop = ""
        self._why = ""
        self._usage: dict[str, Any] = {}

    def read(self, event: Event) -> Iterable[ModelEvent]:
        """See `Reader.read`. Unknown events are passed over, as the API reference asks for."""
        return self._take(payload(event, PROVIDER))

    def whole(self, answer: Any) -> Iterator[ModelEvent]:
        """See `Reader.whole`."""
        if answer.get("type") == "error" or "content" not in answer:
            raise stream_error(answer)
        yield from self._take({"type": "message_start", "message": answer})
        for index, block in enumerate(answer["content"]):
            yield from self._take({"type": "content_block_start", "index": index, "content_block": block})
            yield from self._take({"type": "content_block_stop", "index": index})
        yield from self._take({"type": "message_delta", "delta": answer})
        self.ended = bool(self._stop or self._blocks)  # it is all there

    def partial(self) -> tuple[list[Part], str]:
        """See `Reader.partial`."""
        blocks = [block for _, block in sorted(self._blocks.items()) if block.ended or block.kind in _CUTTABLE]
        parts = [part for block in blocks if (part := block.part()) is not None]
        return [part for part in parts if part.kind != "tool_call" or is_object(part.arguments)], self._model

    def counted(self) -> Tokens | None:
        """See `Reader.counted`."""
        return tokens(self._usage)

    def reply(self) -> Reply:
        """See `Reader.reply`."""
        if not self.ended:
            raise BrokenStreamError("the answer of anthropic ended without message_stop", provider=PROVIDER)
        parts = [part for _, block in sorted(self._blocks.items()) if (part := block.part()) is not None]
        if self._container is not None:
            parts.append(Opaque(PROVIDER, CONTAINER, dumps(self._container)))
        stop = STOP_REASONS.get(self._stop, "end")
        return finished(PROVIDER, parts, stop, self._model, tokens(self._usage), self._why)

    def _take(self, data: dict[str, Any]) -> Iterable[ModelEvent]:
        match data.get("type"):
            case "content_block_delta":
                return self._delta(data)
            case "content_block_start":
                return self._start(data)
            case "content_block_stop":
                return self._end(self._blocks.get(data["index"]))
            case "message_start":
                self._begin()
                self._model = data["message"].get("model") or ""
                self._count(data["message"].get("usage"))
            case "message_delta":
                delta = data["delta"]
                self._stop = delta.get("stop_reason") or self._stop
                self._why = (delta.get("stop_details") or {}).get("explanation") or ""
                self._container = delta.get("container") or self._container
                self._count(data.get("usage"))
            case "message_stop":
                self.ended = True
            case "error":
                raise stream_error(data)
        return ()

    def _begin(self) -> None:
        """A proxy may break an answer off and begin another in its place: what counts is the last."""
        if any(block.ready for block in self._blocks.values()):
            raise BrokenStreamError("anthropic began again after a call was complete", provider=PROVIDER)
        self._blocks, self._usage, self._empty = {}, {}, None

    def _start(self, data: dict[str, Any]) -> Iterator[ModelEvent]:
        if self._empty is not None:
            yield from _announce(self._empty)
            self._empty = None
        block = self._blocks[data["index"]] = Block(data["content_block"])
        if block.kind == "fallback":  # another model takes over, and is the one that answers
            self._model = data["content_block"]["to"]["model"]
        if block.kind == "tool_use":
            yield ToolCallChunk(block.id, block.name, "")
        elif text := block.begin():
            yield TextChunk(text) if block.kind == "text" else ReasoningChunk(text)

    def _end(self, block: Block | None) -> Iterable[ModelEvent]:
        """A block that the token limit cuts off is ended, too. Arguments that are no whole object wait for the reply;
        none at all, for the next block: after a cut there is no other."""
        if block is None:
            return ()
        block.ended = True
        if block.kind != "tool_use":
            return ()
        if block.empty:
            self._empty = block
            return ()
        return _announce(block)

    def _delta(self, data: dict[str, Any]) -> Iterable[ModelEvent]:
        delta = data["delta"]
        kind = delta["type"]
        block = self._blocks.get(data["index"])
        if block is None:
            raise BrokenStreamError("anthropic sent a delta of a block that it had not begun", provider=PROVIDER)
        if kind == "text_delta":
            text = delta["text"]
            block.add(text)
            return (TextChunk(text),)
        if kind == "thinking_delta":
            block.add(delta["thinking"])
            return (ReasoningChunk(delta["thinking"]),)
        if kind == "input_json_delta":
            piece = delta["partial_json"]
            block.add(piece)
            return (ToolCallChunk(block.id, block.name, piece),) if piece and block.kind == "tool_use" else ()
        block.take(delta)
        return ()

    def _count(self, usage: dict[str, Any] | None) -> None:
        self._usage.update((name, value) for name, value in (usage or {}).items() if value is not None)


def _announce(block: Block) -> Iterable[ModelEvent]:
    call = block.part()
    if block.ready or not isinstance(call, ToolCall) or not is_object(call.arguments):
        return ()
    block.ready = True
    return (ToolCallReady(call),)


def tokens(usage: dict[str, Any]) -> Tokens | None:
    """The API's counts in the meaning of `Tokens`."""
    if "input_tokens" not in usage and "output_tokens" not in usage:
        return None
    whole = _counts(usage)
    for entry in usage.get("iterations") or ():
        if entry.get("type") in _BESIDE:
            whole += _counts(entry)
    return whole


def _counts(usage: dict[str, Any]) -> Tokens:
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    return Tokens(
        prompt=(usage.get("input_tokens") or 0) + cached + written,
        completion=usage.get("output_tokens") or 0,
        cached=cached,
        cache_write=written,
        reasoning=(usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
        cache_write_1h=min(written, (usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0),
    )


def stream_error(data: dict[str, Any]) -> ProviderError:
    """The error that an `error` event reports. It has no HTTP status: the answer had begun with 200."""
    error = data.get("error") or {}
    kind = ERROR_TYPES.get(error.get("type", ""), OverloadedError)
    return make(kind, f"anthropic: {error.get('message') or error or data}", provider=PROVIDER)


_OURS = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
}
"""The fields that our own parts have a place for. A block with more keeps its own form beside them."""


class Block:
    """A content block that is being written."""

    __slots__ = ("_fields", "_text", "ended", "id", "kind", "name", "ready")

    def __init__(self, content: dict[str, Any]) -> None:
        self._fields = content
        self._text: list[str] = []  # of a text, a thought, or arguments
        self.kind: str = content["type"]
        self.id: str = content["id"] if self.kind == "tool_use" else ""
        self.name: str = content["name"] if self.kind == "tool_use" else ""
        self.ended = False
        self.ready = False

    def begin(self) -> str:
        """The text that the block begins with."""
        if self.kind not in ("text", "thinking"):
            return ""
        text: str = self._fields.get(self.kind) or ""
        if text:
            self._text.append(text)
        return text

    @property
    def empty(self) -> bool:
        """Whether no arguments have come."""
        return not self._fields.get("input") and not any(self._text)

    def add(self, piece: str) -> None:
        """Take a piece of text, or of arguments."""
        self._text.append(piece or "")

    def take(self, delta: dict[str, Any]) -> None:
        """Take a delta of any other kind."""
        fields = self._fields
        match delta["type"]:
            case "signature_delta":
                fields["signature"] = delta["signature"]
            case "citations_delta":
                fields["citations"] = [*(fields.get("citations") or []), delta["citation"]]
            case "compaction_delta":
                fields.update((name, value) for name, value in delta.items() if name != "type")
            case _:
                for name, value in delta.items():
                    before = fields.get(name)
                    if name != "type":
                        fields[name] = before + value if isinstance(before, str) and isinstance(value, str) else value

    def part(self) -> Part | None:
        """The block as a part; None for a text without text."""
        fields, text = self._fields, "".join(self._text)
        match self.kind:
            case "text":
                raw = self._raw(text=text)
                return Text(text, raw=raw, provider=PROVIDER if raw else "") if text else None
            case "thinking":
                raw = self._raw(thinking=text)
                return Reasoning(text, signature=fields.get("signature") or None, provider=PROVIDER, raw=raw)
            case "redacted_thinking":
                return Reasoning("", id=REDACTED, signature=fields.get("data"), provider=PROVIDER, raw=self._raw())
            case "tool_use":
                given = text or (dumps(fields["input"]) if fields.get("input") else "{}")
                raw = self._raw(input=json.loads(given)) if is_object(given) else None
                return ToolCall(self.id, self.name, given, raw=raw, provider=PROVIDER if raw else "")
            case kind:
                whole = fields
                if text and is_object(text):
                    whole = {**fields, "input": json.loads(text)}
                return Opaque(PROVIDER, kind, dumps(whole))

    def _raw(self, **written: Any) -> str | None:
        """The block's own form, if it has more than the part has."""
        more = any(value not in (None, [], "") for name, value in self._fields.items() if name not in _OURS[self.kind])
        return dumps({**self._fields, **written}) if more else None
