"""A conversation as every provider takes it: each call has one result right behind it, and an id of its own.

The engine's own conversations are so. A product's need not be: one that was cut in the middle, put together from two,
or kept while a process died.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from ...messages import AssistantMessage, Message, ToolCall, ToolMessage
from ..chat import Chat

NO_RESULT = "no result: the call was interrupted"


def call_ids(messages: Iterable[Message]) -> set[str]:
    """The ids of all calls in *messages*."""
    return {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}


def repaired(chat: Chat, model: str) -> tuple[Chat, str]:
    """Return *chat* with a history and examples that every provider accepts, and a list of the changes."""
    examples = chat.few_shot.get(model, ()) if chat.few_shot else ()
    if not examples and not chat.history:
        return chat, ""
    if _is_well_formed(chain(examples, chat.history)):
        return chat, ""
    mending = _Mending()
    few_shot = {model: mending.mend(examples)} if examples else {}
    history = mending.mend(chat.history)
    return dataclasses.replace(chat, few_shot=few_shot, history=history), mending.words() or "results out of place"


def _is_well_formed(messages: Iterable[Message]) -> bool:
    ids: set[str] = set()
    unanswered: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in unanswered:
                return False
            unanswered.remove(message.call_id)
            continue
        if unanswered:
            return False
        if isinstance(message, AssistantMessage):
            if not message.parts:
                return False
            for call in message.tool_calls:
                if not call.id or call.id in ids:
                    return False
                ids.add(call.id)
                unanswered.add(call.id)
    return not unanswered


class _Mending:
    """Makes conversations well-formed that are to stand one after the other."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._changed: Counter[str] = Counter()

    def words(self) -> str:
        """What was changed."""
        return ", ".join(f"{what} ({count})" for what, count in self._changed.items())

    def mend(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """*messages*, well-formed."""
        found: list[Message] = []
        for place, message in enumerate(messages):
            if isinstance(message, ToolMessage):
                self._changed["results without a call"] += 1  # or it is taken, and this back, when its call is seen
            elif not isinstance(message, AssistantMessage):
                found.append(message)
            elif message.tool_calls:
                found += self._turn(message, _results(messages, place + 1))
            elif message.parts:
                found.append(message)
            else:
                self._changed["answers without content"] += 1
        self._changed = +self._changed
        return tuple(found)

    def _turn(self, message: AssistantMessage, results: dict[str, list[ToolMessage]]) -> list[Message]:
        parts = list(message.parts)
        answers: list[Message] = []
        for at, part in enumerate(parts):
            if isinstance(part, ToolCall):
                result = self._result(part, results)
                own = self._own_id(part.id)
                if own != part.id:
                    self._changed["ids that are no call's own"] += 1
                    parts[at] = dataclasses.replace(part, id=own)
                    result = dataclasses.replace(result, call_id=own)
                answers.append(result)
        return [dataclasses.replace(message, parts=tuple(parts)), *answers]

    def _result(self, call: ToolCall, results: dict[str, list[ToolMessage]]) -> ToolMessage:
        given = results.get(call.id)
        if given:
            self._changed["results without a call"] -= 1
            return given.pop(0)
        self._changed["calls without a result"] += 1
        return ToolMessage(call.id, call.name, NO_RESULT, is_error=True)

    def _own_id(self, call_id: str) -> str:
        """*call_id*, or the first like it that no call has yet."""
        own, number = call_id, 1
        while not own or own in self._ids:
            own, number = f"{call_id or 'call'}-{number}", number + 1
        self._ids.add(own)
        return own


def _results(messages: Sequence[Message], first: int) -> dict[str, list[ToolMessage]]:
    """The results from place *first* up to the next calls, by id."""
    found: dict[str, list[ToolMessage]] = {}
    for message in islice(messages, first, None):
        if isinstance(message, ToolMessage):
            found.setdefault(message.call_id, []).append(message)
        elif isinstance(message, AssistantMessage) and message.tool_calls:
            break
    return found
