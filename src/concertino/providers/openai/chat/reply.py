"""Read the chunks of a streamed chat completion.

Facts are from OpenAI's API reference ("Chat completion chunk"). Recorded answers of other servers deviate in small
ways, all of which are read here: reasoning in `reasoning_content` (DeepSeek, xAI) or `reasoning` (OpenRouter, Groq), or
in a list that must go back unmodified (OpenRouter), content in parts (Mistral, Databricks), calls without `index` or
with arguments as an object, usage in `x_groq`, errors inside the stream (OpenRouter), sources next to the choices
(Perplexity).

Usage: `prompt_tokens` includes the `cached_tokens` and `cache_write_tokens` of its details, and `completion_tokens`
includes `reasoning_tokens`. xAI counts reasoning only in `total_tokens`, and so does Gemini, without any details; there
the total reveals it. Mistral counts audio input that way, with its tokens in `prompt_tokens_details`. Databricks names
Claude's cache counts as Anthropic does, inside `prompt_tokens`. Azure's Grok counts a hidden prompt among
`cached_tokens` that `prompt_tokens` excludes, so cached tokens are capped. Usage in several chunks is cumulative: the
last one counts. Moonshot sends it in the last choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....errors import BrokenStreamError, OverloadedError, ProviderError
from ....ids import new_call_id
from ....messages import MessagePart, Opaque, Reasoning, StopReason, Text, ToolCall
from ....usage import Tokens
from ...base import ModelEvent, ReasoningChunk, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ...errors import kind_by_status, provider_error
from ...http.encoding import dumps, is_object
from ...http.sse import SseEvent
from ...http.transport import complete_reply, payload
from ..errors import error_object, kind_by_code, status_in_code
from .request import part_owner

STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",  # Mistral
    "max_tokens": "length",
    "content_filter": "filter",
}
"""Other finish reasons end an answer as `stop` does."""

BROKEN = frozenset({"insufficient_system_resource", "error", "abort", "aborted", "cancelled"})
"""Finish reasons of answers that broke off: DeepSeek's, and those of vLLM, SGLang and proxies."""

DONE = "[DONE]"
NO_DATA = ("", DONE)
"""Data without content; some servers send empty data in between."""

_METADATA = ("citations", "search_results")
"""Perplexity's fields next to the choices; each chunk repeats them in full."""


class ChatReader:
    """A `ReplyReader` for Chat Completions.

    A finish reason ends the answer, because not every server sends `[DONE]`.
    """

    __slots__ = (
        "_calls",
        "_choice",
        "_current_call",
        "_details",
        "_metadata",
        "_model",
        "_owner",
        "_pieces",
        "_provider",
        "_refused",
        "_stop",
        "_usage",
        "ended",
    )

    def __init__(self, provider: str) -> None:
        self.ended = False
        self._provider = provider
        self._owner = part_owner(provider)
        self._choice: int | None = None
        self._pieces: list[Piece] = []
        self._calls = CallIndex(self._pieces)
        self._current_call: Piece | None = None
        self._details: list[dict[str, Any]] = []
        self._metadata: dict[str, Any] = {}
        self._model = ""
        self._stop = ""
        self._refused = False
        self._usage: dict[str, Any] | None = None

    def read(self, event: SseEvent) -> Sequence[ModelEvent]:
        """See `ReplyReader.read`."""
        data = event.data.strip()
        if data in NO_DATA:
            return self._done() if data == DONE else ()
        chunk = payload(event, self._provider)
        if event.name == "error":
            raise self._failure(chunk)
        return self._read(chunk, "delta")

    def whole(self, answer: Any) -> Sequence[ModelEvent]:
        """See `ReplyReader.whole`."""
        if "choices" not in answer and "error" not in answer:
            raise self._failure(answer)
        items = self._read(answer, "message")
        if answer.get("choices") and not self._stop:  # a whole body is complete, even without a finish reason
            self.ended, self._stop = True, "stop"
        return items

    def partial(self) -> tuple[list[MessagePart], str]:
        """See `ReplyReader.partial`."""
        pieces = [piece for piece in self._pieces if piece.kind != "call" or piece.announced]
        return [piece.part(self._owner) for piece in pieces], self._model

    def counted(self) -> Tokens | None:
        """See `ReplyReader.counted`."""
        return tokens(self._usage)

    def reply(self) -> Reply:
        """See `ReplyReader.reply`."""
        if not self.ended:
            how = f"with the finish reason {self._stop!r}" if self._stop else "without a finish reason"
            raise BrokenStreamError(f"the answer of {self._provider} ended {how}", provider=self._provider)
        parts = [piece.part(self._owner) for piece in self._pieces]
        if self._details:
            self._attach_details(parts)
        parts += [Opaque(self._owner, name, dumps(value)) for name, value in self._metadata.items()]
        stop = "filter" if self._refused else STOP_REASONS.get(self._stop, "end")
        return complete_reply(self._provider, parts, stop, self._model, tokens(self._usage))

    def _done(self) -> Sequence[ModelEvent]:
        """End an answer by `[DONE]` alone, as some hosts of OpenRouter do, unless a call was cut off."""
        complete = all(piece.kind != "call" or is_object("".join(piece.texts)) for piece in self._pieces)
        if self._stop or not self._pieces or not complete:
            return ()
        self.ended, self._stop = True, "stop"
        return [item for piece in self._pieces for item in self._announce(piece)]

    def _read(self, chunk: dict[str, Any], key: str) -> list[ModelEvent]:
        if chunk.get("error") or chunk.get("object") == "error":
            raise self._failure(chunk)
        if not self._model:
            self._model = chunk.get("model") or ""
        if usage := chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage"):
            self._usage = usage
        for name in _METADATA:
            if chunk.get(name):
                self._metadata[name] = chunk[name]
        choice = self._first_choice(chunk)
        if choice is None:
            return []
        self._usage = choice.get("usage") or self._usage
        if choice.get("error"):
            raise self._failure(choice)
        if reason := choice.get("finish_reason"):
            self._stop = reason
            self.ended = reason not in BROKEN
        delta = choice.get(key) or choice.get("message" if key == "delta" else "delta")
        items = self._delta(delta) if delta else []
        if self.ended:
            items += [item for piece in self._pieces for item in self._announce(piece)]
        return items

    def _first_choice(self, chunk: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer's choice in *chunk*. Others, which `extra={"n": 2}` asks for, must not mix with it."""
        for choice in chunk.get("choices") or ():
            index = choice.get("index") or 0
            if self._choice is None:
                self._choice = index
            if index == self._choice:
                found: dict[str, Any] = choice
                return found
        return None

    def _delta(self, delta: dict[str, Any]) -> list[ModelEvent]:
        items: list[ModelEvent] = []
        thought, content = delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content")
        if self._current_call and (thought or content or delta.get("refusal")):
            items += self._switch_to(None)
        if pieces := delta.get("reasoning_details"):
            add_details(self._details, pieces)
        if thought:
            items.append(self._reason(thought))
        if content:
            if isinstance(content, str):
                items.append(self._say(content))
            else:
                items += self._content_parts(content)
        if refusal := delta.get("refusal"):
            self._refused = True
            self._run("refusal").append(refusal)
            items.append(TextChunk(refusal))
        for call in _calls(delta):
            items += self._call(call)
        for name in ("annotations", "audio"):
            if delta.get(name):
                self._add_metadata(name, delta[name])
        return items

    def _add_metadata(self, name: str, value: Any) -> None:
        """Append to a list; in an object, append to streamed text and replace everything else."""
        before = self._metadata.get(name)
        if isinstance(value, list) and isinstance(before, list):
            value = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            appended = {
                key: before[key] + text
                for key, text in value.items()
                if isinstance(text, str) and key in ("data", "transcript") and key in before
            }
            value = {**before, **value, **appended}
        self._metadata[name] = value

    def _content_parts(self, content: list[dict[str, Any]]) -> Iterable[ModelEvent]:
        for part in content:
            pieces = part.get("thinking") or part.get("summary") or []
            if part.get("type") in ("thinking", "reasoning"):
                texts = [pieces] if isinstance(pieces, str) else [piece.get("text") or "" for piece in pieces]
                if thought := "".join(texts):
                    yield self._reason(thought)
            elif text := part.get("text"):
                yield self._say(text)

    def _say(self, text: str) -> TextChunk:
        self._run("text").append(text)
        return TextChunk(text)

    def _reason(self, text: str) -> ReasoningChunk:
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
        call = self._calls.find(delta.get("index"), delta.get("id") or "", function.get("name") or "", text)
        call.keep_extras(delta)
        arguments = "" if call.announced else text
        call.texts.append(arguments)
        return [*self._switch_to(call), ToolCallChunk(call.id, call.name, arguments)]

    def _switch_to(self, call: Piece | None) -> list[ModelEvent]:
        """Continue with *call*, or with text, and announce the call before if its arguments are whole.

        Some servers write several calls alternately, so arguments that are not whole may continue later.
        """
        before, self._current_call = self._current_call, call
        return [] if before is None or before is call else self._announce(before)

    def _announce(self, piece: Piece) -> list[ModelEvent]:
        """Announce a call once. Arguments that are not a whole object wait for the reply."""
        if piece.kind != "call" or piece.announced or not piece.name or not is_object("".join(piece.texts)):
            return []
        part = piece.part(self._owner)
        piece.announced = True
        return [ToolCallReady(part)] if isinstance(part, ToolCall) else []

    def _attach_details(self, parts: list[MessagePart]) -> None:
        """Attach the whole list, which goes back as one field, to the first reasoning."""
        raw = dumps({"reasoning_details": self._details})
        for index, part in enumerate(parts):
            if part.kind == "reasoning":
                parts[index] = Reasoning(part.text, provider=self._owner, raw=raw)
                return
        parts.insert(0, Reasoning("", provider=self._owner, raw=raw))

    def _failure(self, answer: Any) -> ProviderError:
        error = error_object(answer)
        status = status_in_code(error)
        kind = kind_by_code(error) or (kind_by_status(status) if status else OverloadedError)
        return provider_error(kind, f"{self._provider}: {error['message'] or answer}", provider=self._provider)


def _calls(delta: dict[str, Any]) -> Iterable[dict[str, Any]]:
    if delta.get("function_call"):  # the form before parallel calls
        return ({"index": 0, "function": delta["function_call"]},)
    return delta.get("tool_calls") or ()


def tokens(usage: dict[str, Any] | None) -> Tokens | None:
    """Return the API's counts as `Tokens`, or None without a report."""
    if not usage:
        return None
    details = usage.get("prompt_tokens_details") or {}
    prompt = usage.get("prompt_tokens") or 0
    completion = usage.get("completion_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    uncounted = max(0, (usage.get("total_tokens") or 0) - prompt - completion)
    if uncounted and uncounted == (details.get("audio_tokens") or 0) + (details.get("image_tokens") or 0):
        prompt, uncounted = prompt + uncounted, 0  # Mistral's media input
    cached = (
        details.get("cached_tokens")
        or usage.get("prompt_cache_hit_tokens")
        or usage.get("cache_read_input_tokens")
        or usage.get("cached_tokens")
        or 0
    )
    return Tokens(
        prompt=prompt,
        completion=completion + uncounted,
        cached=min(prompt, cached),
        cache_write=details.get("cache_write_tokens") or usage.get("cache_creation_input_tokens") or 0,
        reasoning=reasoning or uncounted,
    )


_GROWING = ("text", "summary")


def add_details(details: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    """Merge *pieces* of OpenRouter's `reasoning_details` into *details*.

    After its guide "Reasoning tokens": consecutive entries of one `index` and `type` belong together; their `text` and
    `summary` grow, a `signature` comes with the last one, and encrypted entries (`data`) come whole.
    """
    for piece in pieces:
        last = details[-1] if details else None
        if last is None or not _continues(last, piece):
            details.append(dict(piece))
            continue
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str):
                last[name] = (last.get(name) or "") + value
            elif value is not None:
                last[name] = value


def _continues(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    same = last.get("type") == piece.get("type") and last.get("index") == piece.get("index")
    return same and "data" not in piece and (last.get("id") or piece.get("id")) == (piece.get("id") or last.get("id"))


_REPRESENTED = frozenset({"id", "index", "type", "function", "custom"})
"""The fields of a call that a `ToolCall` represents itself."""


class Piece:
    """A piece of an answer: `text`, `refusal`, `reasoning` or `call`."""

    __slots__ = ("_extras", "announced", "id", "kind", "name", "server_id", "texts")

    def __init__(self, kind: str, call_id: str = "", server_id: str = "") -> None:
        self.kind = kind
        self.id = call_id
        self.name = ""
        self.server_id = server_id
        """The server's id of a call; "" or another call's id at some servers."""
        self.texts: list[str] = []
        self.announced = False
        self._extras: dict[str, Any] = {}

    def keep_extras(self, delta: dict[str, Any]) -> None:
        """Keep further fields of a call, such as Google's `extra_content` with a signature."""
        self._extras.update(
            (name, value) for name, value in delta.items() if name not in _REPRESENTED and value is not None
        )

    def part(self, owner: str) -> MessagePart:
        """Return the piece as a part of *owner*."""
        text = "".join(self.texts)
        match self.kind:
            case "text":
                return Text(text)
            case "refusal":
                return Text(text, raw=dumps({"refusal": text}), provider=owner)
            case "reasoning":
                return Reasoning(text, provider=owner)
            case _:
                raw = dumps(self._extras) if self._extras else None
                return ToolCall(self.id, self.name, text or "{}", raw=raw, provider=owner if raw else "")


class CallIndex:
    """The calls among *pieces*, and the rules by which servers tell them apart.

    The index decides; without one, or if all are the same, the id; if ids do not decide either, a new name after whole
    arguments. A call begins with its name.
    """

    __slots__ = ("_by_index", "_pieces")

    def __init__(self, pieces: list[Piece]) -> None:
        self._by_index: dict[int, Piece] = {}
        self._pieces = pieces

    def find(self, index: int | None, server_id: str, name: str, arguments: str) -> Piece:
        """Return the call that a delta belongs to, adding one if the delta begins a call."""
        call = self._current(index, server_id, name)
        if call is None or (name and call.name and _begins(call, index, server_id, name, arguments)):
            unusable = not server_id or any(server_id == piece.id for piece in self._pieces)
            call = Piece("call", new_call_id() if unusable else server_id, server_id)
            self._pieces.append(call)
        if index is not None:
            self._by_index[index] = call
        call.name = call.name or name
        return call

    def _current(self, index: int | None, server_id: str, name: str) -> Piece | None:
        indexed = None if index is None else self._by_index.get(index)
        if indexed is not None and server_id in ("", indexed.server_id):
            return indexed
        calls = [piece for piece in reversed(self._pieces) if piece.kind == "call"]
        same = next((call for call in calls if server_id and call.server_id == server_id), None)
        if index is None:
            return same or (calls[0] if calls else None)
        if same is None:
            return indexed
        return None if name and indexed is None else same  # a name at a new index: two calls share an id


def _begins(call: Piece, index: int | None, server_id: str, name: str, arguments: str) -> bool:
    """Return whether a delta with a *name* begins a call after *call*."""
    if server_id and (server_id != call.server_id or index is not None):
        return server_id != call.server_id
    if name != call.name:
        return True
    return bool(arguments) and is_object("".join(call.texts))
