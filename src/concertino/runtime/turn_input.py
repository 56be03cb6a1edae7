"""The input of a turn: the chat as JSON, for a queue and for a turn that is asked again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ..errors import ConfigurationError, DamagedDataError, ErasedError
from ..messages import Media, Message, UserMessage
from ..orchestrator.chat import Attachment, Chat
from ..orchestrator.journal.entries import Started, message_of
from ..orchestrator.journal.replay import started_of
from ..providers.base import model_id
from ..scope import Scope
from ..storage.codec import decode_message, encode_message
from ..storage.types import Budget, StoredJournal
from .checks import check_text

_PLAIN = ("message", "system_prompt", "personalization", "project_rules", "chatbot_id")
_TEXTS = (*_PLAIN[:1], *_PLAIN[2:4])
_SWITCHES = ("send_tools", "memory_enabled", "personalization_enabled")
_FILES = ("attachments", "project_attachments")
_OF_THE_CONVERSATION = ("history", "context", "summary", "scope", "conversation_id", "turn")
"""Fields that the conversation sets."""
_DEFAULTS = Chat()


def check_input(chat: Chat) -> None:
    """Raise `ConfigurationError` if *chat* sets what the conversation determines, or has no valid message."""
    if not isinstance(chat, Chat):
        raise ConfigurationError(f"invalid message of type {type(chat).__name__}: use text or a Chat")
    check_text(**{name: value for name in _PLAIN if (value := getattr(chat, name)) is not None or name in _TEXTS})
    if not chat.message.strip():
        raise ConfigurationError("the message is empty: give the conversation a text")
    for name in _OF_THE_CONVERSATION:
        if getattr(chat, name) != getattr(_DEFAULTS, name):
            raise ConfigurationError(f"Chat({name}=...) is set by the conversation: leave it out")


def encode_input(chat: Chat) -> dict[str, Any]:
    """Return *chat* as JSON, without what the conversation sets. A model is stored by its id."""
    model, budget = chat.model, chat.budget
    written: dict[str, Any] = {name: getattr(chat, name) for name in _PLAIN}
    written["model"] = model if model is None or isinstance(model, str) else model_id(model)
    written["memories"] = list(chat.memories)
    written["off"] = [name for name in _SWITCHES if not getattr(chat, name)]
    for name in _FILES:
        written[name] = [[file.name, file.description] for file in getattr(chat, name)]
    written["few_shot"] = [
        [name, [encode_message(message) for message in messages]] for name, messages in chat.few_shot.items()
    ]
    written["traceparent"] = chat.traceparent
    written["media"] = encode_message(UserMessage("", tuple(chat.media))) if chat.media else ""
    if budget is not None:
        written["budget"] = [budget.tokens, None if budget.money is None else str(budget.money)]
    return {name: value for name, value in written.items() if value}


def decode_input(written: dict[str, Any]) -> Chat:
    """Return the chat that `encode_input` wrote. Raises `DamagedDataError`."""
    try:
        chat = _decode(dict(written))
        check_input(chat)
    except (AttributeError, ConfigurationError, KeyError, IndexError, TypeError, ValueError, ArithmeticError) as error:
        raise DamagedDataError("the queued message is damaged: send it again") from error
    return chat


def _decode(fields: dict[str, Any]) -> Chat:
    examples = {_key_of(name): tuple(map(decode_message, texts)) for name, texts in fields.pop("few_shot", ())}
    fields |= dict.fromkeys(fields.pop("off", ()), False)
    files = {name: [Attachment(*file) for file in fields.pop(name, ())] for name in _FILES}
    budget = _budget_of(fields.pop("budget", None))
    media = _media_of(decode_message(fields.pop("media"))) if "media" in fields else ()
    return Chat(**fields | files, few_shot=examples, budget=budget, media=media)


def started_input(journal: StoredJournal, message: str) -> Chat:
    """Return the chat that a run was given, as its journal has it, with *message* if its content was erased.

    Raises `ErasedError` if *message* is empty then.
    """
    try:
        started = started_of(journal)
    except ErasedError:
        if not message:
            raise
        started = dataclasses.replace(Started.read(journal.entries[0].body, {}), message=message)
    texts, contents = journal.texts, journal.contents
    examples = {
        _key_of(name): [message_of(texts[each], contents) for each in ids if each in texts]
        for name, ids in started.few_shot
    }
    return Chat(
        started.message,
        model=started.model,
        system_prompt=started.system_prompt,
        personalization=started.personalization,
        memories=tuple(started.memories),
        project_rules=started.project_rules,
        personalization_enabled=not started.without_personalization,
        memory_enabled=not started.without_memory,
        attachments=[Attachment(*file) for file in started.attachments],
        project_attachments=[Attachment(*file) for file in started.project_attachments],
        chatbot_id=started.chatbot,
        send_tools=not started.without_tools,
        media=_media_of(message_of(texts[started.media], contents)) if started.media in texts else (),
        few_shot=examples,
        budget=_budget_of(started.budget),
    )


def _key_of(name: str | list[str]) -> str | tuple[str, ...]:
    """Return a key of the examples from its JSON form."""
    return name if isinstance(name, str) else tuple(name)


def _budget_of(limit: Sequence[Any] | None) -> Budget | None:
    if limit is None:
        return None
    return Budget(tokens=limit[0], money=None if limit[1] is None else Decimal(limit[1]))


def _media_of(message: Message) -> tuple[Media, ...]:
    return message.media if isinstance(message, UserMessage) else ()


def in_conversation(chat: Chat, scope: Scope, conversation_id: str) -> Chat:
    """Return *chat* as a chat of *scope* in a conversation."""
    return dataclasses.replace(chat, scope=scope, conversation_id=conversation_id)
