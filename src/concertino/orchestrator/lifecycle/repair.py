"""Repair of conversations, so that every provider accepts them: a result right after each call, and unique call ids.

The engine's own conversations are well-formed. A history from a product may have been cut in the middle,
joined from two, or saved while a process died.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from ...messages import AssistantMessage, Message, ToolCall, ToolMessage
from ..chat import Chat

NO_RESULT = "no result: the call was interrupted"
_LONE_RESULT = "results without a call"


def call_ids(messages: Iterable[Message]) -> set[str]:
    """Return the ids of all calls in *messages*."""
    return {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}


def repaired(chat: Chat, model: str) -> tuple[Chat, str]:
    """Return *chat* with a history and examples that every provider accepts, and a summary of the changes."""
    examples = chat.few_shot.get(model, ()) if chat.few_shot else ()
    if not examples and not chat.history:
        return chat, ""
    if _is_well_formed(chain(examples, chat.history)):
        return chat, ""
    repair = _Repair()
    few_shot = {model: repair.apply(examples)} if examples else {}
    history = repair.apply(chat.history)
    return dataclasses.replace(chat, few_shot=few_shot, history=history), repair.report() or "results out of order"


def _is_well_formed(messages: Iterable[Message]) -> bool:
    ids: set[str] = set()
    unanswered: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.call_id not in unanswered:
                return False
            unanswered.remove(message.call_id)
            continue
        if unanswered:
            return False
        if message.role == "assistant":
            if not message.parts:
                return False
            for call in message.tool_calls:
                if not call.id or call.id in ids:
                    return False
                ids.add(call.id)
                unanswered.add(call.id)
    return not unanswered


class _Repair:
    """Repairs conversations that follow one another, with ids that are unique across all of them."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._changed: Counter[str] = Counter()

    def report(self) -> str:
        """Return a summary of the changes."""
        return ", ".join(f"{what} ({count})" for what, count in self._changed.items())

    def apply(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return *messages* as a well-formed conversation."""
        found: list[Message] = []
        for index, message in enumerate(messages):
            if isinstance(message, ToolMessage):
                self._changed[_LONE_RESULT] += 1  # taken back when a call claims the result
            elif not isinstance(message, AssistantMessage):
                found.append(message)
            elif message.tool_calls:
                found += self._turn(message, _results(messages, index + 1))
            elif message.parts:
                found.append(message)
            else:
                self._changed["answers without content"] += 1
        self._changed = +self._changed
        return tuple(found)

    def _turn(self, message: AssistantMessage, results: dict[str, list[ToolMessage]]) -> list[Message]:
        parts = list(message.parts)
        answers: list[Message] = []
        for index, part in enumerate(parts):
            if isinstance(part, ToolCall):
                result = self._result(part, results)
                unique = self._unique_id(part.id)
                if unique != part.id:
                    self._changed["missing or repeated call ids"] += 1
                    parts[index] = dataclasses.replace(part, id=unique)
                    result = dataclasses.replace(result, call_id=unique)
                answers.append(result)
        return [dataclasses.replace(message, parts=tuple(parts)), *answers]

    def _result(self, call: ToolCall, results: dict[str, list[ToolMessage]]) -> ToolMessage:
        candidates = results.get(call.id)
        if candidates:
            self._changed[_LONE_RESULT] -= 1
            return candidates.pop(0)
        self._changed["calls without a result"] += 1
        return ToolMessage(call.id, call.name, NO_RESULT, is_error=True)

    def _unique_id(self, call_id: str) -> str:
        """Return *call_id*, with a number appended if an earlier call has it."""
        unique, number = call_id, 1
        while not unique or unique in self._ids:
            unique, number = f"{call_id or 'call'}-{number}", number + 1
        self._ids.add(unique)
        return unique


def _results(messages: Sequence[Message], first: int) -> dict[str, list[ToolMessage]]:
    """Return the results from index *first* up to the next calls, by call id."""
    found: dict[str, list[ToolMessage]] = {}
    for message in islice(messages, first, None):
        if isinstance(message, ToolMessage):
            found.setdefault(message.call_id, []).append(message)
        elif isinstance(message, AssistantMessage) and message.tool_calls:
            break
    return found
