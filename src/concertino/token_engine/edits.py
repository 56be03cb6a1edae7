"""Edits: an append-only log of the differences between the record and the view, by indexes of the record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import takewhile
from typing import Any

from ..ids import digest
from ..messages import Message
from ..records import record
from .counting.sizes import message_text


@record
class Reduce:
    """Show digests instead of tool results."""

    indexes: tuple[int, ...]
    digests: tuple[str, ...]
    """One for each index."""
    check: str
    """Fingerprint of the results: the edit is never applied to another conversation."""


@record
class Summarize:
    """Show one text instead of the messages from *first* to before *end*, earlier summaries included."""

    first: int
    end: int
    kept: tuple[int, ...]
    """Indexes whose messages stay in the view."""
    text: str
    handle: str
    """Name by which `recall` returns the messages."""
    check: str
    """Fingerprint of the messages."""
    messages: int = 0
    """Messages that leave the view with this edit."""
    omitted: bool = False
    """True if they are omitted, not summarized."""


@record
class Strip:
    """Omit the reasoning of all messages before *end*: it is bound to a prefix that has changed."""

    end: int


Edit = Reduce | Summarize | Strip


def encode_edit(edit: Edit) -> list[Any]:
    """Return *edit* as JSON; `decode_edit` is the inverse."""
    values = [getattr(edit, each.name) for each in fields(edit)]
    return [type(edit).__name__.lower(), *[list(value) if isinstance(value, tuple) else value for value in values]]


def decode_edit(encoded: Sequence[Any]) -> Edit:
    """Return the edit that `encode_edit` encoded. Raises `ValueError` if *encoded* is not an edit."""
    match encoded:
        case ["reduce", [*indexes], [*digests], str(check)] if (
            len(indexes) == len(digests) and {*map(type, indexes)} <= {int} and {*map(type, digests)} <= {str}
        ):
            return Reduce(tuple(indexes), tuple(digests), check)
        case ["summarize", int(first), int(end), [*kept], str(text), str(handle), str(check), int(gone), bool(omitted)]:
            if {*map(type, kept)} <= {int}:
                return Summarize(first, end, tuple(kept), text, handle, check, gone, omitted)
        case ["strip", int(end)]:
            return Strip(end)
    raise ValueError(f"invalid edit of a conversation: {encoded!r:.80}")


def decode_edits(encoded: Iterable[Sequence[Any]], offset: int) -> list[Edit]:
    """Return the edits that `encode_edit` encoded, for a record whose conversation begins at index *offset*."""
    edits = list(map(decode_edit, encoded))
    return [_shifted(edit, lambda index: index + offset) for edit in edits] if offset else edits


def fingerprint(messages: Iterable[Message]) -> str:
    """Return a hash of the roles and the text of *messages*."""
    return digest("".join([message.role + message_text(message) for message in messages]))


def fits(edit: Edit, record: Sequence[Message]) -> bool:
    """Return True if *edit* was made for the messages of *record*."""
    match edit:
        case Reduce(indexes, _, check):
            results = [record[index] for index in indexes if 0 <= index < len(record)]
            return all(message.role == "tool" for message in results) and fingerprint(results) == check
        case Summarize(first, end):
            return 0 <= first < end <= len(record) and fingerprint(record[first:end]) == edit.check
        case Strip(end):
            return 0 <= end <= len(record)


def fitting(edits: Sequence[Edit], record: Sequence[Message]) -> list[Edit]:
    """Return the *edits* that were made for the messages of *record*, up to the first that was not."""
    last = max((number for number, edit in enumerate(edits) if isinstance(edit, Summarize)), default=0)
    if not last or not fits(edits[last], record):  # the fingerprint of the last summary covers the edits before it
        last = 0
    return [*edits[:last], *takewhile(lambda edit: fits(edit, record), edits[last:])]


def _shifted(edit: Edit, to: Callable[[int], int]) -> Edit:
    """Return *edit* for a record in which the message at index *i* has index `to(i)`."""
    if isinstance(edit, Reduce):
        return replace(edit, indexes=tuple(map(to, edit.indexes)))
    if isinstance(edit, Summarize):
        return replace(edit, first=to(edit.first), end=to(edit.end), kept=tuple(map(to, edit.kept)))
    return Strip(to(edit.end))


def carry_over(edits: Iterable[Edit], record: Sequence[Message], skipped: Sequence[int]) -> Iterator[Edit]:
    """Yield *edits* of *record* for the next run, whose record lacks the messages at the indexes *skipped*."""
    for each in edits:
        edit = each
        if skipped and not isinstance(each, Strip):
            every = each.indexes if isinstance(each, Reduce) else range(each.first, each.end)
            stays = tuple([index for index in every if index not in skipped])
            check = fingerprint([record[index] for index in stays])
            if not stays:
                continue
            if isinstance(each, Reduce):
                digests = [text for index, text in zip(every, each.digests, strict=True) if index not in skipped]
                edit = Reduce(stays, tuple(digests), check)
            else:
                edit = replace(each, kept=tuple([index for index in each.kept if index not in skipped]), check=check)
        yield _shifted(edit, lambda index: index - bisect_left(skipped, index)) if skipped else edit
