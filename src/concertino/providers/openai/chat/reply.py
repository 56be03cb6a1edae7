"""Read the chunks of a streamed chat completion.

Facts are from OpenAI's API reference ("Chat completion chunk"). Recorded answers of other servers deviate in small
ways, all of which are read here: reasoning in `reasoning_content` (DeepSeek, xAI) or `reasoning` (OpenRouter, Groq), or
in a list that must go back unmodified (OpenRouter), content in parts (Mistral, Databricks), calls without `index` or
with arguments as an object, usage in `x_groq`, errors inside the stream (OpenRouter), sources next to the choices
(Perplexity), images next to the content (OpenRouter).

The answer of an audio model is a recording with its transcript, which is the text of the answer.

Usage in several chunks is cumulative: the last one counts. Moonshot sends it in the last choice. `usage` has the rules
by which its counts are read.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from ....errors import OverloadedError, ProviderError
from ....ids import new_call_id
from ....messages import Media, MediaPart, MessagePart, Opaque, Reasoning, StopReason, Text, ToolCall
from ....usage import Receipt, Tokens
from ...base import Logprob, ModelEvent, ReasoningChunk, TextChunk, ToolCallChunk, ToolCallReady
from ...errors import kind_by_status, provider_error
from ...http.encoding import dumps, is_object
from ...http.reader import AnswerReader, count_in, details_in, first_choice, modalities_in
from ..errors import error_object, kind_by_code, status_in_code
from .request import part_owner
from .usage import tokens
from .vendors import Vendor

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

_METADATA = ("citations", "search_results")
"""Perplexity's fields next to the choices; each chunk repeats them in full."""


class ChatReader(AnswerReader):
    """An `AnswerReader` for Chat Completions.

    A finish reason ends the answer, because not every server sends `[DONE]`.
    """

    total = "total_tokens"

    __slots__ = (
        "_audio",
        "_calls",
        "_current_call",
        "_images",
        "_metadata",
        "_owner",
        "_pieces",
        "_probabilities",
        "_reasoning_details",
        "_refused",
        "_service_tier",
        "_vendor",
    )

    def __init__(self, provider: str, vendor: Vendor) -> None:
        super().__init__(provider)
        self._vendor = vendor
        self._owner = part_owner(provider)
        self._pieces: list[Piece] = []
        self._calls = CallIndex(self._pieces)
        self._current_call: Piece | None = None
        self._images: list[MediaPart] = []
        self._audio = bytearray()
        self._metadata: dict[str, Any] = {}
        self._probabilities: list[dict[str, Any]] = []
        self._reasoning_details: list[dict[str, Any]] = []
        self._refused = False
        self._service_tier = ""

    def _read_body(self, answer: Any) -> Sequence[ModelEvent]:
        if "choices" not in answer and "error" not in answer:
            raise _failure(answer, self.provider)
        return self._read_choice(answer, "message")

    def _read(self, data: dict[str, Any], name: str) -> Sequence[ModelEvent]:
        if name == "error":
            raise _failure(data, self.provider)
        return self._read_choice(data, "delta")

    def _is_whole(self) -> bool:
        calls = ["".join(piece.texts) for piece in self._pieces if piece.kind == "call"]
        return not self.stop and bool(self._pieces or self._images) and all(map(is_object, calls))

    def _at_end(self) -> Sequence[ModelEvent]:
        return [item for piece in self._pieces for item in piece.announce(self._owner)]

    def partial(self) -> list[MessagePart]:
        """See `AnswerReader.partial`."""
        pieces = [piece for piece in self._pieces if piece.kind != "call" or piece.announced]
        return [piece.part(self._owner) for piece in pieces]

    def _parts(self) -> list[MessagePart]:
        parts = [piece.part(self._owner) for piece in self._pieces]
        if self._reasoning_details:
            attach_details(parts, self._reasoning_details, self._owner)
        recordings = [MediaPart(_recording(bytes(self._audio)), provider=self._owner)] if self._audio else []
        return [*parts, *self._images, *recordings] + [
            Opaque(self._owner, name, dumps(value)) for name, value in self._metadata.items()
        ]

    def _stop_reason(self) -> StopReason:
        return "filter" if self._refused else STOP_REASONS.get(self.stop, "end")

    def _tokens(self) -> Tokens | None:
        return tokens(self.usage, self._vendor, self.model)

    def _reported(self) -> Receipt:
        """See `AnswerReader._reported`. OpenRouter counts requests of its tools, Perplexity queries."""
        used = self.usage.get("server_tool_use") or details_in(self.usage, "server_tool_use_details")
        counts = {name.removesuffix("_requests"): count_in(used, name) for name in used if name.endswith("_requests")}
        prompt = modalities_in(details_in(self.usage, "prompt_tokens_details"), "input")
        completion = modalities_in(details_in(self.usage, "completion_tokens_details"), "output")
        return Receipt(
            service_tier=self._service_tier or self.usage.get("service_tier") or "",
            server_tools=counts or {"web_search": count_in(self.usage, "num_search_queries")},
            modalities=prompt | completion,
        )

    def _logprobs(self) -> tuple[Logprob, ...]:
        return logprobs_of(self._probabilities)

    def _read_choice(self, chunk: dict[str, Any], key: str) -> list[ModelEvent]:
        if chunk.get("error") or chunk.get("object") == "error":
            raise _failure(chunk, self.provider)
        self._note(chunk)
        choice = first_choice(chunk.get("choices"))
        if choice is None:
            return []
        self.usage = choice.get("usage") or self.usage
        if choice.get("error"):
            raise _failure(choice, self.provider)
        if reason := choice.get("finish_reason"):
            self.stop = reason
            self.end = None if reason in BROKEN else "reason"
        if probabilities := choice.get("logprobs"):
            self._probabilities += probabilities.get("content") or ()
        delta = choice.get(key) or choice.get("message" if key == "delta" else "delta")
        items = self._delta(delta) if delta else []
        if self.end is not None:
            items += [item for piece in self._pieces for item in piece.announce(self._owner)]
        return items

    def _note(self, chunk: dict[str, Any]) -> None:
        """Keep what a chunk reports about the whole answer."""
        if not self.model:
            self.model = chunk.get("model") or ""
            self.response_id = chunk.get("id") or ""
        if tier := chunk.get("service_tier"):
            self._service_tier = tier
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage")
        if isinstance(usage, dict):
            self.usage = usage or self.usage
        for name in _METADATA:
            if chunk.get(name):
                self._metadata[name] = chunk[name]

    def _delta(self, delta: dict[str, Any]) -> list[ModelEvent]:
        items: list[ModelEvent] = []
        thought, content = delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content")
        if audio := delta.get("audio"):
            self._audio += base64.b64decode(audio.get("data") or "")  # each piece is encoded for itself
            content = content or audio.get("transcript")
        if self._current_call and (thought or content or delta.get("refusal")):
            items += self._switch_to(None)
        if pieces := delta.get("reasoning_details"):
            add_details(self._reasoning_details, pieces)
        if thought:
            items.append(self._write("reasoning", thought))
        if content:
            if isinstance(content, str):
                items.append(self._write("text", content))
            else:
                items += self._content_parts(content)
        if refusal := delta.get("refusal"):
            self._refused = True
            items.append(self._write("refusal", refusal))
        for call in _calls(delta):
            items += self._call(call)
        self._keep(delta)
        return items

    def _keep(self, delta: dict[str, Any]) -> None:
        """Keep what a delta has next to its text."""
        for media in map(_image, delta.get("images") or ()):
            if media is not None:
                self._images.append(MediaPart(media, provider=self._owner))
        if notes := delta.get("annotations"):
            self._metadata["annotations"] = [*self._metadata.get("annotations", ()), *notes]

    def _content_parts(self, content: list[dict[str, Any]]) -> Iterable[ModelEvent]:
        for part in content:
            pieces = part.get("thinking") or part.get("summary") or []
            if part.get("type") in ("thinking", "reasoning"):
                texts = [pieces] if isinstance(pieces, str) else [piece.get("text") or "" for piece in pieces]
                if thought := "".join(texts):
                    yield self._write("reasoning", thought)
            elif text := part.get("text"):
                yield self._write("text", text)

    def _write(self, kind: str, text: str) -> ModelEvent:
        self._run(kind).append(text)
        return ReasoningChunk(text) if kind == "reasoning" else TextChunk(text)

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
        return [] if before is None or before is call else before.announce(self._owner)


def _failure(answer: Any, provider: str) -> ProviderError:
    error = error_object(answer)
    status = status_in_code(error)
    kind = kind_by_code(error) or (kind_by_status(status) if status else OverloadedError)
    return provider_error(kind, f"{provider}: {error['message'] or answer}", provider=provider)


def attach_details(parts: list[MessagePart], details: list[dict[str, Any]], owner: str) -> None:
    """Attach the whole list, which goes back as one field, to the first reasoning."""
    raw = dumps({"reasoning_details": details})
    for index, part in enumerate(parts):
        if part.kind == "reasoning":
            parts[index] = Reasoning(part.text, provider=owner, raw=raw)
            return
    parts.insert(0, Reasoning("", provider=owner, raw=raw))


def _calls(delta: dict[str, Any]) -> Iterable[dict[str, Any]]:
    if delta.get("function_call"):  # the form before parallel calls
        return ({"index": 0, "function": delta["function_call"]},)
    return delta.get("tool_calls") or ()


def _image(image: dict[str, Any]) -> Media | None:
    """Return an image of an answer (OpenRouter, "Image generation"): a data URL, or an address."""
    url = (image.get("image_url") or {}).get("url") or ""
    head, comma, data = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return Media(head.removeprefix("data:"), data)
    return Media("image/*", url=url) if url.startswith("https://") else None


_RECORDINGS = {
    b"RIFF": "audio/wav",
    b"fLaC": "audio/flac",
    b"OggS": "audio/ogg",
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
    b"\xff\xf3": "audio/mpeg",
    b"\xff\xf1": "audio/aac",
}
"""How recordings begin. The answer does not state the format; only `pcm16`, without a beginning, is streamed."""


def _recording(content: bytes) -> Media:
    """Return the recording of an answer ("Audio", `modalities`)."""
    found = (kind for start, kind in _RECORDINGS.items() if content.startswith(start))
    return Media(next(found, "audio/pcm"), base64.b64encode(content).decode())


def logprobs_of(entries: Iterable[dict[str, Any]]) -> tuple[Logprob, ...]:
    """Return the entries of OpenAI's `logprobs`, in Chat Completions and Responses alike."""
    return tuple(
        [
            Logprob(
                entry["token"],
                entry["logprob"],
                tuple([(likely["token"], likely["logprob"]) for likely in entry.get("top_logprobs") or ()]),
            )
            for entry in entries
        ]
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

    def announce(self, owner: str) -> list[ModelEvent]:
        """Announce a call once. Arguments that are not a whole object wait for the reply."""
        if self.kind != "call" or self.announced or not self.name or not is_object("".join(self.texts)):
            return []
        part = self.part(owner)
        self.announced = True
        return [ToolCallReady(part)] if isinstance(part, ToolCall) else []

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
