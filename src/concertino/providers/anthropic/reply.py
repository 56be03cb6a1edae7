"""The events of a streamed message, read. Facts are from Anthropic's API reference, "Streaming messages".

Usage: `input_tokens` leaves out what was read from the cache (`cache_read_input_tokens`) and written to it
(`cache_creation_input_tokens`); "total input tokens in a request is the summation" of the three. `output_tokens`
includes thinking, of which `output_tokens_details.thinking_tokens` is the share. The counts of `message_delta` are
cumulative and take the place of those of `message_start`, field by field.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from ...messages import Part, Reasoning, StopReason, Text, ToolCall
from ...usage import Tokens
from ..kinds import make
from ..port import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk
from ..sse import Event
from ..streaming import finished, payload
from ..wire import dumps
from .request import PROVIDER, REDACTED

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",  # a long turn of server tools that is not over
    "refusal": "filter",
}

ERROR_TYPES: dict[str, type[ProviderError]] = {
    "invalid_request_error": BadRequestError,
    "authentication_error": AuthenticationError,
    "billing_error": AuthenticationError,
    "permission_error": AuthenticationError,
    "not_found_error": ModelNotFoundError,
    "request_too_large": ContextTooLongError,
    "rate_limit_error": RateLimitError,
    "timeout_error": ProviderTimeoutError,
    "api_error": OverloadedError,
    "overloaded_error": OverloadedError,
}
"""The API's error types, as they come in the body of an error and in an `error` event of a stream."""


@dataclass(slots=True)
class _Block:
    """A content block that is being written."""

    kind: str
    id: str = ""
    name: str = ""
    input: Any = None
    pieces: list[str] = field(default_factory=list)
    signature: str = ""

    def part(self) -> Part | None:
        """The block as a part; None for what has no part, such as the blocks of server tools."""
        text = "".join(self.pieces)
        if self.kind == "text":
            return Text(text) if text else None
        if self.kind == "thinking":
            return Reasoning(text, signature=self.signature or None, provider=PROVIDER)
        if self.kind == "redacted_thinking":
            return Reasoning("", id=REDACTED, signature=self.signature, provider=PROVIDER)
        if self.kind == "tool_use":
            return ToolCall(self.id, self.name, text or (dumps(self.input) if self.input else "{}"))
        return None


class MessageReader:
    """A `Reader` of the Messages API."""

    __slots__ = ("_blocks", "_model", "_stop", "_usage", "_why", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._blocks: dict[int, _Block] = {}
        self._model = ""
        self._stop = ""
        self._why = ""
        self._usage: dict[str, Any] = {}

    def read(self, event: Event) -> Iterable[ModelEvent]:
        """See `Reader.read`. Unknown events are passed over, as the API reference asks for."""
        data = payload(event, PROVIDER)
        match data.get("type"):
            case "content_block_delta":
                return self._delta(data)
            case "content_block_start":
                return self._start(data)
            case "message_start":
                # A proxy may break an answer off and begin another in its place: what counts is the last.
                self._blocks, self._usage = {}, {}
                self._model = data["message"].get("model") or ""
                self._count(data["message"].get("usage"))
            case "message_delta":
                self._stop = data["delta"].get("stop_reason") or self._stop
                self._why = (data["delta"].get("stop_details") or {}).get("explanation") or ""
                self._count(data.get("usage"))
            case "message_stop":
                self.ended = True
            case "error":
                raise stream_error(data)
        return ()

    def reply(self) -> Reply:
        """See `Reader.reply`."""
        if not self.ended:
            raise BrokenStreamError("the answer of anthropic ended without message_stop", provider=PROVIDER)
        parts = [part for _, block in sorted(self._blocks.items()) if (part := block.part())]
        stop = STOP_REASONS.get(self._stop, "end")
        return finished(PROVIDER, parts, stop, self._model, tokens(self._usage), self._why)

    def _start(self, data: dict[str, Any]) -> Iterable[ModelEvent]:
        content = data["content_block"]
        block = _Block(content.get("type", ""))
        self._blocks[data["index"]] = block
        if block.kind == "tool_use":
            block.id, block.name, block.input = content["id"], content["name"], content.get("input")
            return (ToolCallChunk(block.id, block.name, ""),)
        block.signature = content.get("signature") or content.get("data") or ""
        text = content.get("text") or content.get("thinking")
        if not text or block.kind not in ("text", "thinking"):
            return ()
        block.pieces.append(text)
        return (TextChunk(text) if block.kind == "text" else ReasoningChunk(text),)

    def _delta(self, data: dict[str, Any]) -> Iterable[ModelEvent]:
        delta = data["delta"]
        kind = delta["type"]
        block = self._blocks.get(data["index"])
        if block is None:
            raise BrokenStreamError("anthropic sent a delta of a block that it had not begun", provider=PROVIDER)
        if kind == "text_delta":
            text = delta["text"]
            block.pieces.append(text)
            return (TextChunk(text),)
        if kind == "thinking_delta":
            block.pieces.append(delta["thinking"])
            return (ReasoningChunk(delta["thinking"]),)
        if kind == "input_json_delta":
            block.pieces.append(delta["partial_json"])
            if block.kind == "tool_use" and delta["partial_json"]:
                return (ToolCallChunk(block.id, block.name, delta["partial_json"]),)
        elif kind == "signature_delta":
            block.signature += delta["signature"]
        return ()

    def _count(self, usage: dict[str, Any] | None) -> None:
        self._usage.update((name, value) for name, value in (usage or {}).items() if value is not None)


def tokens(usage: dict[str, Any]) -> Tokens | None:
    """The API's counts in the meaning of `Tokens`."""
    if "input_tokens" not in usage and "output_tokens" not in usage:
        return None
    cached = usage.get("cache_read_input_tokens", 0)
    written = usage.get("cache_creation_input_tokens", 0)
    return Tokens(
        prompt=usage.get("input_tokens", 0) + cached + written,
        completion=usage.get("output_tokens", 0),
        cached=cached,
        cache_write=written,
        reasoning=(usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
    )


def stream_error(data: dict[str, Any]) -> ProviderError:
    """The error that an `error` event reports. It has no HTTP status: the answer had begun with 200."""
    error = data.get("error") or {}
    kind = ERROR_TYPES.get(error.get("type", ""), OverloadedError)
    return make(kind, f"anthropic: {error.get('message') or error or data}", provider=PROVIDER)
