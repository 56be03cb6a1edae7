"""The routes of the AI SDK (`useChat`): messages, approvals, client tools, regenerate, edit, resume, stop."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute

from ...ids import digest
from ...orchestrator.chat import Chat
from ...runtime import Conversation, ConversationTurn, Runtime
from ...storage import StoredTurn
from ...waits import Wait
from ..event_source import until_failure
from .ai_sdk_stream import AISDKStream
from .http import (
    BROKEN_OFF,
    ProtocolRoute,
    body_of,
    check_streams,
    event_stream,
    first_agent,
    objects,
    scope_of,
    text_field,
)
from .turn_log import TurnEvents, WaitAnswer, give, send, turn_log, waits_of
from .ui_message import UIMessageBuilder
from .values import BadInputError, JsonObject, address_of, media_of

_HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
_VERSION = "x-ai-sdk-version"
"""Header of a request with the client's major version; only version 5 must send it."""
_USER = ":user"
"""Suffix of the id of a user's message that the server returns; before it stands the id of the turn."""
_PAGE = 50
_Log = AsyncGenerator[TurnEvents, None]


def routes(runtime: Runtime, *, agent: str | None = None) -> list[BaseRoute]:
    """Return the routes, to be mounted under `/api/chat`. *agent* answers; the default is the first of the runtime."""
    chats = _Chats(runtime, agent)
    return [
        ProtocolRoute("/", chats.send, _error, methods=["POST"]),
        ProtocolRoute("/{chat}", chats.messages, _error, methods=["GET"]),
        ProtocolRoute("/{chat}/stream", chats.resume, _error, methods=["GET"]),
        ProtocolRoute("/{chat}/stop", chats.stop, _error, methods=["POST"]),
    ]


def _error(_: Exception, status: int, text: str) -> Response:
    """Return an error as a short text, which the client shows as it is."""
    return PlainTextResponse(text, status)


class _Chats:
    def __init__(self, runtime: Runtime, agent: str | None) -> None:
        self._runtime = runtime
        self._agent = agent

    async def send(self, request: Request) -> Response:
        """Answer a message; or continue a turn whose waits the client has answered."""
        body, scope = await body_of(request), scope_of(request)
        chat_id, message = text_field(body, "id"), _last(body)
        check_streams(request)
        if message.get("role") == "assistant" and body.get("trigger") != "regenerate-message":
            conversation = await self._runtime.conversation(scope, chat_id)
            turn = await conversation.turn(text_field(message, "id"))
            suspended = (await turn.read()).state == "waiting"
            answers = _answers(message, await waits_of(self._runtime, scope, turn))
            for answer in answers:
                await give(self._runtime, scope, answer)
            keys = tuple([answer.wait.key for answer in answers])
            return _streamed(request, turn, turn_log(turn, keys, suspended=suspended))
        chat = None if body.get("trigger") == "regenerate-message" else _chat(message)
        agent = self._agent or first_agent(request, self._runtime)
        conversation = await self._runtime.conversation(scope, chat_id, agent=agent)
        turn = await self._sent(conversation, body, chat, text_field(message, "id", ""))
        return _streamed(request, turn, turn_log(turn))

    async def messages(self, request: Request) -> Response:
        """Return the messages of the active branch, for `useChat({messages})`. `?before=` is a turn's id."""
        conversation = await self._runtime.conversation(scope_of(request), request.path_params["chat"])
        turns = await conversation.turns(limit=_PAGE, before=request.query_params.get("before"))
        found = [message for stored in reversed(turns) for message in await self._of_turn(conversation, stored)]
        return JSONResponse({"id": conversation.id, "messages": found, "more": len(turns) == _PAGE})

    async def resume(self, request: Request) -> Response:
        """Stream the turn in progress from its start; 204 without a turn in progress."""
        conversation = await self._runtime.conversation(scope_of(request), request.path_params["chat"])
        turn = await _in_progress(conversation)
        return Response(status_code=204) if turn is None else _streamed(request, turn, turn_log(turn))

    async def stop(self, request: Request) -> Response:
        """Stop the turn in progress, in whichever process it runs."""
        conversation = await self._runtime.conversation(scope_of(request), request.path_params["chat"])
        turn = await _in_progress(conversation)
        if turn is not None:
            await turn.stop()
        return JSONResponse({"success": turn is not None})

    # -- messages ------------------------------------------------------------------------------------------------

    async def _sent(self, conversation: Conversation, body: JsonObject, chat: Chat | None, id: str) -> ConversationTurn:
        """Send, edit, or regenerate without a *chat*. A message that is sent twice is one turn.

        Another answer in place of a turn's stops the turn in progress: the client has left it.
        """
        target = body.get("messageId")
        if chat is None:
            turns = await conversation.turns(limit=1)
            turn_id = target.removesuffix(_USER) if isinstance(target, str) else turns[0].run_id if turns else ""
            return await conversation.regenerate(turn_id, when_busy="interrupt")
        if not isinstance(target, str):
            return await send(conversation, chat, id)
        edited = await self._edited(conversation, body, target)
        key = f"{id}:{digest(repr((chat.message, [each.digest or each.url for each in chat.media])))}"
        return await conversation.edit(edited, chat, key=key, when_busy="interrupt")

    async def _edited(self, conversation: Conversation, body: JsonObject, target: str) -> str:
        """Return the turn whose message is edited: by its id, or as the one after the last answer before it."""
        if target.endswith(_USER):
            return target.removesuffix(_USER)
        answers = [each.get("id") for each in objects(body, "messages")[:-1] if each.get("role") == "assistant"]
        parent, before = (answers[-1] if answers else ""), None
        while turns := await conversation.turns(limit=_PAGE, before=before):
            for stored in turns:
                if stored.parent == parent:
                    return stored.run_id
            before = turns[-1].run_id
        raise BadInputError(f"there is no message {target!r} to edit")

    async def _of_turn(self, conversation: Conversation, stored: StoredTurn) -> list[JsonObject]:
        """Return a turn as the messages of its user and of its agent."""
        question: JsonObject = {"id": stored.run_id + _USER, "role": "user", "parts": []}
        if stored.message:
            question["parts"].append({"type": "text", "text": stored.message})
        if stored.state == "queued":
            return [question]
        turn = await conversation.turn(stored.run_id)
        for message in (await turn.messages())[:1]:
            for media in getattr(message, "media", ()):
                file = {"type": "file", "mediaType": media.media_type, "url": address_of(media)}
                question["parts"].append({**file, **({"filename": media.name} if media.name else {})})
        if stored.state == "running":
            return [question]  # the client resumes the stream
        stream, builder = AISDKStream(stored.run_id), UIMessageBuilder(stored.run_id)
        builder.apply(stream.start())
        async with aclosing(turn.events(until="suspended")) as events:
            async for number, event in events:
                for chunk in stream.take(number, event):
                    builder.apply(chunk)
        return [question, builder.message]


def _streamed(request: Request, turn: ConversationTurn, log: _Log) -> Response:
    stream = AISDKStream(turn.id, approvals=request.headers.get(_VERSION) != "5")
    return event_stream(request, _chunks(stream, log), _HEADERS)


async def _chunks(stream: AISDKStream, log: _Log) -> AsyncGenerator[Sequence[JsonObject | str], None]:
    yield [stream.start()]
    ended = False
    async with until_failure(log):
        async for batch in log:
            if found := [chunk for number, event, new in batch for chunk in stream.take(number, event) if new]:
                ended = found[-1]["type"] in ("finish", "error")
                yield found
    if not ended:  # the client would take the message for complete
        yield [{"type": "error", "errorText": BROKEN_OFF}]
    yield ["[DONE]"]


async def _in_progress(conversation: Conversation) -> ConversationTurn | None:
    """Return the turn that runs, or the first one in the queue; a turn that waits for an answer has no stream."""
    busy = (await conversation.read()).busy
    if not busy:
        return None
    turn = await conversation.turn(busy)
    return turn if (await turn.read()).state in ("running", "queued") else None


def _last(body: JsonObject) -> JsonObject:
    """Return the last message: clients send all of them, or only this one."""
    messages = objects(body, "messages")
    message = body.get("message") or (messages[-1] if messages else None)
    if not isinstance(message, dict):
        raise BadInputError("'messages' is missing")
    return message


def _chat(message: JsonObject) -> Chat:
    """Return the text and the files of a user's message. Everything else in it belongs to the client."""
    if message.get("role") != "user":
        raise BadInputError("the last message must be the user's")
    texts, media = [], []
    for part in objects(message, "parts"):
        if part.get("type") == "text":
            texts.append(text_field(part, "text"))
        elif part.get("type") == "file":
            url = text_field(part, "url")
            media.append(media_of(url, text_field(part, "mediaType", ""), text_field(part, "filename", "")))
    return Chat("\n\n".join(texts), media=media)


def _answers(message: JsonObject, waits: list[Wait]) -> list[WaitAnswer]:
    """Return the answers in a message of the agent. Only the verdicts count: the arguments are those of the store."""
    by_key = {wait.key: wait for wait in waits if wait.kind == "approval"}
    by_call = {wait.call_id: wait for wait in waits if wait.kind == "result" and wait.run_id == wait.root_id}
    found = []
    for part in objects(message, "parts"):
        approval, state = part.get("approval"), part.get("state")
        approval = approval if isinstance(approval, dict) else {}
        wait = by_key.get(str(approval.get("id")))
        if wait is not None and state == "approval-responded":
            reason = approval.get("reason")
            found.append(WaitAnswer(wait, approval.get("approved") is True, reason if isinstance(reason, str) else ""))
        wait = by_call.get(str(part.get("toolCallId")))
        if wait is not None and state in ("output-available", "output-error"):
            output = part.get("errorText") if state == "output-error" else part.get("output")
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            found.append(WaitAnswer(wait, state == "output-available", text))
    if not found:
        raise BadInputError("the message answers no call that waits")
    return found
