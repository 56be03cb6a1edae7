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
from ...messages import Opaque, Part, StopReason, ToolCall
from ...usage import Tokens
from ..kinds import make
from ..port import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ..sse import Event
from ..streaming import finished, payload
from ..wire import dumps, is_object
from .blocks import Block
from .request import CONTAINER, PROVIDER

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
