"""OpenAI's Responses: the events of a stream, and the response that they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...events import RunEnded, RunEvent, ToolDone, ToolFailed
from .log_pieces import LogPieces, Piece
from .openai_chat import annotations_of, waiting_text
from .values import CitedSource, JsonObject, failure_of, sources_of, tokens_of

_CONTENT = {"text": "output_text", "reasoning": "reasoning_text"}
_STATUS = {"completed": "completed", "suspended": "completed", "limited": "incomplete", "failed": "failed"}


class ResponseStream:
    """Maps the log of one run to events. `response` is the response so far.

    The server's own calls are items of the type `mcp_call`: it is OpenAI's form of a call that the server has executed,
    and no client executes it again.
    """

    def __init__(self, run_id: str, model: str, created: int) -> None:
        self.response: JsonObject = {
            "id": response_id(run_id),
            "object": "response",
            "created_at": created,
            "status": "in_progress",
            "model": model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": None,
        }
        self._root_id = run_id
        self._model = model
        self._pieces = LogPieces(run_id)
        self._items: list[JsonObject] = []
        self._by_id: dict[str, tuple[int, JsonObject]] = {}
        """By piece: the index and the item."""
        self._void: set[str] = set()
        self._sources: dict[str, CitedSource] = {}
        self._number = -1

    def start(self) -> Iterator[JsonObject]:
        """Yield the first events."""
        yield self._event("response.created", response=dict(self.response))
        yield self._event("response.in_progress", response=dict(self.response))

    def take(self, number: int, event: RunEvent) -> Iterator[JsonObject]:
        """Yield the events of the event with this number."""
        for item in self._pieces.take(number, event):
            if item.run_id != self._root_id:
                continue
            match item:
                case Piece():
                    if item.audience == "answer":
                        yield from self._piece(item)
                case ToolDone() | ToolFailed():
                    yield from self._result(item)
                case RunEnded():
                    yield from self._finish(item)
                case _:
                    pass

    def error(self, message: str) -> JsonObject:
        """Return the event of a stream that breaks off, while the run goes on in another process."""
        return self._event("error", code="server_error", message=message, param=None)

    def _piece(self, piece: Piece) -> Iterator[JsonObject]:
        match (piece.kind, piece.phase):
            case ("call", "start"):
                fields = {"server_label": self._model, "name": piece.name, "arguments": "", "output": None}
                yield from self._open(piece.id, f"mcp_{len(self._items)}", "mcp_call", {**fields, "error": None})
            case ("call", "delta"):
                self._by_id[piece.id][1]["arguments"] += piece.text
                yield self._of(piece.id, "response.mcp_call_arguments.delta", delta=piece.text)
            case ("call", "end"):
                self._by_id[piece.id][1]["arguments"] = piece.text
                yield self._of(piece.id, "response.mcp_call_arguments.done", arguments=piece.text)
                yield self._of(piece.id, "response.mcp_call.in_progress")
            case ("call", "void"):
                yield from self._close(piece.id, "incomplete")
                self._void.add(piece.id)
            case ("media", _):
                assert piece.media is not None
                if piece.media.kind == "image" and piece.media.data:
                    yield from self._open(piece.id, f"ig_{len(self._items)}", "image_generation_call", {"result": None})
                    self._by_id[piece.id][1]["result"] = piece.media.data
                    yield from self._close(piece.id)
            case (_, "void"):
                self._void.add(piece.id)
            case _:
                yield from self._content(piece)

    def _content(self, piece: Piece) -> Iterator[JsonObject]:
        kind = _CONTENT[piece.kind]
        delta = "response.output_text" if piece.kind == "text" else "response.reasoning_text"
        extra: JsonObject = {"annotations": [], "logprobs": []} if piece.kind == "text" else {}
        logprobs: JsonObject = {"logprobs": []} if piece.kind == "text" else {}
        match piece.phase:
            case "start":
                if piece.kind == "text":
                    yield from self._open(
                        piece.id, f"msg_{len(self._items)}", "message", {"role": "assistant", "content": []}
                    )
                else:
                    yield from self._open(
                        piece.id, f"rs_{len(self._items)}", "reasoning", {"summary": [], "content": []}
                    )
                part = {"type": kind, "text": "", **extra}
                yield self._of(piece.id, "response.content_part.added", content_index=0, part=part)
            case "delta":
                yield self._of(piece.id, f"{delta}.delta", content_index=0, delta=piece.text, **logprobs)
            case "end":
                part = {"type": kind, "text": piece.text, **extra}
                if piece.kind == "text" and self._sources:
                    part["annotations"] = annotations_of(self._sources.values())
                    self._sources = {}
                    for index, annotation in enumerate(part["annotations"]):
                        fields = {"content_index": 0, "annotation_index": index, "annotation": annotation}
                        yield self._of(piece.id, "response.output_text.annotation.added", **fields)
                yield self._of(piece.id, f"{delta}.done", content_index=0, text=piece.text, **logprobs)
                yield self._of(piece.id, "response.content_part.done", content_index=0, part=part)
                self._by_id[piece.id][1]["content"] = [part]
                yield from self._close(piece.id)

    def _result(self, event: ToolDone | ToolFailed) -> Iterator[JsonObject]:
        if event.call_id not in self._by_id:
            return
        item = self._by_id[event.call_id][1]
        if isinstance(event, ToolFailed):
            item["error"] = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": event.error}]}
            yield self._of(event.call_id, "response.mcp_call.failed")
            yield from self._close(event.call_id, "failed")
        else:
            item["output"] = event.content
            self._sources |= {source.id: source for source in sources_of(event.data) if source.is_url}
            yield self._of(event.call_id, "response.mcp_call.completed")
            yield from self._close(event.call_id)

    def _finish(self, event: RunEnded) -> Iterator[JsonObject]:
        result = event.result
        if result.status == "suspended":
            notice = Piece(self._root_id, "text", f"{self._root_id}:waits", "start")
            text = waiting_text(event)
            for phase in ("start", "delta", "end"):
                yield from self._content(Piece(self._root_id, "text", notice.id, phase, text))
        for id, (_, item) in self._by_id.items():
            if item["status"] == "in_progress":  # a call that waits
                yield from self._close(id, "incomplete")
        tokens, _ = tokens_of(result.usage)
        self.response["usage"] = {
            "input_tokens": tokens.prompt,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.completion,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.total,
        }
        void = [self._by_id[id][1] for id in self._void]
        self.response["output"] = [item for item in self._items if item not in void]
        self.response["status"] = status = _STATUS.get(result.status, "cancelled")
        if status == "incomplete":
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}
        elif status != "completed":
            message = failure_of(result) if status == "failed" else "the run was stopped"
            self.response["error"] = {"code": "server_error", "message": message}
        kind = "failed" if status == "cancelled" else status
        yield self._event(f"response.{kind}", response=dict(self.response))

    # -- items ---------------------------------------------------------------------------------------------------

    def _open(self, key: str, id: str, kind: str, fields: JsonObject) -> Iterator[JsonObject]:
        item = {"id": f"{id}_{self._root_id}", "type": kind, "status": "in_progress", **fields}
        index = len(self._items)
        self._items.append(item)
        self._by_id[key] = (index, item)
        yield self._event("response.output_item.added", output_index=index, item=dict(item))

    def _close(self, key: str, status: str = "completed") -> Iterator[JsonObject]:
        index, item = self._by_id[key]
        item["status"] = status
        yield self._event("response.output_item.done", output_index=index, item=dict(item))

    def _of(self, key: str, kind: str, **fields: Any) -> JsonObject:
        index, item = self._by_id[key]
        return self._event(kind, item_id=item["id"], output_index=index, **fields)

    def _event(self, kind: str, **fields: Any) -> JsonObject:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}


def response_id(run_id: str) -> str:
    """Return the id of the response of a run."""
    return f"resp_{run_id}"


def run_of_response(id: str) -> str:
    """Return the id of the run of a response."""
    return id.removeprefix("resp_")
