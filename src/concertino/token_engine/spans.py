"""Spans: the messages of a view that a summary may replace, and the ones kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import partial

from ..messages import Message, ToolMessage
from ..records import record
from .edits import Edit, Reduce, Strip, Summarize, fingerprint
from .view import View

RATIO, MOST = 0.08, 1_500
"""Expected length of a summary: a share of its span, and tokens at most."""


@record(frozen=False)
class SummaryJob:
    """A summary to be made of the messages shown from index *first* to before *end*, without those *kept*."""

    first: int
    end: int
    kept: tuple[int, ...]
    tokens: int
    """Tokens of the messages."""
    follows_summary: bool = False
    """True if earlier summaries precede the messages."""
    merges: bool = False
    """True if the messages contain earlier summaries, which the new one replaces."""
    limit: int | None = None
    """Index behind the last message that the request for the summary may contain; None: it may contain all."""

    @property
    def saved(self) -> int:
        """Return the tokens that the summary saves, by its expected length."""
        return int(self.tokens - min(RATIO * self.tokens, MOST))


class Spans:
    """The user's messages, pins and summaries of a view, updated as it grows."""

    __slots__ = ("_view", "pins", "segments", "single_use", "summarized", "users")

    def __init__(self, view: View, source: Spans | None = None) -> None:
        self._view = view
        self.users: list[int] = [] if source is None else list(source.users)
        """Indexes of the user's messages that are shown."""
        self.pins: list[int] = [] if source is None else list(source.pins)
        """Indexes of pinned messages."""
        self.single_use: list[int] = [] if source is None else list(source.single_use)
        """Indexes of single-use results that are shown whole."""
        self.segments: list[Summarize] = [] if source is None else list(source.segments)
        """The summaries in the view, in order."""
        self.summarized: int = 0 if source is None else source.summarized
        """Index up to which messages are summarized or omitted."""

    def add(self, message: Message, index: int) -> None:
        """Take in *message*, which has joined the record at *index*."""
        if message.role == "user" and message.tool is None:
            self.users.append(index)
        if message.role not in ("user", "tool") or message.retain == "window":
            return
        if message.retain == "once":
            self.single_use.append(index)
        elif message.retain == "pin":
            self.pins.append(index)
        elif not message.is_error:
            self.pins = [*filter(partial(self._outlives, message), self.pins), index]

    def _outlives(self, newer: ToolMessage, index: int) -> bool:
        """Return whether the pinned message at *index* stays, now that the tool of *newer* has returned it."""
        older = self._view.record[index]
        return older.role != "tool" or older.retain != "newest" or older.name != newer.name

    def adopt(self, edit: Edit) -> None:
        """Take in an edit that the view has applied."""
        if isinstance(edit, Summarize):
            self.segments = [old for old in self.segments if not edit.first <= old.first < edit.end] + [edit]
            self.segments.sort(key=lambda segment: segment.first)
            self.summarized = max(self.summarized, edit.end)
            self.users = [index for index in self.users if not edit.first <= index < edit.end or index in edit.kept]
        view = self._view
        self.single_use = [index for index in self.single_use if view.at(index) is view.record[index]]

    def fits(self, edit: Edit) -> bool:
        """Return True if *edit* was made for the messages of this record."""
        record = self._view.record
        match edit:
            case Reduce(indexes, _, check):
                results = [record[index] for index in indexes if 0 <= index < len(record)]
                return all(message.role == "tool" for message in results) and fingerprint(results) == check
            case Summarize(first, end):
                return 0 <= first < end <= len(record) and fingerprint(record[first:end]) == edit.check
            case Strip(end):
                return 0 <= end <= len(record)

    def span(self, keep: int, users: int, *, first: int | None = None, limit: int | None = None) -> SummaryJob | None:
        """Return the span of all messages from index *first*, without the newest *keep* tokens.

        Without *first*, it begins behind the earlier summaries. Of the user's messages, the newest *users* tokens stay.
        *limit*: index that it must not reach beyond.
        """
        view = self._view
        if not view.groups:
            return None
        end = min(self._group_from(view.tokens - keep), view.groups[-1])
        end = end if limit is None else min(end, limit)
        first = self.summarized if first is None else first
        kept = self.kept(first, end, users)
        while first in kept:
            first += 1
        if first >= end:
            return None
        inside = tuple(sorted(index for index in kept if index >= first))
        tokens = view.between(first, end) - sum(view.between(index, index + 1) for index in inside)
        written = [segment.first for segment in self.segments if not segment.omitted]
        follows, merges = bool(written) and written[0] < first, bool(written) and written[-1] >= first
        return SummaryJob(first, end, inside, tokens, follows, merges, limit)

    def fitting(self, tokens: int) -> int:
        """Return the index up to which whole groups of the view have at most *tokens*."""
        view = self._view
        position = bisect_right(range(len(view.indexes)), tokens, key=view.before) - 1
        return view.groups[view.indexes[position]] if position > 0 else 0

    def _group_from(self, tokens: int) -> int:
        """Return the index of the first group that begins behind the first *tokens* of the view."""
        view = self._view
        position = bisect_left(range(len(view.indexes)), tokens, key=view.before)
        index = view.indexes[position] if position < len(view.indexes) else len(view.record)
        return index if index == len(view.record) or view.groups[index] == index else self.group_end(index)

    def kept(self, first: int, end: int, users: int) -> set[int]:
        """Return the indexes from *first* to before *end* whose messages stay.

        They are pinned messages, results with their calls, and the user's newest message; and up to *users* tokens of
        the user's first message and then the other newest ones.
        """
        view, found = self._view, set[int]()
        for index in self.pins[bisect_left(self.pins, first) : bisect_left(self.pins, end)]:
            start = view.groups[index]
            found.update(range(max(start, first), self.group_end(start)))
        for rank, index in enumerate((*self.users[-1:], *self.users[:1], *reversed(self.users[1:-1]))):
            if rank < 2 or index >= first:
                size = view.between(index, index + 1)
                if not rank or size <= users:
                    users -= size if rank else 0
                    if first <= index < end:
                        found.add(index)
        return found

    def group_end(self, index: int) -> int:
        """Return the index behind the group of the message at *index*."""
        groups = self._view.groups
        end = index + 1
        while end < len(groups) and groups[end] == groups[index]:
            end += 1
        return end
