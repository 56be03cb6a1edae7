"""The chunks of a streamed chat completion, read. Facts are from OpenAI's API reference ("Chat completion chunk").

Others speak the same format with small differences, which were found in their recorded answers and are met here:
reasoning in `reasoning_content` (DeepSeek, xAI) or `reasoning` (OpenRouter, Groq), content in parts (Mistral), calls
without `index`, usage in `x_groq`, errors in the middle of the stream (OpenRouter).

Usage: `prompt_tokens` includes the `cached_tokens` and `cache_write_tokens` of its details, and `completion_tokens`
includes `reasoning_tokens`. xAI's leaves reasoning out of `completion_tokens` and in `total_tokens`; there the sum
tells. Usage may come in several chunks and is then cumulative: the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...errors import BrokenStreamError, OverloadedError, ProviderError
from ...messages import Part, Reasoning, StopReason, Text, ToolCall
from ...usage import Tokens
from ..kinds import by_status, make
from ..port import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk
from ..sse import Event
from ..streaming import finished, payload
from ..wire import new_call_id
from .codes import kind_of, status_of

STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",  # Mistral
    "content_filter": "filter",
}


@dataclass(slots=True)
class _Piece:
    """A run of text or of reasoning, or one call, that is being written."""

    kind: str
    id: str = ""
    name: str = ""
    texts: list[str] = field(default_factory=list)

    def part(self, provider: str) -> Part:
        text = "".join(self.texts)
        if self.kind == "text":
            return Text(text)
        if self.kind == "reasoning":
            return Reasoning(text, provider=provider)
        return ToolCall(self.id, self.name, text or "{}")


class ChatReader:
    """A `Reader` of Chat Completions. A finish reason ends the answer, because not every server sends `[DONE]`."""

    __slots__ = ("_calls", "_model", "_pieces", "_provider", "_refused", "_stop", "_usage", "ended")

    def __init__(self, provider: str) -> None:
        self.ended = False
        self._provider = provider
        self._pieces: list[_Piece] = []
        self._calls: dict[int, _Piece] = {}
        self._model = ""
        self._stop = ""
        self._refused = False
        self._usage: dict[str, Any] | None = None

    def read(self, event: Event) -> Iterable[ModelEvent]:
        """See `Reader.read`."""
        if event.data == "[DONE]":
            return ()
        chunk = payload(event, self._provider)
        if error := chunk.get("error"):
            raise self._failure(error if isinstance(error, dict) else {"message": error})
        if event.name == "error":
            raise self._failure(chunk)
        if not self._model:
            self._model = chunk.get("model") or ""
        if usage := chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage"):
            self._usage = usage
        choices = chunk.get("choices")
        if not choices:
            return ()
        if reason := choices[0].get("finish_reason"):
            self._stop = reason
            self.ended = True
        delta = choices[0].get("delta")
        return self._delta(delta) if delta else ()

    def reply(self) -> Reply:
        """See `Reader.reply`."""
        if not self.ended:
            raise BrokenStreamError(
                f"the answer of {self._provider} ended without a finish reason", provider=self._provider
            )
        parts = [piece.part(self._provider) for piece in self._pieces]
        stop = "filter" if self._refused else STOP_REASONS.get(self._stop, "end")
        return finished(self._provider, parts, stop, self._model, tokens(self._usage))

    def _delta(self, delta: dict[str, Any]) -> list[ModelEvent]:
        found: list[ModelEvent] = []
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            found.append(self._think(thought))
        if content := delta.get("content"):
            if isinstance(content, str):
                found.append(self._say(content))
            else:
                found += self._content_parts(content)
        if refusal := delta.get("refusal"):
            self._refused = True
            found.append(self._say(refusal))
        for call in delta.get("tool_calls") or ():
            found.append(self._call(call))
        return found

    def _content_parts(self, content: list[dict[str, Any]]) -> Iterable[ModelEvent]:
        for part in content:
            if part.get("type") == "thinking":
                thinking = part.get("thinking") or []
                texts = [thinking] if isinstance(thinking, str) else [piece.get("text") or "" for piece in thinking]
                yield self._think("".join(texts))
            elif text := part.get("text"):
                yield self._say(text)

    def _say(self, text: str) -> TextChunk:
        self._run("text").append(text)
        return TextChunk(text)

    def _think(self, text: str) -> ReasoningChunk:
        self._run("reasoning").append(text)
        return ReasoningChunk(text)

    def _run(self, kind: str) -> list[str]:
        if not self._pieces or self._pieces[-1].kind != kind:
            self._pieces.append(_Piece(kind))
        return self._pieces[-1].texts

    def _call(self, delta: dict[str, Any]) -> ToolCallChunk:
        function = delta.get("function") or {}
        name, given = function.get("name") or "", delta.get("id") or ""
        index = delta.get("index")
        if index is None:  # then every new id is a new call
            index = len(self._calls) - (not given)
        call = self._calls.get(index)
        if call is None or (name and given and given != call.id):
            call = _Piece("call", given or new_call_id(), name)
            self._calls[index] = call
            self._pieces.append(call)
        call.name = call.name or name
        arguments = function.get("arguments") or ""
        call.texts.append(arguments)
        return ToolCallChunk(call.id, call.name, arguments)

    def _failure(self, error: dict[str, Any]) -> ProviderError:
        status = status_of(error)
        kind = kind_of(error) or (by_status(status) if status else OverloadedError)
        return make(kind, f"{self._provider}: {error.get('message') or error}", provider=self._provider)


def tokens(usage: dict[str, Any] | None) -> Tokens | None:
    """The API's counts in the meaning of `Tokens`."""
    if not usage:
        return None
    read = usage.get("prompt_tokens_details") or {}
    prompt = usage.get("prompt_tokens") or 0
    completion = usage.get("completion_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    if reasoning and usage.get("total_tokens") == prompt + completion + reasoning:
        completion += reasoning
    return Tokens(
        prompt=prompt,
        completion=completion,
        cached=read.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0,
        cache_write=read.get("cache_write_tokens") or 0,
        reasoning=reasoning,
    )
