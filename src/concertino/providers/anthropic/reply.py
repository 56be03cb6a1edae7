"""Read the events of a streamed message. Facts are from Anthropic's API reference, "Streaming messages".

Usage: `input_tokens` excludes tokens read from the cache (`cache_read_input_tokens`) and written to it
(`cache_creation_input_tokens`, split by lifetime in `cache_creation`); "total input tokens in a request is the
summation" of the three. `output_tokens` includes thinking, counted in `output_tokens_details.thinking_tokens`. The
counts of `message_delta` are cumulative and replace those of `message_start`, field by field. Only `iterations` counts
side work: the tokens of a `compaction` are "not included in the top-level usage fields" (the SDK's `BetaUsage`), nor
are those of an `advisor_message`, as recorded answers show. The other iterations are the answer's own turns, whose sum
is the top level.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...errors import BrokenStreamError
from ...messages import MessagePart, Opaque, Reasoning, StopReason, Text, ToolCall
from ...usage import Receipt, Tokens
from ..base import ModelEvent, ReasoningChunk, TextChunk, ToolCallChunk, ToolCallReady
from ..http.encoding import dumps, is_object
from ..http.reader import AnswerReader, count_in, details_in
from .errors import stream_error
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

_CUTTABLE = ("text", "thinking")
"""The blocks whose beginning is of use."""
_SIDE_WORK = ("compaction", "advisor_message")
"""The entries of `usage.iterations` that the top level excludes."""


class MessageReader(AnswerReader):
    """An `AnswerReader` for the Messages API. The event `message_stop` ends an answer."""

    __slots__ = ("_blocks", "_container", "_empty", "_reason")

    def __init__(self) -> None:
        super().__init__(PROVIDER)
        self._blocks: dict[int, ContentBlock] = {}
        self._empty: ContentBlock | None = None  # a call without arguments, possibly cut off before them
        self._container: dict[str, Any] | None = None
        self._reason = ""

    def _read_body(self, answer: Any) -> Sequence[ModelEvent]:
        if answer.get("type") == "error" or "content" not in answer:
            raise stream_error(answer)
        items: list[ModelEvent] = [*self._read({"type": "message_start", "message": answer})]
        for index, block in enumerate(answer["content"]):
            items += self._read({"type": "content_block_start", "index": index, "content_block": block})
            started = self._blocks[index]
            if started.kind == "tool_use" and block.get("input"):
                items.append(ToolCallChunk(started.id, started.name, dumps(block["input"])))
            items += self._read({"type": "content_block_stop", "index": index})
        items += self._read({"type": "message_delta", "delta": answer})
        return items

    def _is_whole(self) -> bool:
        return bool(self.stop) or (bool(self._blocks) and all(block.ended for block in self._blocks.values()))

    def partial(self) -> list[MessagePart]:
        """See `AnswerReader.partial`."""
        blocks = [block for _, block in sorted(self._blocks.items()) if block.ended or block.kind in _CUTTABLE]
        parts = [part for block in blocks if (part := block.part()) is not None]
        return [part for part in parts if part.kind != "tool_call" or is_object(part.arguments)]

    def _parts(self) -> list[MessagePart]:
        parts = [part for _, block in sorted(self._blocks.items()) if (part := block.part()) is not None]
        if self._container is not None:
            parts.append(Opaque(PROVIDER, CONTAINER, dumps(self._container)))
        return parts

    def _stop_reason(self) -> StopReason:
        return STOP_REASONS.get(self.stop, "end")

    def _explanation(self) -> str:
        return self._reason

    def _tokens(self) -> Tokens | None:
        return tokens(self.usage)

    def _reported(self) -> Receipt:
        used = details_in(self.usage, "server_tool_use")
        tier = "fast" if self.usage.get("speed") == "fast" else self.usage.get("service_tier")
        tools = {name.removesuffix("_requests"): count_in(used, name) for name in used}
        return Receipt(service_tier=tier or "", server_tools=tools)

    def _read(self, data: dict[str, Any], name: str = "") -> Sequence[ModelEvent]:
        """See `AnswerReader._read`. Unknown events are ignored, as the API reference asks."""
        match data.get("type"):
            case "content_block_delta":
                return self._delta(data)
            case "content_block_start":
                return self._start(data)
            case "content_block_stop":
                return self._end(self._blocks.get(data["index"]))
            case "message_start":
                self._restart()
                self.model = data["message"].get("model") or ""
                self.response_id = data["message"].get("id") or ""
                self._count(data["message"].get("usage"))
            case "message_delta":
                delta = data["delta"]
                self.stop = delta.get("stop_reason") or self.stop
                self._reason = (delta.get("stop_details") or {}).get("explanation") or ""
                self._container = delta.get("container") or self._container
                self._count(data.get("usage"))
            case "message_stop":
                self.end = "reason"
            case "error":
                raise stream_error(data)
        return ()

    def _restart(self) -> None:
        # A proxy may break an answer off and start over within one stream; the last start counts.
        if any(block.announced for block in self._blocks.values()):
            raise BrokenStreamError("anthropic restarted its answer after a call was complete", provider=PROVIDER)
        self._blocks, self.usage, self._empty = {}, {}, None

    def _start(self, data: dict[str, Any]) -> Sequence[ModelEvent]:
        items: list[ModelEvent] = []
        if self._empty is not None:
            items += _announce(self._empty)
            self._empty = None
        block = self._blocks[data["index"]] = ContentBlock(data["content_block"])
        if block.kind == "fallback":  # another model continues the answer
            self.model = data["content_block"]["to"]["model"]
        if block.kind == "tool_use":
            items.append(ToolCallChunk(block.id, block.name, ""))
        elif text := block.initial_text():
            items.append(TextChunk(text) if block.kind == "text" else ReasoningChunk(text))
        return items

    def _end(self, block: ContentBlock | None) -> Sequence[ModelEvent]:
        """End a block; the token limit may have cut it off.

        A call whose arguments are not a whole object is announced with the reply. A call without arguments is announced
        when the next block starts, which proves that it was not cut off.
        """
        if block is None:
            return ()
        block.ended = True
        if block.kind != "tool_use":
            return ()
        if block.empty:
            self._empty = block
            return ()
        return _announce(block)

    def _delta(self, data: dict[str, Any]) -> Sequence[ModelEvent]:
        delta = data["delta"]
        kind = delta["type"]
        block = self._blocks.get(data["index"])
        if block is None:
            raise BrokenStreamError("anthropic sent a delta for a block that was not started", provider=PROVIDER)
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
        block.update(delta)
        return ()

    def _count(self, usage: dict[str, Any] | None) -> None:
        self.usage.update((name, value) for name, value in (usage or {}).items() if value is not None)


def _announce(block: ContentBlock) -> Sequence[ModelEvent]:
    call = block.part()
    if block.announced or not isinstance(call, ToolCall) or not is_object(call.arguments):
        return ()
    block.announced = True
    return (ToolCallReady(call),)


def tokens(usage: dict[str, Any]) -> Tokens | None:
    """Return the API's counts as `Tokens`, or None without a report."""
    if "input_tokens" not in usage and "output_tokens" not in usage:
        return None
    total = _counts(usage)
    for iteration in usage.get("iterations") or ():
        if iteration.get("type") in _SIDE_WORK:
            total += _counts(iteration)
    return total


def _counts(usage: dict[str, Any]) -> Tokens:
    cached = count_in(usage, "cache_read_input_tokens")
    written = count_in(usage, "cache_creation_input_tokens")
    return Tokens(
        prompt=count_in(usage, "input_tokens") + cached + written,
        completion=count_in(usage, "output_tokens"),
        cached=cached,
        cache_write=written,
        reasoning=count_in(details_in(usage, "output_tokens_details"), "thinking_tokens"),
        cache_write_1h=min(written, count_in(details_in(usage, "cache_creation"), "ephemeral_1h_input_tokens")),
    )


_REPRESENTED = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
}
"""The fields that a part represents itself. A part whose block has more fields keeps the block's JSON as well."""


class ContentBlock:
    """A content block under construction."""

    __slots__ = ("_fields", "_pieces", "announced", "ended", "id", "kind", "name")

    def __init__(self, content: dict[str, Any]) -> None:
        self._fields = content
        self._pieces: list[str] = []  # of text, thinking or arguments
        self.kind: str = content["type"]
        self.id: str = content["id"] if self.kind == "tool_use" else ""
        self.name: str = content["name"] if self.kind == "tool_use" else ""
        self.ended = False
        self.announced = False

    def initial_text(self) -> str:
        """Return the text that the block starts with."""
        if self.kind not in ("text", "thinking"):
            return ""
        text: str = self._fields.get(self.kind) or ""
        if text:
            self._pieces.append(text)
        return text

    @property
    def empty(self) -> bool:
        """True if the call has no arguments so far."""
        return not self._fields.get("input") and not any(self._pieces)

    def add(self, piece: str) -> None:
        """Append a piece of text or arguments."""
        self._pieces.append(piece or "")

    def update(self, delta: dict[str, Any]) -> None:
        """Apply a delta of any other kind."""
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

    def part(self) -> MessagePart | None:
        """Return the block as a part, or None for an empty text."""
        fields, text = self._fields, "".join(self._pieces)
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
                arguments = text or (dumps(fields["input"]) if fields.get("input") else "{}")
                raw = self._raw(input=json.loads(arguments)) if is_object(arguments) else None
                return ToolCall(self.id, self.name, arguments, raw=raw, provider=PROVIDER if raw else "")
            case kind:
                content = fields
                if text and is_object(text):
                    content = {**fields, "input": json.loads(text)}
                return Opaque(PROVIDER, kind, dumps(content))

    def _raw(self, **written: Any) -> str | None:
        """Return the block's JSON if it has more than the part represents."""
        represented = _REPRESENTED[self.kind]
        more = any(value not in (None, [], "") for name, value in self._fields.items() if name not in represented)
        return dumps({**self._fields, **written}) if more else None
