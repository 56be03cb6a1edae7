"""Edits: an append-only log of the differences between the record and the view, by indexes of the record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
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
    match edit:
        case Reduce(indexes, digests, check):
            return ["reduce", list(indexes), list(digests), check]
        case Summarize(first, end, kept, text, handle, check, messages, omitted):
            return ["summarize", first, end, list(kept), text, handle, check, messages, omitted]
        case Strip(end):
            return ["strip", end]


def decode_edit(encoded: Sequence[Any]) -> Edit:
    """Return the edit that `encode_edit` encoded. Raises `ValueError` if *encoded* is not an edit."""
    match encoded:
        case ["reduce", [*indexes], [*digests], str(check)] if (
            len(indexes) == len(digests) and _all(int, indexes) and _all(str, digests)
        ):
            return Reduce(tuple(indexes), tuple(digests), check)
        case ["summarize", int(first), int(end), [*kept], str(text), str(handle), str(check), int(gone), bool(omitted)]:
            if _all(int, kept):
                return Summarize(first, end, tuple(kept), text, handle, check, gone, omitted)
        case ["strip", int(end)]:
            return Strip(end)
    raise ValueError(f"invalid edit of a conversation: {encoded!r:.80}")


def _all(kind: type, values: Sequence[Any]) -> bool:
    return set(map(type, values)) <= {kind}


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


def carry_over(edits: Sequence[Edit], record: Sequence[Message], skipped: Sequence[int]) -> list[Edit]:
    """Return *edits* of *record* for the next run, whose record lacks the messages at the indexes *skipped*."""
    carried = [_carried(edit, record, skipped) if skipped else edit for edit in edits]
    return [edit for edit in carried if edit is not None]


def _carried(edit: Edit, record: Sequence[Message], skipped: Sequence[int]) -> Edit | None:
    if not isinstance(edit, Strip):
        indexes = edit.indexes if isinstance(edit, Reduce) else range(edit.first, edit.end)
        stays = [index for index in indexes if index not in skipped]
        if not stays:
            return None
        check = fingerprint([record[index] for index in stays])
        if isinstance(edit, Reduce):
            digests = tuple([digest for index, digest in zip(indexes, edit.digests, strict=True) if index in stays])
            edit = Reduce(tuple(stays), digests, check)
        else:
            edit = replace(edit, kept=tuple([index for index in edit.kept if index in stays]), check=check)
    return _shifted(edit, lambda index: index - bisect_left(skipped, index))
