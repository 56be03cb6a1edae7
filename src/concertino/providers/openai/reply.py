"""The events of a streamed response, read. Facts are from OpenAI's API reference, "Streaming events" of Responses.

Usage: `input_tokens` includes what `input_tokens_details` names (`cached_tokens`, `cache_write_tokens`), and
`output_tokens` includes `output_tokens_details.reasoning_tokens` (guides "Prompt caching" and "Reasoning models").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...errors import BrokenStreamError, OverloadedError, ProviderError
from ...messages import Part, Reasoning, StopReason, Text, ToolCall
from ...usage import Tokens
from ..kinds import make
from ..port import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk
from ..sse import Event
from ..streaming import finished, payload
from .codes import kind_of

_INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "filter"}


class ResponseReader:
    """A `Reader` of the Responses API."""

    __slots__ = ("_calls", "_items", "_provider", "_response", "ended")

    def __init__(self, provider: str) -> None:
        self.ended = False
        self._provider = provider
        self._calls: dict[int, tuple[str, str]] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._response: dict[str, Any] = {}

    def read(self, event: Event) -> Iterable[ModelEvent]:  # noqa: C901, PLR0911 - one flat table of events
        """See `Reader.read`. Unknown events are passed over."""
        if event.data == "[DONE]":  # some servers end their streams as Chat Completions do
            return ()
        data = payload(event, self._provider)
        match data.get("type") or event.name:
            case "response.output_text.delta" | "response.refusal.delta":
                return (TextChunk(data["delta"]),)
            case "response.function_call_arguments.delta":
                call_id, name = self._calls.get(data["output_index"], ("", ""))
                return (ToolCallChunk(call_id, name, data["delta"]),) if call_id else ()
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return (ReasoningChunk(data["delta"]),)
            case "response.reasoning_summary_part.added" if data.get("summary_index"):
                return (ReasoningChunk("\n\n"),)
            case "response.output_item.added":
                return self._begin(data["output_index"], data["item"])
            case "response.output_item.done":
                self._items[data["output_index"]] = data["item"]
            case "response.completed" | "response.incomplete":
                self._response = data["response"]
                self.ended = True
            case "response.failed":
                raise self._failure(data["response"].get("error") or {})
            case "error":
                raise self._failure(data.get("error") or data)
        return ()

    def reply(self) -> Reply:
        """See `Reader.reply`."""
        response = self._response
        if not self.ended:
            raise BrokenStreamError(
                f"the answer of {self._provider} ended without response.completed", provider=self._provider
            )
        # The items as they were finished one by one; some servers leave them out of the last event, some do not
        # finish them one by one.
        items = [item for _, item in sorted(self._items.items())] or response.get("output") or []
        parts = [part for item in items for part in _parts(item, self._provider)]
        reason = (response.get("incomplete_details") or {}).get("reason")
        stop: StopReason = _INCOMPLETE.get(reason or "", "length") if reason else "end"
        if any(_is_refusal(item) for item in items):
            stop = "filter"
        model = response.get("model") or ""
        return finished(self._provider, parts, stop, model, tokens(response.get("usage")))

    def _begin(self, index: int, item: dict[str, Any]) -> Iterable[ModelEvent]:
        if item.get("type") != "function_call":
            return ()
        self._calls[index] = item["call_id"], item["name"]
        return (ToolCallChunk(item["call_id"], item["name"], item.get("arguments") or ""),)

    def _failure(self, error: dict[str, Any]) -> ProviderError:
        kind = kind_of(error) or OverloadedError
        return make(kind, f"{self._provider}: {error.get('message') or error}", provider=self._provider)


def _parts(item: dict[str, Any], provider: str) -> Iterator[Part]:
    """What an output item says. The items of server tools have no part."""
    match item.get("type"):
        case "message":
            text = "".join(part.get("text") or part.get("refusal") or "" for part in item.get("content") or [])
            if text:
                yield Text(text)
        case "function_call":
            yield ToolCall(item["call_id"], item["name"], item.get("arguments") or "{}")
        case "reasoning":
            pieces = item.get("summary") or item.get("content") or []
            text = "\n\n".join(piece.get("text") or "" for piece in pieces)
            yield Reasoning(text, item.get("id"), item.get("encrypted_content"), provider)


def _is_refusal(item: dict[str, Any]) -> bool:
    return item.get("type") == "message" and any(part.get("type") == "refusal" for part in item.get("content") or [])


def tokens(usage: dict[str, Any] | None) -> Tokens | None:
    """The API's counts in the meaning of `Tokens`."""
    if not usage:
        return None
    read = usage.get("input_tokens_details") or {}
    return Tokens(
        prompt=usage.get("input_tokens") or 0,
        completion=usage.get("output_tokens") or 0,
        cached=read.get("cached_tokens") or 0,
        cache_write=read.get("cache_write_tokens") or 0,
        reasoning=(usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
