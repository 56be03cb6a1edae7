"""The route of AG-UI: one endpoint that starts a run, or resumes an interrupted one."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from ...events import Voided
from ...orchestrator.chat import Chat
from ...runtime import Conversation, ConversationTurn, Runtime
from ...scope import Scope
from ...waits import Wait
from ..event_source import until_failure
from .ag_ui_stream import AGUIStream, received
from .http import (
    BROKEN_OFF,
    ProtocolRoute,
    agents_of,
    body_of,
    check_streams,
    event_stream,
    first_agent,
    objects,
    scope_of,
    text_field,
)
from .turn_log import TurnEvents, WaitAnswer, give, send, turn_log, waits_of
from .values import BadInputError, JsonObject, media_of


def routes(runtime: Runtime, *, agent: str | None = None) -> list[BaseRoute]:
    """Return the routes, to be mounted under `/agui`: one per agent, and `/` for *agent*, by default the first."""

    async def run(request: Request) -> Response:
        named = request.path_params.get("agent") or agent or first_agent(request, runtime)
        if named != agent and named not in agents_of(request, runtime):
            raise HTTPException(404, f"there is no agent {named!r:.80}")
        return await _run(runtime, request, named)

    return [ProtocolRoute(path, run, _error, methods=["POST"]) for path in ("/", "/{agent}")]


def _error(_: Exception, status: int, text: str) -> Response:
    return JSONResponse({"message": text}, status)


async def _run(runtime: Runtime, request: Request, agent: str) -> Response:
    body, scope = await body_of(request), scope_of(request)
    check_streams(request)
    thread_id, run_id, messages = text_field(body, "threadId"), text_field(body, "runId"), objects(body, "messages")
    for message in messages:
        text_field(message, "id", ""), text_field(message, "toolCallId", "")
    answered = bool(messages) and messages[-1].get("role") in ("assistant", "reasoning", "tool")
    entries = objects(body, "resume")
    chat = None if entries or answered else _chat(messages)
    conversation = await runtime.conversation(scope, thread_id, agent=agent)
    answers: list[WaitAnswer] = []
    if chat is not None:
        turn = await send(conversation, chat, run_id)
    elif entries:
        turn, answers = await _resumed(runtime, scope, conversation, entries)
    else:
        turn, answers = await _continued(runtime, scope, conversation, messages)
    for answer in answers:
        await give(runtime, scope, answer)
    keys = tuple([each.wait.key for each in answers])
    stream = AGUIStream(turn.id, thread_id, run_id, messages)
    earlier = _Earlier(conversation, turn, messages if chat is not None else ())
    # Its clients learn of waits at a suspension only.
    return event_stream(request, _events(stream, turn_log(turn, keys, suspended=True), earlier))


class _Earlier:
    """The messages that the client of a new turn has of the turn before it."""

    def __init__(self, conversation: Conversation, turn: ConversationTurn, messages: Sequence[JsonObject]) -> None:
        self._conversation, self._turn = conversation, turn
        self._messages = messages

    async def void(self) -> list[str]:
        """Return the ids of messages of an attempt that a crash has interrupted while the client was not there."""
        parent = (await self._turn.read()).parent
        held = [id for id in received(self._messages[:-1], parent) if id.startswith(f"{parent}:")] if parent else []
        if not held:
            return []
        stream, crashed = AGUIStream(parent, "", ""), False
        async for number, event in (await self._conversation.turn(parent)).events(until="suspended"):
            crashed = crashed or isinstance(event, Voided)
            for _ in stream.take(number, event):
                pass
        return [id for id in held if id not in stream.messages] if crashed else []


async def _events(
    stream: AGUIStream, log: AsyncGenerator[TurnEvents, None], earlier: _Earlier
) -> AsyncGenerator[list[JsonObject], None]:
    yield [stream.start()]
    begun = ended = False
    async with until_failure(log):
        async for batch in log:
            found: list[JsonObject] = []
            for number, event, new in batch:
                if new and not begun:
                    begun = True
                    found += stream.begin(await earlier.void())
                mapped = list(stream.take(number, event))
                found += mapped if new else ()
            if found:
                ended = found[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
                yield found
    if not ended:  # the client does not notice a stream that just ends
        yield [{"type": "RUN_ERROR", "message": BROKEN_OFF, "code": "broken_off"}]


async def _resumed(
    runtime: Runtime, scope: Scope, conversation: Conversation, entries: Sequence[JsonObject]
) -> tuple[ConversationTurn, list[WaitAnswer]]:
    """Return the turn that the entries of `resume` belong to, and the answers in them."""
    wait = await runtime.store.wait(scope, text_field(entries[0], "interruptId"))
    turn = await conversation.turn(wait.root_id if wait is not None else "")
    waits = {wait.key: wait for wait in await waits_of(runtime, scope, turn)}
    answers = []
    for entry in entries:
        known = waits.get(text_field(entry, "interruptId"))
        if known is None:
            raise BadInputError(f"this thread has no interrupt {entry['interruptId']!r}")
        answers.append(_answer(known, entry))
    return turn, answers


def _answer(wait: Wait, entry: JsonObject) -> WaitAnswer:
    resolved, payload = entry.get("status") == "resolved", entry.get("payload")
    if wait.kind == "result":
        content = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        return WaitAnswer(wait, resolved, content if resolved else "cancelled by the user")
    fields: dict[str, Any] = payload if isinstance(payload, dict) else {"approved": payload}
    approved = resolved and fields.get("approved") is True
    edited, reason = fields.get("editedArgs"), fields.get("reason")
    if edited is not None and not isinstance(edited, dict):
        raise BadInputError("'editedArgs' is not an object")
    return WaitAnswer(wait, approved, reason if isinstance(reason, str) else "", edited if approved else None)


async def _continued(
    runtime: Runtime, scope: Scope, conversation: Conversation, messages: Sequence[JsonObject]
) -> tuple[ConversationTurn, list[WaitAnswer]]:
    """Return the last turn, of which the client has messages, and the results of the client's tools among them.

    Without results, the client has lost its connection, and continues with the messages that it has received.
    """
    turn = await conversation.turn((await conversation.read()).leaf)
    waits = {
        wait.call_id: wait
        for wait in await waits_of(runtime, scope, turn)
        if wait.kind == "result" and wait.run_id == turn.id
    }
    results = [each for each in messages if each.get("role") == "tool"]
    answers = []
    for result in results:
        wait = waits.get(text_field(result, "toolCallId"))
        if wait is not None:
            failed = isinstance(result.get("error"), str)
            answers.append(WaitAnswer(wait, not failed, result["error"] if failed else _text(result.get("content"))))
    if not answers and not received(messages, turn.id):
        raise BadInputError(
            "no call of this thread waits for these results"
            if results
            else "the last message must be the user's, or of the thread's last turn"
        )
    return turn, answers


def _chat(messages: Sequence[JsonObject]) -> Chat:
    """Return the text and the media of the last message. Everything before it is the conversation's own."""
    if not messages or messages[-1].get("role") != "user":
        raise BadInputError("the last message must be the user's")
    content = messages[-1].get("content")
    media = []
    for part in content if isinstance(content, list) else ():
        source = part.get("source") if isinstance(part, dict) else None
        if isinstance(source, dict):
            value, kind = text_field(source, "value"), text_field(source, "mimeType", "")
            media.append(media_of(value if source.get("type") == "url" else f"data:{kind};base64,{value}", kind))
    return Chat(_text(content), media=media)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n\n".join(
        text_field(part, "text") for part in parts if isinstance(part, dict) and part.get("type") == "text"
    )
