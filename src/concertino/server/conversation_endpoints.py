"""Endpoints of conversations and their turns."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..messages import Media
from ..orchestrator.chat import Chat
from ..runtime import Conversation, ConversationTurn
from ..runtime.conversation_stream import Followed
from ..storage import StoredConversation
from ..storage.codec import encode_message
from .endpoint import ApiCall, Endpoints
from .event_source import EVENT_STREAM, EventSource, event_frames, is_shown, until_failure
from .forms import (
    ConversationForm,
    EditedMessage,
    EventsQuery,
    KeyHeaders,
    LeafForm,
    ListForm,
    NewConversation,
    NewFeedback,
    NewMessage,
    PageForm,
    PageQuery,
    PositionHeaders,
    PositionQuery,
    Regeneration,
    ResumeHeaders,
    SearchQuery,
    TitleChange,
    TurnForm,
)
from .frames import EventFrames, frame

Listed = TypeVar("Listed", ConversationForm, TurnForm)

conversations = Endpoints("conversations")
turns = Endpoints("turns")
_ONE = "/api/conversations/{conversation}"
_TURN = "/api/conversations/{conversation}/turns/{turn}"


@conversations("GET", "/api/conversations")
async def list_conversations(call: ApiCall, query: PageQuery) -> PageForm[ConversationForm]:
    """List the conversations, the last updated first."""
    found = await call.runtime.conversations(call.scope, query.limit, query.before)
    return page_of(ConversationForm, found, query.limit)


@conversations("POST", "/api/conversations", status=201)
async def create_conversation(call: ApiCall, body: NewConversation) -> ConversationForm:
    """Create a conversation with an agent."""
    agents = call.state.agents
    agent = body.agent or next(iter(agents), "")
    if agent not in agents:
        raise HTTPException(404, f"there is no agent {agent!r}")
    return await _form(await call.runtime.conversation(call.scope, agent=agent))


@conversations("GET", _ONE)
async def read_conversation(call: ApiCall, conversation: str) -> ConversationForm:
    """Read a conversation."""
    return await _form(await _open(call, conversation))


@conversations("PATCH", _ONE)
async def set_title(call: ApiCall, conversation: str, body: TitleChange) -> ConversationForm:
    """Replace the title."""
    found = await _open(call, conversation)
    await found.set_title(body.title)
    return await _form(found)


@conversations("POST", f"{_ONE}/title", starts=True)
async def write_title(call: ApiCall, conversation: str) -> ConversationForm:
    """Let a model write the title, once. It is empty as long as there is no answer."""
    found = await _open(call, conversation)
    await found.title()
    return await _form(found)


@conversations("DELETE", _ONE)
async def delete_conversation(call: ApiCall, conversation: str) -> None:
    """Stop what runs, and erase the conversation. The ledger stays."""
    await (await _open(call, conversation)).delete()


@conversations("GET", f"{_ONE}/export")
async def export_conversation(call: ApiCall, conversation: str) -> dict[str, Any]:
    """Return the whole conversation as one document with a version."""
    return await (await _open(call, conversation)).export()


@conversations("GET", f"{_ONE}/events", content=EVENT_STREAM)
async def follow_conversation(
    call: ApiCall, conversation: str, headers: PositionHeaders, query: PositionQuery
) -> Response:
    """Stream the conversation after each change, and the events of its turns, also from other browsers."""
    found = await _open(call, conversation)
    after = query.after if headers.last is None else headers.last
    if after:
        await found.turn(after.rpartition(":")[0])
    return event_source(call, conversation_frames(found.follow(after)))


@conversations("GET", f"{_ONE}/queue")
async def list_queue(call: ApiCall, conversation: str) -> ListForm[TurnForm]:
    """List the messages that wait for their turn."""
    found = await (await _open(call, conversation)).queue()
    return ListForm(items=[TurnForm.model_validate(each) for each in found])


@conversations("DELETE", f"{_ONE}/queue/{{turn}}")
async def withdraw(call: ApiCall, conversation: str, turn: str) -> None:
    """Remove a queued message."""
    if not await (await _open(call, conversation)).withdraw(turn):
        raise HTTPException(409, "the turn has started: stop it")


@conversations("GET", "/api/search")
async def search(call: ApiCall, query: SearchQuery) -> ListForm[TurnForm]:
    """Find the turns with all these words, the best first."""
    found = await call.runtime.search(call.scope, query.text, query.limit)
    return ListForm(items=[TurnForm.model_validate(each) for each in found])


@turns("GET", f"{_ONE}/turns")
async def list_turns(call: ApiCall, conversation: str, query: PageQuery) -> PageForm[TurnForm]:
    """List the turns of the active branch, the newest first."""
    found = await (await _open(call, conversation)).turns(query.limit, query.before)
    return page_of(TurnForm, found, query.limit)


@turns("POST", f"{_ONE}/turns", status=202, starts=True)
async def send_message(call: ApiCall, conversation: str, headers: KeyHeaders, body: NewMessage) -> TurnForm:
    """Send a message. It is recorded when the answer arrives, and is not lost from then on."""
    chat = Chat(body.text, media=await media_of(call, body.files))
    if chat.media and body.when_busy == "steer":
        raise HTTPException(409, "a message that steers is text: send the files in a message of their own")
    found = await _open(call, conversation)
    return await turn_form(await found.send(chat, key=headers.key, when_busy=body.when_busy, mode=body.mode))


@turns("GET", _TURN)
async def read_turn(call: ApiCall, conversation: str, turn: str) -> TurnForm:
    """Read a turn."""
    return await turn_form(await _turn(call, conversation, turn))


@turns("GET", f"{_TURN}/messages")
async def list_messages(call: ApiCall, conversation: str, turn: str) -> ListForm[dict[str, Any]]:
    """List the messages that a turn has added, with its tool calls and their results."""
    found = await (await _turn(call, conversation, turn)).messages()
    return ListForm(items=[json.loads(encode_message(message)) for message in found])


@turns("GET", f"{_TURN}/events", content=EVENT_STREAM)
async def follow_turn(
    call: ApiCall, conversation: str, turn: str, headers: ResumeHeaders, query: EventsQuery
) -> Response:
    """Stream the events of a turn, also of a queued one."""
    found = await _turn(call, conversation, turn)
    after = query.after if headers.last is None else headers.last
    if await is_over(call, turn, after):
        return Response(status_code=204)
    return event_source(call, event_frames(found.event_batches(after, until=query.until)))


@turns("POST", f"{_TURN}/regenerate", status=202, starts=True)
async def regenerate(call: ApiCall, conversation: str, turn: str, headers: KeyHeaders, body: Regeneration) -> TurnForm:
    """Answer the message of a turn again, as an alternative."""
    found = await _open(call, conversation)
    return await turn_form(await found.regenerate(turn, key=headers.key, when_busy=body.when_busy))


@turns("POST", f"{_TURN}/edit", status=202, starts=True)
async def edit(call: ApiCall, conversation: str, turn: str, headers: KeyHeaders, body: EditedMessage) -> TurnForm:
    """Send another message in place of a turn's, as an alternative."""
    found = await _open(call, conversation)
    return await turn_form(await found.edit(turn, body.text, key=headers.key, when_busy=body.when_busy))


@turns("POST", f"{_TURN}/branch")
async def branch(call: ApiCall, conversation: str, turn: str) -> LeafForm:
    """Let the next message follow this turn, in a new branch."""
    await (await _open(call, conversation)).branch(turn)
    return LeafForm(leaf=turn)


@turns("POST", f"{_TURN}/switch")
async def switch(call: ApiCall, conversation: str, turn: str) -> LeafForm:
    """Activate the branch of this turn, up to the newest turn below it."""
    return LeafForm(leaf=await (await _open(call, conversation)).switch(turn))


@turns("PUT", f"{_TURN}/feedback")
async def rate(call: ApiCall, conversation: str, turn: str, body: NewFeedback) -> TurnForm:
    """Replace the feedback on the answer."""
    found = await _open(call, conversation)
    await found.rate(turn, body.rating, body.text)
    return await turn_form(await found.turn(turn))


# -- shared with other endpoints ---------------------------------------------------------------------------------------


def page_of(form: type[Listed], found: Sequence[Any], limit: int) -> PageForm[Listed]:
    """Return a page of *found*; the last one has fewer items than *limit*."""
    items = [form.model_validate(each) for each in found]
    return PageForm(items=items, next=items[-1].id if len(items) == limit else None)


async def turn_form(turn: ConversationTurn) -> TurnForm:
    """Return the form of a turn as it is stored now."""
    return TurnForm.model_validate(await turn.read())


async def media_of(call: ApiCall, ids: Sequence[str]) -> list[Media]:
    """Return the contents of uploads. Raises `HTTPException` with status 404 if there is no such file."""
    made = []
    for file_id in ids:
        files = call.state.files
        found = None if files is None else await files.find(call.scope, file_id)
        if files is None or found is None:
            raise HTTPException(404, f"there is no file {file_id!r}")
        data = base64.b64encode(await files.content(call.scope, found)).decode()
        made.append(Media(found.media_type, data=data, name=found.name))
    return made


async def is_over(call: ApiCall, run_id: str, after: int) -> bool:
    """Return whether the log of a run is complete and has no event after number *after*."""
    found = await call.runtime.store.event_positions(call.scope, [run_id])
    return any(closed and last <= after for _, last, closed, _ in found)


def event_source(call: ApiCall, frames: AsyncGenerator[bytes, None]) -> EventSource:
    """Return the stream of *frames*, which counts among those of the scope."""
    return EventSource(call.request, frames, seconds=call.state.rates.limits.stream_seconds)


async def conversation_frames(followed: AsyncGenerator[Followed, None]) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a conversation: states are events of the type `conversation`, which have no position."""
    encode = EventFrames().frame
    async with until_failure(followed):
        async for position, item in followed:
            if isinstance(item, StoredConversation):
                yield frame(ConversationForm.model_validate(item).model_dump_json(), event="conversation")
            elif is_shown(item):
                yield encode(position, item)


async def _open(call: ApiCall, conversation: str) -> Conversation:
    return await call.runtime.conversation(call.scope, conversation)


async def _turn(call: ApiCall, conversation: str, turn: str) -> ConversationTurn:
    return await (await _open(call, conversation)).turn(turn)


async def _form(conversation: Conversation) -> ConversationForm:
    return ConversationForm.model_validate(await conversation.read())
