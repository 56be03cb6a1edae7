"""Candidates: the tool results of a view that an edit may reduce, and the messages that every edit must keep."""

from __future__ import annotations

from collections import deque
from itertools import islice

from ..messages import Message, ToolMessage
from .counting.sizes import FRAME, Measure
from .edits import Reduce
from .recall import digest, digest_size
from .view import View

_SHORT = 48
"""Characters of a result that is too short to reduce."""
_LEAST_SAVED = 16
"""Tokens that reducing a result must save."""


class Candidates:
    """The results of a view that may be reduced, oldest first, updated as the view grows."""

    __slots__ = ("_keep", "_measure", "_newest", "_reducible", "_single_use", "pins", "recallable", "saved", "users")

    def __init__(self, keep: int, measure: Measure) -> None:
        self._keep = keep
        self._measure = measure
        self._newest: deque[tuple[int, int]] = deque()  # index, and the approximate tokens that reducing it saves
        self._single_use: list[int] = []
        self._reducible: dict[int, int] = {}  # by index: the approximate tokens that reducing the result saves
        self.saved = 0
        """Approximate tokens that reducing all candidates saves."""
        self.recallable = False
        """True if the model has the tool that recalls omitted content."""
        self.users: list[int] = []
        """Indexes of the user's messages."""
        self.pins: list[int] = []
        """Indexes of pinned results."""

    def copy(self) -> Candidates:
        """Return an independent copy."""
        made = Candidates(self._keep, self._measure)
        made._newest, made._single_use = self._newest.copy(), list(self._single_use)
        made._reducible, made.saved = dict(self._reducible), self.saved
        made.users, made.pins = list(self.users), list(self.pins)
        return made

    def add(self, message: Message, index: int, tokens: int) -> None:
        """Take in *message* of *tokens*, which has joined the record at *index*."""
        if message.role == "user":
            if message.tool is None:
                self.users.append(index)
        elif message.role == "tool":
            if message.retain == "window":
                self._newest.append((index, _saving(message, tokens)))
                if len(self._newest) > self._keep:
                    self._offer(*self._newest.popleft())
            elif message.retain == "pin":
                self.pins.append(index)
            else:
                self._single_use.append(index)

    def load(self, view: View, first: int) -> None:
        """Take in the messages from index *first* of a view whose edits were applied before it was counted."""
        whole = view.whole()
        results: list[int] = []
        for index, message in enumerate(islice(view.record, first, None), first):
            if message.role == "user" and message.tool is None:
                self.users.append(index)
            elif message.role == "tool":
                if message.retain == "window":
                    results.append(index)
                elif message.retain == "pin":
                    self.pins.append(index)
                elif index in whole:
                    self._single_use.append(index)
        saved = {index: _saving(view.record[index], whole[index]) for index in results if index in whole}
        kept = frozenset(results[-self._keep :] if self._keep else ())
        for index, tokens in saved.items():
            if index in kept:
                self._newest.append((index, tokens))
            else:
                self._offer(index, tokens)

    def _offer(self, index: int, saved: int) -> None:
        if saved:
            self._reducible[index] = saved
            self.saved += saved

    def _saving_at(self, index: int, view: View) -> int:
        message = view.at(index)
        return 0 if message is None else _saving(message, self._measure(message)[0])

    @property
    def first(self) -> int | None:
        """Return the index of the oldest reducible result."""
        return next(iter(self._reducible), None)

    @property
    def first_kept(self) -> int | None:
        """Return the index of the oldest of the newest results that is worth reducing; they stay for now."""
        return next((index for index, saved in self._newest if saved), None)

    @property
    def first_unreduced(self) -> int | None:
        """Return the index of the oldest unreduced result, at which the next edit begins."""
        return self.first_kept if self.first is None else self.first

    @property
    def first_single_use(self) -> int | None:
        """Return the index of the oldest single-use result that is shown whole."""
        return self._single_use[0] if self._single_use else None

    def take(self, view: View) -> Reduce:
        """Return an edit that reduces all candidates, and forget them."""
        indexes, self._reducible, self.saved = list(self._reducible), {}, 0
        return self._reduce(indexes, view)

    def take_seen(self, view: View, answered: int) -> Reduce | None:
        """Return an edit that reduces the single-use results before index *answered*; short ones stay."""
        seen = [index for index in self._single_use if index < answered]
        self._single_use = self._single_use[len(seen) :]
        large = [index for index in seen if self._saving_at(index, view)]
        return self._reduce(large, view) if large else None

    def take_newest(self, view: View, before: int) -> Reduce | None:
        """Return an edit that reduces the newest results before index *before* as well, for a full window."""
        while self._newest and self._newest[0][0] < before:
            self._offer(*self._newest.popleft())
        for index in [index for index in self._single_use if index < before]:
            self._offer(index, self._saving_at(index, view))
        self._single_use = [index for index in self._single_use if index not in self._reducible]
        return self.take(view) if self._reducible else None

    def _reduce(self, indexes: list[int], view: View) -> Reduce:
        digests = {}
        for index in sorted(indexes):
            message = view.at(index)
            if isinstance(message, ToolMessage):
                digests[index] = digest(message, recallable=self.recallable)
        return Reduce(tuple(digests), tuple(digests.values()))

    def refresh(self, view: View) -> None:
        """Forget the results that the view no longer shows whole, after an edit from elsewhere."""
        for index in [index for index in self._reducible if view.at(index) is not view.record[index]]:
            self.saved -= self._reducible.pop(index)
        self._newest = deque([kept for kept in self._newest if view.at(kept[0]) is view.record[kept[0]]])
        self._single_use = [index for index in self._single_use if view.at(index) is view.record[index]]


def _saving(message: Message, tokens: int) -> int:
    """Return the approximate tokens that reducing *message* of *tokens* saves; 0 if too few or not a result."""
    if message.role != "tool" or len(message.content) <= _SHORT:
        return 0
    saved = tokens - FRAME - len(message.call_id) // 3 - digest_size(message)
    return saved if saved >= _LEAST_SAVED else 0
