"""Messages of a record that are out of view and were not read: they are read when one of them is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from .messages import Message, Messages, SystemMessage
from .records import record

UNREAD = SystemMessage("")
"""Stands for a message that was not read: this very object."""


@record(kw_only=True)
class UnreadPart:
    """The part of a record and of its edits that was not read."""

    edits: int
    """The number of the edits at the beginning in which others are missing, because these make them redundant."""
    omitted: int
    """Tokens that the view omits after these edits."""
    read: Callable[[], None]
    """Reads the whole, and passes it to `TokenEngine.complete_record`."""


class UnreadMessages(Messages):
    """A view of a record with unread messages, which are read once one of them is looked at."""

    __slots__ = ("_read",)

    def __init__(self, items: list[Message], read: Callable[[], None]) -> None:
        super().__init__(items)
        self._read = read

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        found = super().__getitem__(index)
        if has_unread(found) if isinstance(found, Sequence) else found is UNREAD:
            self._read()
            found = super().__getitem__(index)
        return found

    def __iter__(self) -> Iterator[Message]:
        if has_unread(super().__iter__()):
            self._read()
        return super().__iter__()


def has_unread(messages: Iterable[Message]) -> bool:
    """Return True if one of *messages* was not read."""
    return any(message is UNREAD for message in messages)


def fill(messages: list[Message], whole: Sequence[Message]) -> None:
    """Replace the unread ones of *messages* by those of *whole*, which begins with them."""
    for index, message in enumerate(whole):
        if messages[index] is UNREAD:
            messages[index] = message
