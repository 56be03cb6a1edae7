"""The UI message stream of the AI SDK: chunks that its versions 5, 6 and 7 read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from ...events import (
    CallWaiting,
    CustomEvent,
    Notice,
    PartialOutput,
    RunEnded,
    RunEvent,
    RunProgress,
    RunStarted,
    Steered,
    StepStarted,
    ToolDone,
    ToolFailed,
    ToolProgress,
    ToolStreamed,
)
from ...runtime.question import link_of
from ...waits import Wait, is_denial
from .log_pieces import Piece
from .turn_stream import TurnStream
from .ui_message import UIMessageBuilder
from .values import JsonObject, address_of, arguments_of, failure_of, output_of, sources_of, tokens_of

LEAST_GROWTH = 80
"""Characters that a preview grows before it is sent again, and at least an eighth: so all previews of a text together
have at most nine times its length."""


class AISDKStream(TurnStream):
    """Maps the log of one turn to chunks. It is a function of the log: every reader gets the same message.

    A sub-agent's work is the preliminary output of the call that it works on: a message that grows. *approvals* is
    False for version 5, which does not know the chunks of approvals.
    """

    def __init__(self, root_id: str, *, approvals: bool = True) -> None:
        super().__init__(root_id)
        self._approvals = approvals
        self._runs: dict[str, _Preview] = {}
        """The sub-agents, by run."""
        self._agents: dict[str, JsonObject] = {}
        self._previews: dict[str, _Preview] = {}
        """By call."""
        self._asked: set[str] = set()
        self._streamed: dict[str, _Growth] = {}
        self._step_open = False

    def start(self) -> JsonObject:
        """Return the first chunk. The id of the message is that of the turn, also when the answer continues."""
        return {"type": "start", "messageId": self._root_id, "messageMetadata": {"runId": self._root_id}}

    def take(self, number: int, event: RunEvent) -> Iterator[JsonObject]:
        """Yield the chunks of the event with this number."""
        for item in self._pieces.take(number, event):
            if isinstance(item, RunStarted):
                yield from self._begin(item)
            elif isinstance(item, RunEnded) and item.run_id == self._root_id:
                yield from self._finish(item)
            elif isinstance(item, CallWaiting):
                yield from self._wait(item)
            else:
                for chunk in self._chunks(item):
                    yield from self._send(item.run_id, chunk)

    # -- sub-agents ----------------------------------------------------------------------------------------------

    def _begin(self, event: RunStarted) -> Iterator[JsonObject]:
        parent = self._parent(event)
        if event.run_id == self._root_id or event.run_id in self._runs:
            return
        call = self._call_id(parent, event.parent_call or event.run_id)
        if call not in self._previews:
            self._previews[call] = _Preview(parent, call)
        self._runs[event.run_id] = self._previews[call]
        if event.parent_call is None:  # a hook has started it: it gets a call of its own
            opened = {"toolCallId": call, "toolName": event.agent}
            yield from self._send(parent, {"type": "tool-input-start", **opened})
            yield from self._send(parent, {"type": "tool-input-available", **opened, "input": {"task": event.task}})
        data = {"agent": event.agent, "path": event.agent_path, "task": event.task, "status": "running"}
        self._agents[event.run_id] = data
        yield from self._send(event.run_id, {"type": "data-agent", "id": event.run_id, "data": data})

    def _send(self, run_id: str, chunk: JsonObject, *, now: bool = False) -> Iterator[JsonObject]:
        """Yield *chunk* of the root, or what the growing message of a sub-agent makes of it."""
        preview = self._runs.get(run_id)
        if preview is None:
            yield chunk
            return
        preview.builder.apply(chunk)
        if preview.growth.add(len(chunk.get("delta", "")) or LEAST_GROWTH // 4) or now:
            yield from self._send(preview.parent, preview.chunk(preliminary=True), now=now)

    # -- events --------------------------------------------------------------------------------------------------

    def _chunks(self, item: Piece | RunEvent) -> Iterator[JsonObject]:  # noqa: C901, PLR0912 - one case per event
        match item:
            case Piece(kind="call"):
                yield from self._call(item)
            case Piece(kind="media"):
                assert item.media is not None
                yield {"type": "file", "mediaType": item.media.media_type, "url": address_of(item.media)}
            case Piece():
                if item.run_id != self._root_id or item.audience == "answer":
                    yield _text(item)
            case StepStarted():
                if self._step_open and item.run_id == self._root_id:
                    yield {"type": "finish-step"}
                self._step_open |= item.run_id == self._root_id
                yield {"type": "start-step"}
            case ToolStreamed():
                yield from self._stream(item)
            case ToolDone() | ToolFailed():
                yield from self._result(item)
            case ToolProgress():
                call = self._call_id(item.run_id, item.call_id)
                data = {**item.step, "toolCallId": call}
                yield {"type": "data-progress", "id": f"{call}:{item.step.get('id')}", "data": data}
            case RunProgress():
                yield {"type": "data-progress", "id": f"{item.run_id}:{item.step.get('id')}", "data": item.step}
            case PartialOutput():
                yield {"type": "data-output", "id": item.run_id, "data": item.value}
            case CustomEvent():
                yield {"type": f"data-{item.name}", "data": item.data}
            case Notice():
                yield {"type": "data-notice", "data": {"code": item.code, "text": item.text}}
            case Steered():
                yield {"type": "data-steering", "data": {"text": item.text}}
            case RunEnded():
                data = {**self._agents.get(item.run_id, {}), "status": item.result.status}
                yield {"type": "data-agent", "id": item.run_id, "data": data}
            case _:
                pass

    def _call(self, piece: Piece) -> Iterator[JsonObject]:
        id = self._call_id(piece.run_id, piece.id)
        call = {"toolCallId": id, "toolName": piece.name}
        match piece.phase:
            case "start":
                yield {"type": "tool-input-start", **call}
            case "delta":
                yield {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": piece.text}
            case "end":
                arguments = arguments_of(piece.text)
                if arguments is None:
                    failed = {"input": piece.text, "errorText": "the arguments are not JSON"}
                    yield {"type": "tool-input-error", **call, **failed}
                else:
                    yield {"type": "tool-input-available", **call, "input": arguments}
            case "void":
                yield {"type": "tool-output-error", "toolCallId": id, "errorText": "the call was discarded"}
            case _:
                assert_never(piece.phase)

    def _stream(self, event: ToolStreamed) -> Iterator[JsonObject]:
        id = self._call_id(event.run_id, event.call_id)
        growth = self._streamed.setdefault(id, _Growth())
        growth.text += event.content
        if growth.add(len(event.content)):
            yield {"type": "tool-output-available", "toolCallId": id, "output": growth.text, "preliminary": True}

    def _result(self, event: ToolDone | ToolFailed) -> Iterator[JsonObject]:
        id = self._call_id(event.run_id, event.call_id)
        preview = self._previews.pop(id, None)
        if isinstance(event, ToolFailed):
            if self._approvals and id in self._asked and is_denial(event.error):
                yield {"type": "tool-output-denied", "toolCallId": id}
            else:
                yield {"type": "tool-output-error", "toolCallId": id, "errorText": event.error}
            return
        if preview is not None:
            preview.builder.message["metadata"] = {"content": event.content, "data": event.data}
            yield preview.chunk()
        elif event.data is None and not event.media:
            yield {"type": "tool-output-available", "toolCallId": id, "output": event.content}
        else:
            media = [
                {"mediaType": each.media_type, "name": each.name, "digest": each.digest, "runId": event.run_id}
                for each in event.media
            ]
            output = {"content": event.content, "data": event.data, "media": media}
            yield {"type": "tool-output-available", "toolCallId": id, "output": output}
        for source in sources_of(event.data):
            if source.is_url:
                yield {"type": "source-url", "sourceId": source.id, "url": source.location, "title": source.title}
            else:
                named = {"title": source.title, "filename": source.location}
                yield {"type": "source-document", "sourceId": source.id, "mediaType": "text/plain", **named}

    # -- waits and the end ---------------------------------------------------------------------------------------

    def _wait(self, event: CallWaiting) -> Iterator[JsonObject]:
        """Ask for an approval: where the call is, and on the root's call above it, which the client can answer."""
        if event.kind != "approval":
            if url := link_of(event.name, event.arguments):
                yield {"type": "data-link", "id": event.key, "data": {"key": event.key, "note": event.note, "url": url}}
            return
        shown = {"key": event.key, "tool": event.name, "agent": event.agent_path, "note": event.note}
        data = {**shown, "input": arguments_of(event.arguments), "who": list(event.who)}
        yield {"type": "data-approval", "id": event.key, "data": data}
        yield from self._ask(event.run_id, event.call_id, event.key)

    def _ask(self, run_id: str, call_id: str, key: str) -> Iterator[JsonObject]:
        id = self._call_id(run_id, call_id)
        self._asked.add(id)
        preview = self._runs.get(run_id)
        if preview is not None:
            yield from self._send(run_id, _request(id, key), now=True)
        while preview is not None:
            id, preview = preview.call, self._runs.get(preview.parent)
        if self._approvals:
            yield _request(id, key)

    def _finish(self, event: RunEnded) -> Iterator[JsonObject]:
        result = event.result
        if result.output is not None:
            yield {"type": "data-output", "id": self._root_id, "data": output_of(result)}
        if self._step_open:
            self._step_open = False
            yield {"type": "finish-step"}
        if result.status == "suspended":
            for wait in result.waiting:
                yield from self._ask_again(wait)
        if result.status == "failed":
            yield {"type": "error", "errorText": failure_of(result)}
            return
        if result.status == "cancelled":
            yield {"type": "abort"}
        if result.status == "limited":
            yield {"type": "data-notice", "data": {"code": "limit_reached", "text": failure_of(result)}}
        tokens, cost = tokens_of(result.usage)
        usage = {
            "inputTokens": tokens.prompt,
            "outputTokens": tokens.completion,
            "totalTokens": tokens.total,
            "reasoningTokens": tokens.reasoning,
            "cachedInputTokens": tokens.cached,
        }
        metadata = {"status": result.status, "usage": usage, "cost": None if cost is None else str(cost)}
        reasons = {"completed": "stop", "limited": "length", "suspended": "tool-calls"}
        yield {"type": "finish", "finishReason": reasons.get(result.status, "other"), "messageMetadata": metadata}

    def _ask_again(self, wait: Wait) -> Iterator[JsonObject]:
        """Ask once more at the end: of several waits below one call, the client shows the last one only."""
        if wait.kind == "approval":
            yield from self._ask(wait.run_id, wait.call_id, wait.key)


class _Growth:
    """Decides when a growing text is sent again."""

    def __init__(self) -> None:
        self.text = ""
        self._size = self._sent = 0

    def add(self, size: int) -> bool:
        self._size += size
        if self._size - self._sent < max(LEAST_GROWTH, self._size // 8):
            return False
        self._sent = self._size
        return True


class _Preview:
    """The work of the sub-agents below one call, as a message."""

    def __init__(self, parent: str, call: str) -> None:
        self.parent = parent
        """The run of the call."""
        self.call = call
        self.builder = UIMessageBuilder(call)
        self.growth = _Growth()

    def chunk(self, *, preliminary: bool = False) -> JsonObject:
        chunk = {"type": "tool-output-available", "toolCallId": self.call, "output": self.builder.message}
        return {**chunk, "preliminary": True} if preliminary else chunk


def _text(piece: Piece) -> JsonObject:
    if piece.phase == "void":
        return {"type": "data-void", "id": piece.id, "data": {"part": piece.id}}
    chunk = {"type": f"{piece.kind}-{piece.phase}", "id": piece.id}
    return {**chunk, "delta": piece.text} if piece.phase == "delta" else chunk


def _request(call: str, key: str) -> JsonObject:
    return {"type": "tool-approval-request", "approvalId": key, "toolCallId": call}
