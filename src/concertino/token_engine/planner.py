"""When to edit, and what: rent or buy.

Each request pays for carrying what could be reduced: that is rent. An edit has a price, too: what stands behind it must
be written to the cache again. The edit is made when the rent that was paid has reached its price, times a patience; at
once when the cache is cold, for then it is free; and whatever it costs when the window is full. This is the rent-or-buy
rule (Karlin, Manasse, Rudolph, Sleator: Competitive snoopy caching, 1988), with its 2-competitive bound.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from ..errors import ContextFloorError
from ..messages import ToolMessage, UserMessage
from .caching.rules import Binding, CacheRule
from .edits import Edit, Reduce, Strip, Summarise, fingerprint
from .recall import handle_for, hint
from .retention import Candidates, Retention
from .view import View

FULL = 0.9
"""The share of the room from which on edits no longer wait for their price."""
_EARLY = 0.85
"""The share from which on a summary is made, so that it is there when it is needed."""
_AFTER = 0.5
"""The share of the room down to which messages are left out where they cannot be summarised."""
_ASKING = 500
"""Tokens of a request for a summary besides the conversation."""
_BEGINNING = 600
"""Characters of a user's message that is no longer shown whole."""
_LEAST_SUMMARISED = 500
"""Tokens."""
_RATIO = 0.08
"""How long a summary is expected to be, of what it stands for."""
MOST_SEGMENTS = 8
"""Summaries that may stand side by side; then they become one."""
_CALM, _LEAST_CALM = 25, 1_000
"""A decision waits for as many bytes as a 25th of the view's tokens, about a hundredth of the view; and for so many at
least."""
_PROGRESS = 0.05
"""The share of the room that an edit of a full window must free, or the next means is taken as well."""


@dataclass(slots=True)
class SummaryJob:
    """A summary that is to be made, of what is shown of the messages from *first* to before *end* but *kept*."""

    first: int
    end: int
    kept: tuple[int, ...]
    tokens: int
    """Of what it is to stand for."""
    merges: tuple[Summarise, ...] = ()
    """Earlier summaries that are to become one."""
    earlier: bool = False
    """Whether other summaries stand in front of it."""
    due: bool = False
    """Whether it is to be put in place as soon as it is there; else it is made in good time."""
    alone: bool = False
    """Whether the request that makes it has no room for what stands behind it."""


@dataclass(slots=True)
class Decision:
    """Which edits are due."""

    reduce: bool = False
    splice: bool = False
    """The summary that is ready is to be put in place."""
    job: SummaryJob | None = None
    """A summary is to be made."""


@dataclass(slots=True)
class Terms:
    """What holds for one request."""

    rule: CacheRule
    binding: Binding
    cold: bool
    """Whether nothing of the last request is in the provider's cache any more."""
    turn_begins: bool
    """Whether the user has spoken since the last request."""
    cached: int
    """Tokens of the view, in ours, that the last request has put into the cache."""
    room: int
    """Tokens, in ours, that the view may have."""
    summaries: bool
    """Whether a summary can be made."""
    requests: int = 1
    """How many were sent since it was last decided, this one included."""


class Planner:
    """Decides about the edits of a view, and makes them."""

    __slots__ = ("_candidates", "_paid", "_paid_summary", "_retention", "_view", "gone", "segments")

    def __init__(self, view: View, candidates: Candidates, retention: Retention) -> None:
        self._view = view
        self._candidates = candidates
        self._retention = retention
        self._paid = 0.0
        self._paid_summary = 0.0
        self.gone = 0
        """Up to which place messages were summarised."""
        self.segments: list[Summarise] = []

    @property
    def rent(self) -> tuple[float, float]:
        """What was paid since the last edits: for carrying results, and for messages."""
        return self._paid, self._paid_summary

    @rent.setter
    def rent(self, paid: tuple[float, float]) -> None:
        self._paid, self._paid_summary = paid

    def adopt(self, edit: Edit) -> None:
        """An edit was made elsewhere."""
        if isinstance(edit, Summarise):
            self.segments = [old for old in self.segments if not edit.first <= old.first < edit.end] + [edit]
            self.segments.sort(key=lambda segment: segment.first)
            self.gone = max(self.gone, edit.end)

    def fits(self, edit: Edit) -> bool:
        """Whether *edit* is about the messages that are here."""
        record = self._view.record
        match edit:
            case Reduce(places, _, check):
                results = [record[place] for place in places if 0 <= place < len(record)]
                return all(isinstance(result, ToolMessage) for result in results) and fingerprint(results) == check
            case Summarise(first, end):
                return 0 <= first < end <= len(record) and fingerprint(record[first:end]) == edit.check
            case Strip(end):
                return 0 <= end <= len(record)

    # -- when ----------------------------------------------------------------------------------------------------

    def calm(self, terms: Terms) -> int:
        """How many bytes may be added before it is worth deciding again: about a hundredth of the view, and none that
        could fill the window, for a token is at least a byte."""
        tokens = self._view.tokens
        return min(max(tokens // _CALM, _LEAST_CALM), int(_EARLY * terms.room) - tokens)

    def throw(self, terms: Terms, answered: int) -> list[Edit]:
        """Reduce the use-and-throw results that the model has seen: those before its newest answer, at *answered*."""
        edits: list[Edit] = []
        first = self._candidates.first_once
        if first is None or first >= answered or not self._may(terms, first):
            return edits
        if (seen := self._candidates.take_seen(self._view, answered)) is not None:
            self._make(seen, edits)
            self._strip(terms, seen.places[0], edits)
        return edits

    def decide(self, terms: Terms, ready: SummaryJob | None, *, busy: bool = False) -> Decision:
        """Pay the rent for the requests since the last time, and say which edits it makes due. *ready*: the summary
        that is there; *busy*: one is being made.

        Two edits at once pay for one rewriting, so a summary is dearer alone than beside results that are due.
        """
        rule, tokens, saved = terms.rule, self._view.tokens, self._candidates.saved
        full, patience = self._full(terms), self._retention.patience
        found = Decision()
        rewrite = 0.0
        if saved:
            first = self._candidates.first or 0
            rewrite = self._rewrite(first, saved, terms)
            self._paid += rule.read * saved * terms.requests
            due = 0 < self._paid >= patience * rewrite and self._may(terms, first)
            found.reduce = due or (full and saved >= _PROGRESS * terms.room)
        if busy or not terms.summaries:
            return found
        end = self._end(terms) if ready is None else ready.end
        old = max(self._old(end) - saved, 0) if ready is None else self._size(ready)
        if ready is None and old < _LEAST_SUMMARISED:
            return found
        call = 0.0 if ready is not None else min(rule.read * tokens, old) + rule.output * _RATIO * old
        setup = call + max(self._rewrite(end, 0.0, terms) - (rewrite if found.reduce else 0.0), 0.0)
        self._paid_summary += rule.read * (1 - _RATIO) * old * terms.requests
        due = full or (0 < self._paid_summary >= patience * setup and self._may(terms, self.gone))
        if ready is not None:
            found.splice = due or (ready.due and self._may(terms, ready.first))
            found.reduce = found.reduce or (found.splice and saved > 0)
        elif due or tokens > _EARLY * terms.room:
            span = self._span(terms)
            if span is not None and span.tokens >= _LEAST_SUMMARISED:
                found.job, span.due = span, due
        return found

    def _rewrite(self, first: int, saved: float, terms: Terms) -> float:
        """What it costs to write to the cache again what stands behind an edit at place *first*."""
        if terms.cold:
            return 0.0
        behind = terms.cached - self._view.before(self._view.index(first)) - saved
        return (terms.rule.write - terms.rule.read) * max(behind, 0.0)

    # -- what ----------------------------------------------------------------------------------------------------

    def reduce(self, terms: Terms) -> list[Edit]:
        """Reduce all results that may be."""
        edits: list[Edit] = []
        self._paid = 0.0
        if (first := self._candidates.first) is not None:
            self._make(self._candidates.take(self._view), edits)
            self._strip(terms, first, edits)
        return edits

    def splice(self, made: list[Summarise], terms: Terms) -> list[Edit]:
        """Put summaries in place."""
        edits: list[Edit] = []
        for edit in made:
            self._place(edit, edits)
        self._paid_summary = 0.0
        self._strip(terms, made[-1].first, edits)
        return edits

    def _place(self, edit: Summarise, edits: list[Edit]) -> None:
        self._make(edit, edits)
        self.adopt(edit)
        self._candidates.settle(self._view)

    def _span(self, terms: Terms, keep: int | None = None) -> SummaryJob | None:
        """The messages that are old enough to be summarised; *keep*: how many of the newest are not."""
        end, first = self._end(terms, keep), self.gone
        alone = keep is None and self._view.tokens > terms.room
        if alone:
            end = min(end, self._fitting(terms.room - _ASKING))
        if end <= first:
            return None
        pinned = self.pinned(first, end)
        while first in pinned:
            first += 1
        if first >= end:
            return None
        merges = tuple(self.segments[:MOST_SEGMENTS]) if len(self.segments) >= MOST_SEGMENTS else ()
        earlier = any(not segment.left_out for segment in self.segments)
        span = SummaryJob(first, end, tuple(sorted(place for place in pinned if place >= first)), 0, merges, earlier)
        span.tokens, span.alone = self._size(span), alone
        return span

    def _fitting(self, room: int) -> int:
        """The place up to which what is shown has *room*, whole groups only."""
        view = self._view
        index = bisect_right(range(len(view.places)), room, key=view.before) - 1
        return view.groups[view.places[index]] if index > 0 else 0

    def _end(self, terms: Terms, keep: int | None = None) -> int:
        """The place behind the last message that is old enough to be summarised."""
        view, users = self._view, self._candidates.users
        end = len(view.record) - max(self._retention.messages if keep is None else keep, 1)
        if terms.binding == "turn" and users and view.reasoned >= users[-1] and not self._full(terms):
            end = min(end, users[-1])
        return view.groups[end] if end > self.gone else self.gone

    def _old(self, end: int) -> int:
        """About the tokens of what would be summarised up to place *end*: pinned results are seldom, and counted in."""
        view, users, gone = self._view, self._candidates.users, self.gone
        old = view.between(gone, end)
        for place in (users[0], users[-1]) if len(users) > 1 else users:
            if gone <= place < end:
                old -= view.between(place, place + 1)
        return old

    def _size(self, span: SummaryJob) -> int:
        view = self._view
        return view.between(span.first, span.end) - sum(view.between(place, place + 1) for place in span.kept)

    def pinned(self, first: int, end: int) -> set[int]:
        """The places from *first* to before *end* whose messages are in every view: the task, the user's newest
        message, and pinned results with their calls."""
        users, pins = self._candidates.users, self._candidates.pins
        found = {place for place in (*users[:1], *users[-1:]) if first <= place < end}
        for place in pins[bisect_left(pins, first) : bisect_left(pins, end)]:
            start = self._view.groups[place]
            found.update(range(max(start, first), self.group_end(start)))
        return found

    def group_end(self, place: int) -> int:
        """The place behind the group of the message at *place*."""
        groups = self._view.groups
        end = place + 1
        while end < len(groups) and groups[end] == groups[place]:
            end += 1
        return end

    # -- a full window -------------------------------------------------------------------------------------------

    def leave_out(self, terms: Terms) -> list[Edit]:
        """Leave out the oldest messages, down to half of the room: where nothing can be summarised."""
        view = self._view
        edits: list[Edit] = []
        span = self._span(terms, 1)
        if span is None:
            return edits
        end, kept = span.first, set(span.kept)
        left = view.tokens
        while end < span.end and left > _AFTER * terms.room:
            stop = self.group_end(end)
            left -= sum(view.between(place, place + 1) for place in range(end, stop) if place not in kept)
            end = stop
        end = min(end, span.end)
        if view.tokens - left >= _PROGRESS * terms.room or view.tokens > terms.room:
            first, kept_here = span.first, tuple(place for place in span.kept if place < end)
            if self.segments and self.segments[-1].left_out:  # one notice is enough
                first, pinned = self.segments[-1].first, self.pinned(self.gone, end)
                kept_here = tuple(sorted({*self.segments[-1].kept, *pinned}))
            text = f"({end - first - len(kept_here)} messages before this are not shown.)"
            self._place(self._edit(SummaryJob(first, end, kept_here, 0), text, left_out=True), edits)
            self._strip(terms, first, edits)
        return edits

    def squeeze(self, terms: Terms) -> list[Edit]:
        """Reduce the newest results, too, but those of the turn in hand."""
        live = self._view.groups[-1] if self._view.groups else 0
        edits: list[Edit] = []
        found = self._candidates.take_newest(self._view, live)
        if found is not None:
            self._make(found, edits)
            self._strip(terms, found.places[0], edits)
        return edits

    def let_go(self, terms: Terms) -> list[Edit]:
        """Show no more than the beginning of the user's first message, if there is another: the last that can go."""
        edits: list[Edit] = []
        users, view = self._candidates.users, self._view
        message = view.at(users[0]) if len(users) > 1 else None
        if isinstance(message, UserMessage) and message is view.record[users[0]]:
            text = f"(The user's first message is too long to be shown. It begins: {message.text[:_BEGINNING]}...)"
            self._place(self._edit(SummaryJob(users[0], users[0] + 1, (), 0), text, left_out=True), edits)
            self._strip(terms, users[0], edits)
        return edits

    def made(self, job: SummaryJob, text: str, merged: str | None) -> list[Summarise]:
        """The edits that put summaries in the place of what *job* is about."""
        edits = [self._edit(job, f"Summary of the conversation before this:\n{text}")]
        if job.merges and merged:
            first, end = job.merges[0].first, max(old.end for old in job.merges)
            told = {old.first for old in job.merges}
            between = self._view.places[self._view.index(first) : self._view.index(end)]
            whole = SummaryJob(first, end, tuple(place for place in between if place not in told), 0)
            edits.insert(0, self._edit(whole, f"Summary of the conversation before this:\n{merged}"))
        return edits

    def _edit(self, job: SummaryJob, text: str, *, left_out: bool = False) -> Summarise:
        check = fingerprint(self._view.record[job.first : job.end])
        handle = handle_for(f"{job.first}-{job.end} {check}")
        told = text + hint(handle, recallable=self._candidates.recallable)
        return Summarise(job.first, job.end, job.kept, told, handle, check, left_out)

    # -- what an edit must leave alone ---------------------------------------------------------------------------

    def _full(self, terms: Terms) -> bool:
        return self._view.tokens > FULL * terms.room

    def _bound(self, terms: Terms, first: int) -> bool:
        """Whether reasoning that is still sent is bound to what stands at place *first* or behind it."""
        if terms.binding != "prefix":
            return False
        return self._view.reasoned >= first

    def _may(self, terms: Terms, first: int) -> bool:
        """Whether an edit at place *first* may be made now, though there is room."""
        return terms.cold or terms.turn_begins or not self._bound(terms, first)

    def strip(self) -> list[Edit]:
        """Show no reasoning of what there is: what stands before it is no longer what it was."""
        edits: list[Edit] = []
        if self._view.reasoned >= 0:
            self._make(Strip(len(self._view.record)), edits)
        return edits

    def _strip(self, terms: Terms, first: int, edits: list[Edit]) -> None:
        if self._bound(terms, first):
            edits += self.strip()

    def _make(self, edit: Edit, edits: list[Edit]) -> None:
        self._view.apply(edit)
        edits.append(edit)


def floor_error(limit: int, parts: dict[str, int], view: View) -> ContextFloorError:
    """The error for a request that does not fit however it is edited; it names what fills the window."""
    sizes = dict(parts)
    for index, message in enumerate(view.shown):
        name = f"result of {message.name}" if isinstance(message, ToolMessage) else f"{message.role} message"
        sizes[name] = sizes.get(name, 0) + view.before(index + 1) - view.before(index)
    largest = sorted(sizes.items(), key=lambda part: -part[1])
    shares = ", ".join(f"{name} {size:,}" for name, size in largest)
    return ContextFloorError(
        f"the smallest possible request does not fit the context of {limit:,} tokens: {shares}. "
        f"Shorten the {largest[0][0]}, or use a model with a larger context"
    )
