"""Read the events of a streamed response. Facts are from OpenAI's API reference, "Streaming events" of Responses.

Usage: `input_tokens` includes the counts of `input_tokens_details` (`cached_tokens`, `cache_write_tokens`), and
`output_tokens` includes `output_tokens_details.reasoning_tokens` (guides "Prompt caching" and "Reasoning models").
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ....errors import BrokenStreamError, OverloadedError, ProviderError
from ....messages import Media, MediaPart, MessagePart, Opaque, Reasoning, StopReason, Text, ToolCall
from ....usage import Receipt, Tokens
from ...base import Logprob, ModelEvent, ReasoningChunk, TextChunk, ToolCallChunk, ToolCallReady
from ...errors import provider_error
from ...http.encoding import dumps, is_object
from ...http.reader import AnswerReader, count_in, details_in, modalities_in
from ..chat.reply import logprobs_of
from ..errors import error_object, kind_by_code
from . import custom_tools

_INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "filter"}
_UNFINISHED = frozenset({"failed", "cancelled", "queued", "in_progress"})
"""Statuses of a response without an answer. All others end one, also null and other servers' own."""
_SERVER_TOOLS = frozenset({"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"})
"""Items of tools that run at the provider and are billed apart."""


class ResponseReader(AnswerReader):
    """An `AnswerReader` for the Responses API. The event `response.completed` ends an answer."""

    total = "total_tokens"

    __slots__ = ("_announced", "_calls", "_items", "_numbers", "_response", "_unfinished")

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._calls: dict[int, tuple[str, str]] = {}
        self._unfinished: dict[int, tuple[str, list[str]]] = {}  # texts and reasoning, for a partial answer
        self._items: dict[int, dict[str, Any]] = {}
        self._announced: dict[int, ToolCall] = {}
        self._response: dict[str, Any] = {}
        self._numbers = EventNumbers(provider)

    def _read(self, data: dict[str, Any], name: str) -> Sequence[ModelEvent]:
        """See `AnswerReader._read`. Unknown events are ignored."""
        if self._numbers.is_repeated(data):
            return ()
        return self._event(data.get("type") or name, data)

    def _read_body(self, answer: Any) -> Sequence[ModelEvent]:
        if answer.get("error") or "output" not in answer:
            raise self._failure(answer)
        return list(self._end_all(answer))

    def _is_whole(self) -> bool:
        if self._response.get("status") in _UNFINISHED:
            return False
        return bool(self._response) or bool(self._items and self._items.keys() >= self._unfinished.keys() | self._calls)

    def partial(self) -> list[MessagePart]:
        """See `AnswerReader.partial`."""
        parts: list[MessagePart] = []
        for index in sorted(self._items.keys() | self._unfinished.keys() | self._announced.keys()):
            if index in self._items or index in self._announced:
                parts += self._parts_at(index, self._items)
                continue
            kind, pieces = self._unfinished[index]
            text = "".join(pieces)
            parts.append(Text(text) if kind == "text" else Reasoning(text, provider=self.provider))
        return [part for part in parts if part.kind != "tool_call" or is_object(part.arguments)]

    def _parts(self) -> list[MessagePart]:
        items = self._items
        indexes = sorted(items.keys() | self._announced.keys())
        parts = [part for index in indexes for part in self._parts_at(index, items)]
        done = custom_tools.answered_ids(items.values())
        return [_opaque(part) if part.kind == "tool_call" and part.id in done else part for part in parts]

    def _stop_reason(self) -> StopReason:
        if any(_is_refusal(item) for item in self._items.values()):
            return "filter"
        reason = (self._response.get("incomplete_details") or {}).get("reason")
        return _INCOMPLETE.get(reason, "length") if reason else "end"

    def _tokens(self) -> Tokens | None:
        return tokens(self.usage)

    def _reported(self) -> Receipt:
        """See `AnswerReader._reported`. xAI counts the calls of its tools. Only searches among web calls are billed."""
        used = details_in(self.usage, "server_side_tool_usage_details")
        tools = Counter({name.removesuffix("_calls"): count_in(used, name) for name in used})
        for item in self._items.values() if not used else ():
            kind = item.get("type") or ""
            billed = kind != "web_search_call" or (item.get("action") or {}).get("type", "search") == "search"
            if kind in _SERVER_TOOLS and billed:
                tools[kind.removesuffix("_call")] += 1
        prompt = modalities_in(details_in(self.usage, "input_tokens_details"), "input")
        completion = modalities_in(details_in(self.usage, "output_tokens_details"), "output")
        tier = self._response.get("service_tier") or ""
        return Receipt(service_tier=tier, server_tools=dict(tools), modalities=prompt | completion)

    def _logprobs(self) -> tuple[Logprob, ...]:
        texts = [
            part for item in self._items.values() for part in item.get("content") or () if item["type"] == "message"
        ]
        return logprobs_of([entry for part in texts for entry in part.get("logprobs") or ()])

    def _event(self, kind: str, data: dict[str, Any]) -> Sequence[ModelEvent]:  # noqa: C901, PLR0911 - one flat table
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
                self._begin_response(data["response"])
            case "response.completed" | "response.incomplete":
                self.end = "reason"
                return list(self._end_all(data["response"]))
            case "response.failed" | "response.cancelled":
                self._begin_response(data["response"])
                raise self._failure(data["response"].get("error") or {"message": kind})
            case "error":
                raise self._failure(data)
        return ()

    def _begin_response(self, response: dict[str, Any]) -> None:
        self._response = response
        self.model = response.get("model") or self.model
        self.response_id = response.get("id") or self.response_id
        self.usage = response.get("usage") or self.usage

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
        self._begin_response(response)
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
        for part in _parts(item, self.provider):
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

    def _parts_at(self, index: int, items: dict[int, dict[str, Any]]) -> Sequence[MessagePart]:
        item = items.get(index)
        call = self._announced.get(index)
        if call is not None and (item is None or item.get("type") == "function_call"):
            if item is None or item.get("arguments") != call.arguments:
                return (call,)  # exactly as announced
            return (replace(call, raw=dumps(item), provider=self.provider),)
        return () if item is None else list(_parts(item, self.provider))

    def _failure(self, answer: Any) -> ProviderError:
        error = error_object(answer)
        kind = kind_by_code(error) or OverloadedError
        return provider_error(kind, f"{self.provider}: {error['message'] or answer}", provider=self.provider)


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
        case "image_generation_call" if item.get("result"):
            media = Media(f"image/{item.get('output_format') or 'png'}", item["result"])
            yield MediaPart(media, raw=dumps({**item, "result": None}), provider=provider)
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
    details = details_in(usage, "input_tokens_details")
    return Tokens(
        prompt=count_in(usage, "input_tokens"),
        completion=count_in(usage, "output_tokens"),
        cached=count_in(details, "cached_tokens"),
        cache_write=count_in(details, "cache_write_tokens"),
        reasoning=count_in(details_in(usage, "output_tokens_details"), "reasoning_tokens"),
    )


class EventNumbers:
    """The numbers of a response's events, which tell whether one was lost or came twice."""

    __slots__ = ("_last", "_provider", "_usable")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._last: tuple[int, dict[str, Any]] | None = None
        self._usable = True

    def is_repeated(self, data: dict[str, Any]) -> bool:
        """Check the number of an event. Return whether the event came twice.

        Raises `BrokenStreamError` if events are missing. Numbers that do not ascend are a server's own, and are
        ignored from then on.
        """
        number = data.get("sequence_number")
        if type(number) is not int or not self._usable:
            return False
        last, self._last = self._last, (number, data)
        if last is None or number == last[0] + 1:
            return False
        if number == last[0] and data == last[1]:
            return True
        if number <= last[0]:
            self._usable = False
            return False
        lost = f"lost events {last[0] + 1} to {number - 1} of its answer"
        raise BrokenStreamError(f"{self._provider} {lost}", provider=self._provider)
