"""Edits: how what is sent differs from what is kept. An append-only log over an append-only record.

Places are those of messages in the record, from 0. Edits are never undone: what one of them has reduced stays reduced.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

from ..messages import Message
from .counting.sizes import message_text


@dataclass(frozen=True, slots=True)
class Reduce:
    """Results are shown as what stands for them."""

    places: tuple[int, ...]
    digests: tuple[str, ...]
    """One for each place."""
    check: str = ""
    """A fingerprint of the results, where the edit is carried to another run."""


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
        case Reduce(places, digests, check):
            return ["reduce", list(places), list(digests), *([check] if check else [])]
        case Summarise(first, end, kept, text, handle, check, left_out):
            return ["summarise", first, end, list(kept), text, handle, check, left_out]
        case Strip(end):
            return ["strip", end]


def edit_of(written: Sequence[Any]) -> Edit:
    """The edit that `form` made *written* of. Raises `ValueError` if it is none."""
    match written:
        case ["reduce", [*places], [*digests], *check] if (
            len(places) == len(digests) and _all(int, places) and _all(str, digests)
        ):
            return Reduce(tuple(places), tuple(digests), *check)
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
        case Reduce():
            return replace(edit, places=tuple(map(to, edit.places)))
        case Summarise():
            return replace(edit, first=to(edit.first), end=to(edit.end), kept=tuple(map(to, edit.kept)))
        case Strip(end):
            return Strip(to(end))


def carried(edit: Edit, record: Sequence[Message], skipped: Sequence[int]) -> Edit | None:
    """*edit* of *record* for the next run of the conversation, which will not have the messages at the places
    *skipped*; None if it is about none of the others."""
    match edit:
        case Strip(end):
            return Strip(end - bisect_left(skipped, end))
        case _ if edit.check and not skipped:
            return edit
        case Reduce(places, digests):
            here = [place not in skipped for place in places]
            places = tuple(compress(places, here))
            edit = Reduce(places, tuple(compress(digests, here)), fingerprint([record[place] for place in places]))
        case Summarise(first, end):
            told = [record[place] for place in range(first, end) if place not in skipped]
            kept = tuple(place for place in edit.kept if place not in skipped)
            edit = replace(edit, kept=kept, check=fingerprint(told))
            places = tuple(place for place in (first,) if told)
    return moved(edit, lambda place: place - bisect_left(skipped, place)) if places else None
