"""The events of AG-UI 1.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

from ...events import (
    CallWaiting,
    CustomEvent,
    Notice,
    PartialOutput,
    RunEnded,
    RunEvent,
    RunProgress,
    RunResult,
    RunStarted,
    Steered,
    StepStarted,
    ToolDone,
    ToolFailed,
    ToolProgress,
    ToolStreamed,
    UsageRecorded,
)
from ...usage import Tokens, UsageRecord
from ...waits import Wait
from .log_pieces import Piece
from .turn_stream import TurnStream
from .values import JsonObject, address_of, arguments_of, failure_of, output_of, sources_of

PROTOCOL_VERSION = "1.0"
_APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "all arguments of the call, in place of its own"},
        "reason": {"type": "string", "description": "why the call is denied"},
    },
    "required": ["approved"],
}


class AGUIStream(TurnStream):
    """Maps the log of one turn to the events of one AG-UI run.

    *messages* came from the client. A snapshot repeats them before the messages of the turn. It has the messages of
    an earlier stream of the turn only if the log has them.
    """

    def __init__(self, root_id: str, thread_id: str, run_id: str, messages: Sequence[JsonObject] = ()) -> None:
        super().__init__(root_id)
        self._ids = {"threadId": thread_id, "runId": run_id}
        known = {message["id"]: message for message in messages if message.get("id")}
        self._received = received(messages, root_id)
        self.messages: dict[str, JsonObject] = {id: each for id, each in known.items() if id not in self._received}
        """All messages that count, by id."""
        self._client_results = {
            each.get("toolCallId"): id for id, each in self.messages.items() if each.get("role") == "tool"
        }
        """The calls whose results the client has sent itself."""
        self._owner: dict[str, str] = {}
        """The message of each call."""
        self._working: dict[str, str] = {}
        """The sub-agents that have started, with their parents, in the order of their start."""
        self._steps: dict[str, str] = {}
        """The open step of each run."""
        self._usage: list[UsageRecord] = []

    def start(self) -> JsonObject:
        """Return the first event."""
        return {"type": "RUN_STARTED", **self._ids, "protocolVersion": PROTOCOL_VERSION}

    def begin(self, void: Iterable[str] = ()) -> Iterator[JsonObject]:
        """Take back what the client has and the log repeats, or has lost with a process that died.

        To be called after the events that the client knows. Its client would add the same text to the same message.
        *void* names messages that the client has of another turn, and that do not count.
        """
        self._received |= {id: self.messages.pop(id) for id in void}
        if lost := [each for id, each in self._received.items() if id not in self.messages]:
            yield self._snapshot(*[{**each, "content": ""} for each in lost if each.get("role") == "reasoning"])

    def take(self, number: int, event: RunEvent) -> Iterator[JsonObject]:
        """Yield the events of the event with this number."""
        for item in self._pieces.take(number, event):
            run_id = item.run_id
            for mapped in self._mapped(item):
                owned = run_id != self._root_id and "subagentRunId" not in mapped
                yield {**mapped, "subagentRunId": run_id} if owned and mapped["type"] in _OWNED else mapped

    def _mapped(self, item: Piece | RunEvent) -> Iterator[JsonObject]:  # noqa: C901, PLR0912 - one case per event
        match item:
            case Piece():
                if item.run_id != self._root_id or item.audience == "answer":
                    yield from self._piece(item)
            case RunStarted():
                yield from self._begin(item)
            case StepStarted():
                yield from self._end_step(item.run_id)
                self._steps[item.run_id] = f"step {item.step}"
                yield {"type": "STEP_STARTED", "stepName": self._steps[item.run_id]}
            case ToolDone() | ToolFailed():
                yield from self._result(item)
            case ToolProgress():
                call = self._call_id(item.run_id, item.call_id)
                step = {**item.step, "toolCallId": call}
                yield _activity(f"{call}:progress:{item.step.get('id')}", "PROGRESS", step)
            case RunProgress():
                yield _activity(f"{item.run_id}:progress:{item.step.get('id')}", "PROGRESS", item.step)
            case ToolStreamed():
                call = self._call_id(item.run_id, item.call_id)
                yield _custom("tool-output-delta", {"toolCallId": call, "delta": item.content})
            case PartialOutput(run_id=self._root_id):
                yield _state("output", item.value)
            case PartialOutput():  # the state is the root's
                yield _custom("output", item.value)
            case CustomEvent():
                yield _custom(item.name, item.data)
            case Notice():
                yield _custom("notice", {"code": item.code, "text": item.text})
            case Steered():
                yield _custom("steering", {"text": item.text})
            case UsageRecorded():
                self._usage.append(item.record)
            case RunEnded():
                yield from self._end_step(item.run_id)
                yield from self._finish(item) if item.run_id == self._root_id else self._end(item)
            case CallWaiting():
                pass  # the end of the run names the waits that are left
            case _:
                pass

    # -- pieces --------------------------------------------------------------------------------------------------

    def _piece(self, piece: Piece) -> Iterator[JsonObject]:
        match piece.kind:
            case "text":
                yield from self._text(piece)
            case "reasoning":
                yield from self._reasoning(piece)
            case "call":
                yield from self._call(piece)
            case "media":
                assert piece.media is not None
                media = {"mimeType": piece.media.media_type, "url": address_of(piece.media), "messageId": piece.attempt}
                yield _custom("media", media)
            case _:
                assert_never(piece.kind)

    def _text(self, piece: Piece) -> Iterator[JsonObject]:
        message = {"messageId": piece.id}
        match piece.phase:
            case "start":
                self._keep(piece.run_id, {"id": piece.id, "role": "assistant", "content": ""})
                yield {"type": "TEXT_MESSAGE_START", **message, "role": "assistant"}
            case "delta":
                self.messages[piece.id]["content"] += piece.text
                yield {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": piece.text}
            case "end":
                yield {"type": "TEXT_MESSAGE_END", **message}
            case "void":
                self.messages[piece.id]["content"] = ""
                yield from self._take_back(piece.id)

    def _reasoning(self, piece: Piece) -> Iterator[JsonObject]:
        message = {"messageId": piece.id}
        match piece.phase:
            case "start":
                self._keep(piece.run_id, {"id": piece.id, "role": "reasoning", "content": ""})
                yield {"type": "REASONING_START", **message}
                yield {"type": "REASONING_MESSAGE_START", **message, "role": "reasoning"}
            case "delta":
                self.messages[piece.id]["content"] += piece.text
                yield {"type": "REASONING_MESSAGE_CONTENT", **message, "delta": piece.text}
            case "end":
                yield {"type": "REASONING_MESSAGE_END", **message}
                yield {"type": "REASONING_END", **message}
            case "void":
                self.messages[piece.id]["content"] = ""
                yield from self._take_back(piece.id)

    def _call(self, piece: Piece) -> Iterator[JsonObject]:
        call = {"toolCallId": self._call_id(piece.run_id, piece.id)}
        id = call["toolCallId"]
        match piece.phase:
            case "start":
                owner = piece.attempt or id
                kept = self.messages.get(owner)
                if kept is None or kept["role"] != "assistant":
                    owner = owner if kept is None else f"{owner}:calls"
                    self._keep(piece.run_id, {"id": owner, "role": "assistant"})
                self._owner[id] = owner
                function = {"name": piece.name, "arguments": ""}
                self.messages[owner].setdefault("toolCalls", []).append(
                    {"id": id, "type": "function", "function": function}
                )
                yield {"type": "TOOL_CALL_START", **call, "toolCallName": piece.name, "parentMessageId": owner}
            case "delta":
                self._call_of(id)["function"]["arguments"] += piece.text
                yield {"type": "TOOL_CALL_ARGS", **call, "delta": piece.text}
            case "end":
                yield {"type": "TOOL_CALL_END", **call}
            case "void":
                self.messages[self._owner[id]]["toolCalls"].remove(self._call_of(id))
                yield from self._take_back(self._owner.pop(id))

    def _call_of(self, id: str) -> JsonObject:
        calls: list[JsonObject] = self.messages[self._owner[id]]["toolCalls"]
        return next(call for call in calls if call["id"] == id)

    def _keep(self, run_id: str, message: JsonObject) -> None:
        owner = {} if run_id == self._root_id else {"subagentRunId": run_id}
        self.messages[message["id"]] = {**message, **owner}

    def _take_back(self, id: str) -> Iterator[JsonObject]:
        """Remove the void parts of a message that the client has: only a snapshot of all messages can do that."""
        message = self.messages[id]
        if not message.get("toolCalls"):
            message.pop("toolCalls", None)
            if not message.get("content") and message["role"] != "reasoning":
                del self.messages[id]
        yield self._snapshot()

    def _snapshot(self, *emptied: JsonObject) -> JsonObject:
        """Return all messages. Clients keep reasoning that a snapshot lacks, so that it has void reasoning as empty."""
        return {"type": "MESSAGES_SNAPSHOT", "messages": [*self.messages.values(), *emptied]}

    def _result(self, event: ToolDone | ToolFailed) -> Iterator[JsonObject]:
        id = self._call_id(event.run_id, event.call_id)
        failed = isinstance(event, ToolFailed)
        content = event.error if isinstance(event, ToolFailed) else event.content
        message = {"id": f"{id}:result", "role": "tool", "toolCallId": id, "content": content}
        if sent := self._client_results.get(id):
            self.messages[sent] = self.messages.pop(sent)  # after the call
            return
        self._keep(event.run_id, {**message, "error": content} if failed else message)
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": message["id"],
            "toolCallId": id,
            "content": content,
            "role": "tool",
            **({"metadata": {"error": True}} if failed else {}),
        }
        for each in event.media if isinstance(event, ToolDone) else ():
            named = {"mimeType": each.media_type, "name": each.name, "digest": each.digest}
            yield _custom("media", {"toolCallId": id, "runId": event.run_id, **named})
        if isinstance(event, ToolDone) and (sources := sources_of(event.data)):
            found = [{"id": each.id, "title": each.title, "location": each.location} for each in sources]
            yield _custom("sources", {"toolCallId": id, "sources": found})

    # -- sub-agents, and the end ---------------------------------------------------------------------------------

    def _begin(self, event: RunStarted) -> Iterator[JsonObject]:
        parent = self._parent(event)
        if event.run_id == self._root_id or event.run_id in self._working:
            return
        self._working[event.run_id] = parent
        started = {"type": "SUBAGENT_STARTED", "subagentRunId": event.run_id, "name": event.agent}
        if parent != self._root_id:
            started["parentSubagentRunId"] = parent
        if event.parent_call is not None:
            started["parentToolCallId"] = self._call_id(parent, event.parent_call)
        yield {**started, "description": event.task}

    def _end(self, event: RunEnded) -> Iterator[JsonObject]:
        if self._working.pop(event.run_id, None) is None:
            return
        ended = {"subagentRunId": event.run_id}
        if event.result.status in ("failed", "cancelled"):
            yield {"type": "SUBAGENT_ERROR", **ended, "message": failure_of(event.result)}
        else:
            kind = "suspended" if event.result.status == "suspended" else "success"
            yield {"type": "SUBAGENT_FINISHED", **ended, "outcome": {"type": kind}, **_output(event.result)}

    def _end_step(self, run_id: str) -> Iterator[JsonObject]:
        if (step := self._steps.pop(run_id, None)) is not None:
            yield {"type": "STEP_FINISHED", "stepName": step}

    def _finish(self, event: RunEnded) -> Iterator[JsonObject]:
        result = event.result
        for run_id in reversed(self._working):  # cut off by a crash or a stop
            for step in self._end_step(run_id):
                yield {**step, "subagentRunId": run_id}
            yield {"type": "SUBAGENT_ERROR", "subagentRunId": run_id, "message": "the sub-agent was cut off"}
        self._working.clear()
        usage = {"usage": self._used()} if self._usage else {}
        if result.output is not None:
            yield _state("output", output_of(result))
        if result.status in ("failed", "limited"):
            yield {"type": "RUN_ERROR", "message": failure_of(result), "code": result.status, **usage}
            return
        outcome: JsonObject = {"type": "cancelled" if result.status == "cancelled" else "success"}
        if result.status == "suspended":
            yield self._snapshot()
            own = [wait for wait in result.waiting if wait.kind == "result" and wait.run_id == self._root_id]
            if interrupts := [self._interrupt(wait) for wait in result.waiting if wait not in own]:
                outcome = {"type": "interrupt", "interrupts": interrupts}
            else:
                outcome["pendingToolCallIds"] = [wait.call_id for wait in own]
        yield {"type": "RUN_FINISHED", **self._ids, "outcome": outcome, **_output(result), **usage}

    def _interrupt(self, wait: Wait) -> JsonObject:
        approval = wait.kind == "approval"
        interrupt = {
            "id": wait.key,
            "reason": "tool_call" if approval else "input_required",
            "message": wait.note or f"{wait.tool} waits",
            "toolCallId": self._call_id(wait.run_id, wait.call_id),
            "metadata": {"tool": wait.tool, "arguments": arguments_of(wait.arguments), "who": list(wait.who)},
        }
        if approval:
            interrupt["responseSchema"] = _APPROVAL
        if wait.expires is not None:
            interrupt["expiresAt"] = datetime.fromtimestamp(wait.expires, UTC).isoformat()
        return interrupt if wait.run_id == self._root_id else {**interrupt, "subagentRunId": wait.run_id}

    def _used(self) -> list[JsonObject]:
        """Return the usage since the last wait, by model. Sub-agents are included."""
        by_model: dict[tuple[str, str], Tokens] = {}
        for record in self._usage:
            key = (record.provider, record.model)
            by_model[key] = by_model.get(key, Tokens()) + record.tokens
        self._usage = []
        return [
            {
                "provider": provider,
                "model": model,
                "inputTokens": tokens.prompt,
                "outputTokens": tokens.completion,
                "totalTokens": tokens.total,
                "reasoningTokens": tokens.reasoning,
                "cachedInputTokens": tokens.cached,
                "cacheWriteInputTokens": tokens.cache_write,
            }
            for (provider, model), tokens in by_model.items()
        ]


def received(messages: Sequence[JsonObject], root_id: str) -> dict[str, JsonObject]:
    """Return those of a client's messages, by id, that an earlier stream of the turn has made."""
    found: dict[str, JsonObject] = {}
    for message in messages:
        id, call = str(message.get("id")), message.get("toolCallId")
        if message.get("role") == "user":
            found.clear()  # of an earlier turn
        elif id.startswith(f"{root_id}:") or message.get("subagentRunId") or (call and id == f"{call}:result"):
            found[id] = message
    return found


_OWNED = frozenset(
    {"STEP_STARTED", "STEP_FINISHED", "ACTIVITY_SNAPSHOT", "CUSTOM"}
    | {f"TEXT_MESSAGE_{phase}" for phase in ("START", "CONTENT", "END")}
    | {f"REASONING_MESSAGE_{phase}" for phase in ("START", "CONTENT", "END")}
    | {"REASONING_START", "REASONING_END"}
    | {f"TOOL_CALL_{phase}" for phase in ("START", "ARGS", "END", "RESULT")}
)
"""Types of events that name the sub-agent that they belong to."""


def _output(result: RunResult) -> JsonObject:
    """Return the validated answer of a run as its result."""
    return {} if result.output is None else {"result": output_of(result)}


def _custom(name: str, value: Any) -> JsonObject:
    return {"type": "CUSTOM", "name": name, "value": value}


def _activity(id: str, kind: str, content: JsonObject) -> JsonObject:
    return {"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": kind, "content": content, "replace": True}


def _state(name: str, value: Any) -> JsonObject:
    """Return a change of one member of the state, of which the client may have others."""
    return {"type": "STATE_DELTA", "delta": [{"op": "add", "path": f"/{name}", "value": value}]}
