"""The chunks of a streamed chat completion, read. Facts are from OpenAI's API reference ("Chat completion chunk").

Others speak the same format with small differences, which were found in their recorded answers and are met here:
reasoning in `reasoning_content` (DeepSeek, xAI) or `reasoning` (OpenRouter, Groq), in a list that must go back as it is
(OpenRouter), content in parts (Mistral, Databricks), calls without `index` or with arguments as an object, usage in
`x_groq`, errors in the middle of the stream (OpenRouter), sources beside the choices (Perplexity).

Usage: `prompt_tokens` includes the `cached_tokens` and `cache_write_tokens` of its details, and `completion_tokens`
includes `reasoning_tokens`. xAI's leaves reasoning out of `completion_tokens` and in `total_tokens`, and so does
Gemini's, without any details; there the sum tells. Databricks' names Claude's caches as Anthropic does, inside
`prompt_tokens`. Azure's Grok counts a hidden prompt among `cached_tokens` that it leaves out of `prompt_tokens`; more
than all cannot be cached. Usage may come in several chunks and is then cumulative: the last one counts. Moonshot's is
in the last choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....errors import BrokenStreamError, OverloadedError, ProviderError
from ....ids import new_call_id
from ....messages import Opaque, Part, Reasoning, StopReason, Text, ToolCall
from ....usage import Tokens
from ...base import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ...errors import by_status, make
from ...http.encoding import dumps, is_object
from ...http.sse import Event
from ...http.transport import finished, payload
from ..errors import error_of, kind_of, status_of
from . import details
from .request import label

STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",  # Mistral
    "max_tokens": "length",
    "content_filter": "filter",
}
"""Those that are not here end an answer as `stop` does."""

BROKEN = frozenset({"insufficient_system_resource", "error", "abort", "aborted", "cancelled"})
"""Finish reasons of answers that were broken off: DeepSeek's, and those of vLLM, SGLang and proxies."""

NO_DATA = ("", "[DONE]")
"""Data that says nothing: the end has been said before, and some servers send empty data in between."""

_BESIDE = ("citations", "search_results")
"""What Perplexity sends beside the choices; each chunk has all of it."""


class ChatReader:
    """A `Reader` of Chat Completions. A finish reason ends the answer, because not every server sends `[DONE]`."""

    __slots__ = (
        "_beside",
        "_calls",
        "_details",
        "_label",
        "_model",
        "_pieces",
        "_provider",
        "_refused",
        "_stop",
        "_usage",
        "_written",
        "ended",
    )

    def __init__(self, provider: str) -> None:
        self.ended = False
        self._provider = provider
        self._label = label(provider)
        self._pieces: list[Piece] = []
        self._calls = Calls(self._pieces)
        self._written: Piece | None = None  # the call that is being written
        self._details: list[dict[str, Any]] = []
        self._beside: dict[str, Any] = {}
        self._model = ""
        self._stop = ""
        self._refused = False
        self._usage: dict[str, Any] | None = None

    def read(self, event: Event) -> Iterable[ModelEvent]:
        """See `Reader.read`."""
        if event.data.strip() in NO_DATA:
            return ()
        chunk = payload(event, self._provider)
        if event.name == "error":
            raise self._failure(chunk)
        return self._take(chunk, "delta")

    def whole(self, answer: Any) -> Iterable[ModelEvent]:
        """See `Reader.whole`."""
        if "choices" not in answer and "error" not in answer:
            raise self._failure(answer)
        pieces = self._take(answer, "message")
        if answer.get("choices") and not self._stop:  # it is all there, whatever the server leaves unsaid
            self.ended, self._stop = True, "stop"
        return pieces

    def partial(self) -> tuple[list[Part], str]:
        """See `Reader.partial`."""
        pieces = [piece for piece in self._pieces if piece.kind != "call" or piece.ready]
        return [piece.part(self._label) for piece in pieces], self._model

    def counted(self) -> Tokens | None:
        """See `Reader.counted`."""
        return tokens(self._usage)

    def reply(self) -> Reply:
        """See `Reader.reply`."""
        if not self.ended:
            why = f"with the finish reason {self._stop!r}" if self._stop else "without a finish reason"
            raise BrokenStreamError(f"the answer of {self._provider} ended {why}", provider=self._provider)
        parts = [piece.part(self._label) for piece in self._pieces]
        if self._details:
            self._keep_details(parts)
        parts += [Opaque(self._label, name, dumps(value)) for name, value in self._beside.items()]
        stop = "filter" if self._refused else STOP_REASONS.get(self._stop, "end")
        return finished(self._provider, parts, stop, self._model, tokens(self._usage))

    def _take(self, chunk: dict[str, Any], key: str) -> list[ModelEvent]:
        if chunk.get("error") or chunk.get("object") == "error":
            raise self._failure(chunk)
        if not self._model:
            self._model = chunk.get("model") or ""
        if usage := chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage"):
            self._usage = usage
        for name in _BESIDE:
            if chunk.get(name):
                self._beside[name] = chunk[name]
        choices = chunk.get("choices")
        if not choices:
            return []
        choice = choices[0]
        self._usage = choice.get("usage") or self._usage
        if choice.get("error"):
            raise self._failure(choice)
        if reason := choice.get("finish_reason"):
            self._stop = reason
            self.ended = reason not in BROKEN
        delta = choice.get(key) or choice.get("message" if key == "delta" else "delta")
        found = self._delta(delta) if delta else []
        if self.ended:
            found += [item for piece in self._pieces for item in self._announce(piece)]
        return found

    def _delta(self, delta: dict[str, Any]) -> list[ModelEvent]:
        found: list[ModelEvent] = []
        thought, content = delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content")
        if self._written and (thought or content or delta.get("refusal")):
            found += self._turn_to(None)
        if pieces := delta.get("reasoning_details"):
            details.add(self._details, pieces)
        if thought:
            found.append(self._think(thought))
        if content:
            if isinstance(content, str):
                found.append(self._say(content))
            else:
                found += self._content_parts(content)
        if refusal := delta.get("refusal"):
            self._refused = True
            self._run("refusal").append(refusal)
            found.append(TextChunk(refusal))
        for call in _calls(delta):
            found += self._call(call)
        for name in ("annotations", "audio"):
            if delta.get(name):
                self._keep_beside(name, delta[name])
        return found

    def _keep_beside(self, name: str, value: Any) -> None:
        """A list grows; of an object, text grows, and all else is replaced."""
        before = self._beside.get(name)
        if isinstance(value, list) and isinstance(before, list):
            value = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            grown = {
                k: before[k] + v
                for k, v in value.items()
                if isinstance(v, str) and k in ("data", "transcript") and k in before
            }
            value = {**before, **value, **grown}
        self._beside[name] = value

    def _content_parts(self, content: list[dict[str, Any]]) -> Iterable[ModelEvent]:
        for part in content:
            pieces = part.get("thinking") or part.get("summary") or []
            if part.get("type") in ("thinking", "reasoning"):
                texts = [pieces] if isinstance(pieces, str) else [piece.get("text") or "" for piece in pieces]
                if thought := "".join(texts):
                    yield self._think(thought)
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
            self._pieces.append(Piece(kind))
        return self._pieces[-1].texts

    def _call(self, delta: dict[str, Any]) -> list[ModelEvent]:
        function = delta.get("function") or delta.get("custom") or {}
        given = function.get("arguments") or function.get("input") or ""
        text = given if isinstance(given, str) else dumps(given)
        call = self._calls.of(delta.get("index"), delta.get("id") or "", function.get("name") or "", text)
        call.take(delta)
        arguments = "" if call.ready else text
        call.texts.append(arguments)
        return [*self._turn_to(call), ToolCallChunk(call.id, call.name, arguments)]

    def _turn_to(self, call: Piece | None) -> list[ModelEvent]:
        """What is written from now on is *call*, or no call. The one before may be ready: some servers write several
        by turns, so it is if its arguments are whole."""
        before, self._written = self._written, call
        return [] if before is None or before is call else self._announce(before)

    def _announce(self, piece: Piece) -> list[ModelEvent]:
        """The call, unless it was announced before. Arguments that are no whole object wait for the reply."""
        if piece.kind != "call" or piece.ready or not piece.name or not is_object("".join(piece.texts)):
            return []
        part = piece.part(self._label)
        piece.ready = True
        return [ToolCallReady(part)] if isinstance(part, ToolCall) else []

    def _keep_details(self, parts: list[Part]) -> None:
        """The list goes back as a whole, so the first reasoning has all of it."""
        raw = dumps({"reasoning_details": self._details})
        for place, part in enumerate(parts):
            if part.kind == "reasoning":
                parts[place] = Reasoning(part.text, provider=self._label, raw=raw)
                return
        parts.insert(0, Reasoning("", provider=self._label, raw=raw))

    def _failure(self, answer: Any) -> ProviderError:
        error = error_of(answer)
        status = status_of(error)
        kind = kind_of(error) or (by_status(status) if status else OverloadedError)
        return make(kind, f"{self._provider}: {error['message'] or answer}", provider=self._provider)


def _calls(delta: dict[str, Any]) -> Iterable[dict[str, Any]]:
    if delta.get("function_call"):  # what calls were before there were several in a turn
        return ({"index": 0, "function": delta["function_call"]},)
    return delta.get("tool_calls") or ()


_READ = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")


def _count(counts: dict[str, Any], name: str) -> int:
    return counts.get(name) or 0


def tokens(usage: dict[str, Any] | None) -> Tokens | None:
    """The API's counts in the meaning of `Tokens`."""
    if not usage:
        return None
    read = usage.get("prompt_tokens_details") or {}
    prompt = usage.get("prompt_tokens") or 0
    completion = usage.get("completion_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    beside = max(0, (usage.get("total_tokens") or 0) - prompt - completion)
    return Tokens(
        prompt=prompt,
        completion=completion + beside,
        cached=min(prompt, next((count for count in map(_count, (read, usage, usage, usage), _READ) if count), 0)),
        cache_write=read.get("cache_write_tokens") or usage.get("cache_creation_input_tokens") or 0,
        reasoning=reasoning or beside,
    )


_OURS = frozenset({"id", "index", "type", "function"})


class Piece:
    """A piece of an answer: of the kind `text`, `refusal`, `reasoning` or `call`."""

    __slots__ = ("_more", "given", "id", "kind", "name", "ready", "texts")

    def __init__(self, kind: str, call_id: str = "", name: str = "", given: str = "") -> None:
        self.kind = kind
        self.id = call_id
        self.name = name
        self.given = given
        """The id that the server has given the call, which may have none, or another call's."""
        self.texts: list[str] = []
        self.ready = False
        self._more: dict[str, Any] | None = None

    def take(self, delta: dict[str, Any]) -> None:
        """Keep what a call has besides its function, such as Google's `extra_content` with a signature."""
        for name, value in delta.items():
            if name not in _OURS and value is not None and name != "custom":
                self._more = {**(self._more or {}), name: value}

    def part(self, label: str) -> Part:
        """The piece as a part; *label* is whose it is."""
        text = "".join(self.texts)
        match self.kind:
            case "text":
                return Text(text)
            case "refusal":
                return Text(text, raw=dumps({"refusal": text}), provider=label)
            case "reasoning":
                return Reasoning(text, provider=label)
            case _:
                raw = dumps(self._more) if self._more else None
                return ToolCall(self.id, self.name, text or "{}", raw=raw, provider=label if raw else "")


class Calls:
    """The calls among *pieces*, and how they are told apart: by index; where there is none, or the same for all, by id;
    and where ids do not tell either, by a name behind arguments that are whole. A call begins with its name."""

    __slots__ = ("_at", "_pieces")

    def __init__(self, pieces: list[Piece]) -> None:
        self._at: dict[int, Piece] = {}
        self._pieces = pieces

    def of(self, index: int | None, given: str, name: str, text: str) -> Piece:
        """The call that a delta belongs to, which may begin with it; *given* is its id, *text* its arguments."""
        call = self._under_way(index, given, name)
        if call is None or (name and call.name and _begins(call, index, given, name, text)):
            taken = not given or any(given == piece.id for piece in self._pieces)
            call = Piece("call", new_call_id() if taken else given, given=given)
            self._pieces.append(call)
        if index is not None:
            self._at[index] = call
        call.name = call.name or name
        return call

    def _under_way(self, index: int | None, given: str, name: str) -> Piece | None:
        here = None if index is None else self._at.get(index)
        if here is not None and given in ("", here.given):
            return here
        calls = [piece for piece in reversed(self._pieces) if piece.kind == "call"]
        same = next((call for call in calls if given and call.given == given), None)
        if index is None:
            return same or (calls[0] if calls else None)
        if same is None:
            return here
        return None if name and here is None else same  # a name at a new index: two calls have one id


def _begins(call: Piece, index: int | None, given: str, name: str, text: str) -> bool:
    """Whether a delta with a *name* begins another call than *call*, which is under way."""
    if given and (given != call.given or index is not None):
        return given != call.given
    if name != call.name:
        return True
    return bool(text) and is_object("".join(call.texts))
