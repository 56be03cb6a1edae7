"""OpenAI's Chat Completions: the chunks of a stream, and the answer that they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...events import CallWaiting, RunEnded, RunEvent, ToolDone, ToolFailed, ToolProgress
from .log_pieces import LogPieces, Piece
from .values import CitedSource, JsonObject, address_of, failure_of, sources_of, tokens_of


class ChatStream:
    """Maps the log of one run to chunks.

    The server's own calls are status events and never `tool_calls`, because a client would try to execute those. A
    status has an empty list of `choices`, which clients of OpenAI ignore and Open WebUI shows.
    """

    def __init__(self, run_id: str, model: str, created: int, *, usage: bool) -> None:
        self._root_id = run_id
        self._base = {
            "id": f"chatcmpl-{run_id}",
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._include_usage = usage
        self._pieces = LogPieces(run_id)
        self._sources: dict[str, CitedSource] = {}
        self._has_text = self._needs_break = False
        self.ended = False
        """Whether the run has ended, or waits."""

    def start(self) -> JsonObject:
        """Return the first chunk."""
        return self._delta({"role": "assistant", "content": ""})

    def take(self, number: int, event: RunEvent) -> Iterator[JsonObject]:
        """Yield the chunks of the event with this number."""
        for item in self._pieces.take(number, event):
            match item:
                case Piece(kind="call"):
                    if item.phase == "end":
                        yield self._status(item.id, item.name, done=False)
                case Piece():
                    if item.run_id == self._root_id and item.audience == "answer":
                        yield from self._piece(item)
                case ToolProgress():
                    label = f"{item.name}: {item.step.get('name', '')}"
                    yield self._status(item.call_id, label, done=bool(item.step.get("ended")))
                case ToolDone() | ToolFailed():
                    yield from self._result(item)
                case CallWaiting():
                    yield self._status(item.call_id, f"{item.name} waits", done=False)
                case RunEnded(run_id=self._root_id):
                    yield from self._finish(item)
                case _:
                    pass

    def _piece(self, piece: Piece) -> Iterator[JsonObject]:
        match (piece.kind, piece.phase):
            case ("text", "start"):
                self._needs_break = self._has_text
            case ("text", "delta"):
                yield from self._write(piece.text)
            case ("text", "void"):
                yield self._status(piece.id, "The answer starts again", done=True)
            case ("reasoning", "delta"):
                yield self._delta({"reasoning_content": piece.text})
            case ("media", _):
                assert piece.media is not None
                mark = "!" if piece.media.kind == "image" else ""
                self._needs_break = self._has_text
                yield from self._write(f"{mark}[{piece.media.name or piece.media.kind}]({address_of(piece.media)})")
            case _:
                pass

    def _write(self, text: str) -> Iterator[JsonObject]:
        """Write text. All texts of an answer are one to these clients, so that a break stands between them."""
        if self._needs_break:
            text = f"\n\n{text}"
        self._has_text, self._needs_break = True, False
        yield self._delta({"content": text})

    def _result(self, event: ToolDone | ToolFailed) -> Iterator[JsonObject]:
        yield self._status(event.call_id, event.name, done=True)
        for source in sources_of(event.data) if isinstance(event, ToolDone) else ():
            if source.is_url and source.id not in self._sources:
                self._sources[source.id] = source
                named = {"name": source.title, "url": source.location}
                data = {"source": named, "document": [source.title], "metadata": [{"source": source.location, **named}]}
                yield {**self._base, "choices": [], "event": {"type": "source", "data": data}}

    def _finish(self, event: RunEnded) -> Iterator[JsonObject]:
        result, self.ended = event.result, True
        if result.status in ("failed", "cancelled"):
            failed = result.status == "failed"
            yield error_body(failure_of(result) if failed else "the run was stopped", "server_error", result.status)
            return
        if result.status == "suspended":
            self._needs_break = self._has_text
            yield from self._write(waiting_text(event))
        if result.status == "limited":
            self._needs_break = self._has_text
            yield from self._write(f"[{failure_of(result)}]")
        if self._sources:
            yield self._delta({"annotations": annotations_of(self._sources.values(), nested=True)})
        yield self._delta({}, "length" if result.status == "limited" else "stop")
        if self._include_usage:
            yield {**self._base, "choices": [], "usage": chat_usage(event)}

    def _delta(self, delta: JsonObject, reason: str | None = None) -> JsonObject:
        return {**self._base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    def _status(self, id: str, description: str, *, done: bool) -> JsonObject:
        data = {"id": id, "description": description, "done": done}
        return {**self._base, "choices": [], "event": {"type": "status", "data": data}}


class Completion:
    """The answer of a request without a stream, which the chunks add up to."""

    def __init__(self) -> None:
        self.body: JsonObject = {}
        self.error: JsonObject | None = None
        self._message: JsonObject = {"role": "assistant", "content": ""}

    def add(self, chunk: JsonObject) -> None:
        """Add a chunk."""
        if "error" in chunk:
            self.error = chunk
            return
        self.body |= {name: chunk[name] for name in ("id", "created", "model")} | {"object": "chat.completion"}
        self.body |= {"usage": chunk["usage"]} if "usage" in chunk else {}
        for choice in chunk["choices"]:
            for name, value in choice["delta"].items():
                if isinstance(value, str) and name != "role":
                    self._message[name] = self._message.get(name, "") + value
                else:
                    self._message[name] = value
            reason = choice["finish_reason"]
            self.body["choices"] = [{"index": 0, "message": self._message, "finish_reason": reason, "logprobs": None}]


def error_body(message: str, kind: str, code: str | None = None, param: str | None = None) -> JsonObject:
    """Return an error in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def waiting_text(event: RunEnded) -> str:
    """Return what to tell a client that cannot answer waits."""
    missing = {"approval": "an approval", "result": "its result"}
    waits = event.result.waiting
    return "\n".join(f"`{wait.tool}({wait.arguments})` waits for {missing[wait.kind]}." for wait in waits)


def annotations_of(sources: Any, *, nested: bool = False) -> list[JsonObject]:
    """Return the citations of an answer; in Chat Completions, their fields are *nested*."""
    found = []
    for source in sources:
        fields = {"url": source.location, "title": source.title, "start_index": 0, "end_index": 0}
        found.append({"type": "url_citation", "url_citation": fields} if nested else {"type": "url_citation", **fields})
    return found


def chat_usage(event: RunEnded) -> JsonObject:
    """Return the usage of a run and of its sub-agents."""
    tokens, _ = tokens_of(event.result.usage)
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "total_tokens": tokens.total,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }
