"""The export of a conversation: one JSON document with a version."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..scope import Scope
from ..storage.base import Store
from ..storage.codec import encode_message
from ..storage.conversation_types import StoredConversation, StoredTurn

Export = dict[str, Any]

EXPORT_FORMAT = "concertino-conversation"
EXPORT_VERSION = 1
"""A reader refuses a greater one. A version only gains fields."""


async def exported(store: Store, scope: Scope, conversation: StoredConversation) -> Export:
    """Return *conversation* with all its turns and their messages, as the data policy leaves them."""
    turns = await store.all_turns(scope, conversation.id)
    return {
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "id": conversation.id,
        "tenant": conversation.tenant,
        "user": conversation.user,
        "agent": conversation.agent,
        "title": conversation.title,
        "created": conversation.created,
        "updated": conversation.updated,
        "leaf": conversation.leaf,
        "modes": list(conversation.modes),
        "tools": list(conversation.tools),
        "turns": [await _turn(store, scope, turn) for turn in turns],
    }


async def _turn(store: Store, scope: Scope, turn: StoredTurn) -> Export:
    return {
        "id": turn.run_id,
        "parent": turn.parent or None,
        "state": turn.state,
        "created": turn.created,
        "mode": turn.mode,
        "message": turn.message,
        "answer": turn.answer,
        "error": turn.error,
        "feedback": None if turn.feedback is None else asdict(turn.feedback),
        "messages": [json.loads(encode_message(each.message)) for each in await store.messages(scope, turn.run_id)],
    }
