"""Repair of conversations, so that every provider accepts them: a result right after each call, and unique call ids.

The engine's own conversations are well-formed. A history from a product may have been cut in the middle,
joined from two, or saved while a process died.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from ...messages import AssistantMessage, Message, Messages, ToolCall, ToolMessage, begins_with
from ...records import record
from ..chat import Chat

NO_RESULT = "no result: the call was interrupted"
_LONE_RESULT = "results without a call"


class EarlierCallIds:
    """The ids of the calls before a run: the first ones of a growing index. The branches of a conversation share it."""

    __slots__ = ("_count", "_index")

    def __init__(self, index: dict[object, int]) -> None:
        """Take all ids of *index*, which numbers them in the order of their addition."""
        self._index, self._count = index, len(index)

    def __contains__(self, call_id: object) -> bool:
        return self._index.get(call_id, self._count) < self._count

    def __len__(self) -> int:
        return self._count

    def index(self) -> dict[object, int]:
        """Return an index of these ids alone, to add to: the same one, unless another branch has added to it."""
        if len(self._index) == self._count:
            return self._index
        return dict(islice(self._index.items(), self._count))


@record
class CheckedHistory:
    """Messages that every provider accepts. The next run of the conversation does not check them again."""

    messages: Sequence[Message] = ()
    call_ids: EarlierCallIds | tuple[str, ...] = ()
    """The ids of all calls in the messages."""

    def known_part(self, messages: Sequence[Message]) -> tuple[int, dict[object, int]]:
        """Return how many of *messages* these are, from the first on, and an index of their calls."""
        if isinstance(self.call_ids, EarlierCallIds) and begins_with(messages, self.messages):
            return len(self.messages), self.call_ids.index()
        return 0, {}


NOTHING_CHECKED = CheckedHistory()


def call_ids(messages: Iterable[Message]) -> set[str]:
    """Return the ids of all calls in *messages*."""
    return {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}


def repaired(chat: Chat, model: str, known: CheckedHistory = NOTHING_CHECKED) -> tuple[Chat, CheckedHistory, str]:
    """Return *chat* with a history and examples that every provider accepts, both as one, and a summary of the changes.

    If they begin with the messages of *known* (the same objects), only the others are checked.
    """
    examples = chat.examples(model) if chat.few_shot else ()
    history: Sequence[Message] = chat.history if isinstance(chat.history, Messages) else tuple(chat.history)
    messages = (*examples, *history) if examples else history
    if (checked := _checked(messages, known)) is not None:
        return chat, checked, ""
    repair = _Repair()
    few_shot = {model: repair.apply(examples)} if examples else {}
    history = repair.apply(chat.history)
    chat = dataclasses.replace(chat, few_shot=few_shot, history=history)
    messages = (*few_shot.get(model, ()), *history)
    index: dict[object, int] = {call_id: number for number, call_id in enumerate(repair.call_ids)}
    return chat, CheckedHistory(messages, EarlierCallIds(index)), repair.report() or "results out of order"


def _checked(messages: Sequence[Message], known: CheckedHistory) -> CheckedHistory | None:
    """Return *messages* with the ids of their calls; None if they need repair."""
    first, ids = known.known_part(messages)
    unanswered: set[str] = set()
    for message in messages[first:] if first else messages:
        if message.role == "tool":
            if message.call_id not in unanswered:
                return None
            unanswered.remove(message.call_id)
        elif unanswered:
            return None
        elif message.role == "assistant":
            if not message.parts:
                return None
            for part in message.parts:
                if part.kind == "tool_call":
                    if not part.id or part.id in ids:
                        return None
                    ids[part.id] = len(ids)
                    unanswered.add(part.id)
    return None if unanswered else CheckedHistory(messages, EarlierCallIds(ids))


class _Repair:
    """Repairs conversations that follow one another, with ids that are unique across all of them."""

    def __init__(self) -> None:
        self.call_ids: set[str] = set()
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
        while not unique or unique in self.call_ids:
            unique, number = f"{call_id or 'call'}-{number}", number + 1
        self.call_ids.add(unique)
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
