"""Read the events of a streamed response. Facts are from OpenAI's API reference, "Streaming events" of Responses.

Usage: `input_tokens` includes the counts of `input_tokens_details` (`cached_tokens`, `cache_write_tokens`), and
`output_tokens` includes `output_tokens_details.reasoning_tokens` (guides "Prompt caching" and "Reasoning models").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ....errors import BrokenStreamError, OverloadedError, ProviderError
from ....messages import MessagePart, Opaque, Reasoning, StopReason, Text, ToolCall
from ....usage import Tokens
from ...base import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ...errors import provider_error
from ...http.encoding import dumps, is_object
from ...http.sse import SseEvent
from ...http.transport import complete_reply, payload
from ..chat.reply import NO_DATA
from ..errors import error_object, kind_by_code
from . import custom_tools

_INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "filter"}
_UNFINISHED = frozenset({"failed", "cancelled", "queued", "in_progress"})
"""Statuses of a response without an answer. All others end one, also null and other servers' own."""


class ResponseReader:
    """A `ReplyReader` for the Responses API."""

    __slots__ = ("_announced", "_calls", "_items", "_model", "_provider", "_response", "_unfinished", "ended")

    def __init__(self, provider: str) -> None:
        self.ended = False
        self._provider = provider
        self._calls: dict[int, tuple[str, str]] = {}
        self._unfinished: dict[int, tuple[str, list[str]]] = {}  # texts and reasoning, for a partial answer
        self._items: dict[int, dict[str, Any]] = {}
        self._announced: dict[int, ToolCall] = {}
        self._model = ""
        self._response: dict[str, Any] = {}

    def read(self, event: SseEvent) -> Sequence[ModelEvent]:
        """See `ReplyReader.read`. Unknown events are ignored."""
        if event.data.strip() in NO_DATA:  # some servers end their streams as in Chat Completions
            return ()
        data = payload(event, self._provider)
        return self._read(data.get("type") or event.name, data)

    def whole(self, answer: Any) -> Sequence[ModelEvent]:
        """See `ReplyReader.whole`."""
        if answer.get("error") or "output" not in answer:
            raise self._failure(answer)
        items = list(self._end_all(answer))
        self.ended = answer.get("status") not in _UNFINISHED
        return items

    def partial(self) -> tuple[list[MessagePart], str]:
        """See `ReplyReader.partial`."""
        parts: list[MessagePart] = []
        for index in sorted(self._items.keys() | self._unfinished.keys() | self._announced.keys()):
            if index in self._items or index in self._announced:
                parts += self._parts(index, self._items)
                continue
            kind, pieces = self._unfinished[index]
            text = "".join(pieces)
            parts.append(Text(text) if kind == "text" else Reasoning(text, provider=self._provider))
        return [part for part in parts if part.kind != "tool_call" or is_object(part.arguments)], self._model

    def counted(self) -> Tokens | None:
        """See `ReplyReader.counted`."""
        return tokens(self._response.get("usage"))

    def reply(self) -> Reply:
        """See `ReplyReader.reply`."""
        response = self._response
        if not self.ended:
            raise BrokenStreamError(
                f"the answer of {self._provider} ended without response.completed", provider=self._provider
            )
        items = self._items
        parts = [part for index in sorted(items.keys() | self._announced.keys()) for part in self._parts(index, items)]
        done = custom_tools.answered_ids(items.values())
        parts = [_opaque(part) if part.kind == "tool_call" and part.id in done else part for part in parts]
        reason = (response.get("incomplete_details") or {}).get("reason")
        stop: StopReason = _INCOMPLETE.get(reason or "", "length") if reason else "end"
        if any(_is_refusal(item) for item in items.values()):
            stop = "filter"
        return complete_reply(self._provider, parts, stop, self._model, tokens(response.get("usage")))

    def _read(self, kind: str, data: dict[str, Any]) -> Sequence[ModelEvent]:  # noqa: C901, PLR0911 - one flat table
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._append(data, "text", data["delta"])
                return (TextChunk(data["delta"]),)
            case "response.function_call_arguments.delta":
                call_id, name = self._calls.get(data["output_index"], ("", ""))
                return (ToolCallChunk(call_id, name, data["delta"]),) if call_id else ()
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._append(data, "reasoning", data["delta"])
                return (ReasoningChunk(data["delta"]),)
            case "response.reasoning_summary_part.added" if data.get("summary_index"):
                self._append(data, "reasoning", "\n\n")
                return (ReasoningChunk("\n\n"),)
            case "response.output_item.added":
                return self._begin(data["output_index"], data["item"])
            case "response.function_call_arguments.done":
                call_id, name = self._calls.get(data["output_index"], ("", ""))
                return self._announce(data["output_index"], call_id, name, data.get("arguments") or "")
            case "response.output_item.done":
                return self._end(data["output_index"], data["item"])
            case "response.created":
                self._model = data["response"].get("model") or ""
            case "response.completed" | "response.incomplete":
                self.ended = True
                return list(self._end_all(data["response"]))
            case "response.failed" | "response.cancelled":
                self._response = data["response"]
                raise self._failure(data["response"].get("error") or {"message": kind})
            case "error":
                raise self._failure(data)
        return ()

    def _append(self, data: dict[str, Any], kind: str, text: str) -> None:
        index = data.get("output_index", 0)
        if index not in self._unfinished:
            self._unfinished[index] = (kind, [])
        self._unfinished[index][1].append(text)

    def _begin(self, index: int, item: dict[str, Any]) -> Sequence[ModelEvent]:
        if item.get("type") != "function_call":
            return ()
        self._calls[index] = item["call_id"], item["name"]
        return (ToolCallChunk(item["call_id"], item["name"], item.get("arguments") or ""),)

    def _end(self, index: int, item: dict[str, Any]) -> Sequence[ModelEvent]:
        self._items[index] = item
        if item.get("type") != "function_call":
            return ()
        default = "{}" if item.get("status") == "completed" else ""
        return self._announce(index, item["call_id"], item["name"], item.get("arguments") or default)

    def _end_all(self, response: dict[str, Any]) -> Iterator[ModelEvent]:
        """Take the items of the final event unless they were finished one by one.

        Some servers omit them from the final event, others never finish them one by one, and an unstreamed answer has
        them only here.
        """
        self._response = response
        self._model = response.get("model") or self._model
        if self._items:
            return
        for index, item in enumerate(response.get("output") or []):
            if index not in self._unfinished and index not in self._calls:
                yield from self._chunks(index, item)
            yield from self._end(index, item)

    def _chunks(self, index: int, item: dict[str, Any]) -> Iterator[ModelEvent]:
        """Return the chunks that a stream would have sent before it finished *item*."""
        if item.get("type") == "function_call":
            yield from self._begin(index, item)
        for part in _parts(item, self._provider):
            if part.kind == "text" and part.text:
                yield TextChunk(part.text)
            elif part.kind == "reasoning" and part.text:
                yield ReasoningChunk(part.text)

    def _announce(self, index: int, call_id: str, name: str, arguments: str) -> Sequence[ModelEvent]:
        """Announce a call once.

        Calls that the token limit cut off are finished as well, so arguments that are not a whole object wait for the
        reply.
        """
        if index in self._announced or not call_id or not is_object(arguments):
            return ()
        call = self._announced[index] = ToolCall(call_id, name, arguments)
        return (ToolCallReady(call),)

    def _parts(self, index: int, items: dict[int, dict[str, Any]]) -> Sequence[MessagePart]:
        item = items.get(index)
        call = self._announced.get(index)
        if call is not None and (item is None or item.get("type") == "function_call"):
            if item is None or item.get("arguments") != call.arguments:
                return (call,)  # exactly as announced
            return (replace(call, raw=dumps(item), provider=self._provider),)
        return () if item is None else list(_parts(item, self._provider))

    def _failure(self, answer: Any) -> ProviderError:
        error = error_object(answer)
        kind = kind_by_code(error) or OverloadedError
        return provider_error(kind, f"{self._provider}: {error['message'] or answer}", provider=self._provider)


def _parts(item: dict[str, Any], provider: str) -> Iterator[MessagePart]:
    """Return the parts of an output item, each with the item's JSON. Items of unknown kinds become opaque parts."""
    match item.get("type"):
        case "message":
            text = "".join(part.get("text") or part.get("refusal") or "" for part in item.get("content") or [])
            if text:
                yield Text(text, raw=dumps(item), provider=provider)
        case "function_call":
            raw = dumps(item) if item.get("arguments") else None
            arguments = item.get("arguments") or "{}"
            yield ToolCall(item["call_id"], item["name"], arguments, raw=raw, provider=provider if raw else "")
        case "reasoning":
            pieces = item.get("summary") or item.get("content") or []
            text = "\n\n".join(piece.get("text") or "" for piece in pieces)
            yield Reasoning(text, item.get("id"), item.get("encrypted_content"), provider, raw=dumps(item))
        case kind:
            yield custom_tools.call_of(item, provider) or Opaque(provider, kind or "", dumps(item))


def _opaque(call: ToolCall) -> Opaque:
    """Return a call that ran at the provider as an opaque part."""
    raw = call.raw or "{}"
    return Opaque(call.provider, json.loads(raw).get("type", ""), raw)


def _is_refusal(item: dict[str, Any]) -> bool:
    return item.get("type") == "message" and any(part.get("type") == "refusal" for part in item.get("content") or [])


def tokens(usage: dict[str, Any] | None) -> Tokens | None:
    """Return the API's counts as `Tokens`, or None without a report."""
    if not usage:
        return None
    details = usage.get("input_tokens_details") or {}
    return Tokens(
        prompt=usage.get("input_tokens") or 0,
        completion=usage.get("output_tokens") or 0,
        cached=details.get("cached_tokens") or 0,
        cache_write=details.get("cache_write_tokens") or 0,
        reasoning=(usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
