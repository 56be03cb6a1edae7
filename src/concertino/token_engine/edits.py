"""Edits: how what is sent differs from what is kept. An append-only log over an append-only record.

Places are those of messages in the record, from 0. Edits are never undone: what one of them has reduced stays reduced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..messages import Message
from .sizes import message_text


@dataclass(frozen=True, slots=True)
class Reduce:
    """Results are shown as what stands for them."""

    places: tuple[int, ...]
    digests: tuple[str, ...]
    """One for each place."""


@dataclass(frozen=True, slots=True)
class Summarise:
    """The messages from *first* to before *end* are shown as one text, earlier summaries among them included."""

    first: int
    end: int
    kept: tuple[int, ...]
    """Places in between whose messages stay as they are shown, behind the text."""
    text: str
    handle: str
    """To recall them by."""
    check: str
    """A fingerprint of what was summarised, so that an edit is never applied to another conversation."""
    left_out: bool = False
    """Whether the text only says that they are left out."""

    @property
    def messages(self) -> int:
        """How many messages of the record the text stands for."""
        return self.end - self.first - len(self.kept)


@dataclass(frozen=True, slots=True)
class Strip:
    """No reasoning is shown before *end*: it is bound to a prefix that has changed."""

    end: int


Edit = Reduce | Summarise | Strip


def form(edit: Edit) -> list[Any]:
    """*edit* as JSON; `edit_of` reads it."""
    match edit:
        case Reduce(places, digests):
            return ["reduce", list(places), list(digests)]
        case Summarise(first, end, kept, text, handle, check, left_out):
            return ["summarise", first, end, list(kept), text, handle, check, left_out]
        case Strip(end):
            return ["strip", end]


def edit_of(written: Sequence[Any]) -> Edit:
    """The edit that `form` made *written* of. Raises `ValueError` if it is none."""
    match written:
        case ["reduce", [*places], [*digests]] if (
            len(places) == len(digests) and _all(int, places) and _all(str, digests)
        ):
            return Reduce(tuple(places), tuple(digests))
        case ["summarise", int(first), int(end), [*kept], str(text), str(handle), str(check), bool(left_out)] if _all(
            int, kept
        ):
            return Summarise(first, end, tuple(kept), text, handle, check, left_out)
        case ["strip", int(end)]:
            return Strip(end)
    raise ValueError(f"{written!r:.80} is no edit of a conversation")


def _all(kind: type, values: Sequence[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)


def fingerprint(messages: Sequence[Message]) -> str:
    """What tells *messages* from others: of their roles and all that a model reads of them."""
    seen = hashlib.blake2b(digest_size=8)
    for message in messages:
        seen.update(message.role.encode())
        seen.update(message_text(message).encode("utf-8", "surrogatepass"))
    return seen.hexdigest()


def moved(edit: Edit, to: Callable[[int], int]) -> Edit:
    """*edit* for a record in which each message stands at another place."""
    match edit:
        case Reduce(places, digests):
            return Reduce(tuple(map(to, places)), digests)
        case Summarise():
            return replace(edit, first=to(edit.first), end=to(edit.end), kept=tuple(map(to, edit.kept)))
        case Strip(end):
            return Strip(to(end))
