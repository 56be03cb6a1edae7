"""The planner: decides when to edit a view, by ski rental, and builds the edits.

Every request pays to carry content that an edit would remove; an edit pays once to write the messages behind it to the
provider's cache again. The planner edits when the carrying cost paid so far reaches the edit's cost times a patience.
This is the ski-rental rule with its competitive ratio of 2 (Karlin, Manasse, Rudolph, Sleator: Competitive Snoopy
Caching, Algorithmica 3, 1988). An edit is free while the cache is cold, due at any cost in a full window, and never due
while the view fills only a small share of the window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ..ids import handle_for
from ..messages import UserMessage
from ..records import record
from .caching.rules import Binding, CacheRule
from .candidates import Candidates
from .edits import Edit, Reduce, Strip, Summarize, fingerprint
from .recall import hint
from .retention import Retention
from .view import View

FULL = 0.9
"""Share of the budget above which edits no longer wait for their price."""
_EARLY = 0.85
"""Share of the budget above which a summary is made in advance."""
_AFTER = 0.5
"""Share of the budget down to which messages are omitted where they cannot be summarized."""
_ASKING = 500
"""Tokens of a request for a summary, without the conversation."""
_BEGINNING = 600
"""Characters shown of a first user message that is omitted."""
_LEAST_SUMMARIZED = 500
"""Tokens below which a span is not worth a summary."""
_RATIO = 0.08
"""Expected length of a summary relative to its span."""
MOST_SEGMENTS = 8
"""Summaries that may follow one another before they are merged."""
_PAUSE, _LEAST_PAUSE = 10, 1_000
"""After a plan without an edit, the next one waits until a tenth of the view's tokens, and at least 1,000, are added in
bytes: about 3 % of the view. A fifth would raise the bill by up to 4 %."""
_PROGRESS = 0.05
"""Share of the budget that an edit of a full window must free; otherwise the next kind of edit follows."""


@record(frozen=False)
class SummaryJob:
    """A summary to be made of the messages shown from index *first* to before *end*, without those *kept*."""

    first: int
    end: int
    kept: tuple[int, ...]
    tokens: int
    """Tokens of the messages."""
    merges: tuple[Summarize, ...] = ()
    """Earlier summaries to be merged into one."""
    follows_summary: bool = False
    """True if other summaries precede the messages."""
    immediate: bool = False
    """True to apply the summary as soon as it is made; False if it is made in advance."""
    prefix_only: bool = False
    """True if the request for the summary may contain nothing after the messages, because the window is full."""


@record(frozen=False)
class Plan:
    """The work that is due before the next request."""

    job: SummaryJob | None = None
    """A summary to make."""
    urgent: bool = False
    """True if the request must wait for the summary because the window is full. Without a job, one is being made."""
    edits_possible: bool = True
    """False if no edit can be due: then there is nothing to `fit`."""


@record(frozen=False)
class Decision:
    """The edits that are due."""

    reduce: bool = False
    splice: bool = False
    """True to apply the prepared summaries."""
    job: SummaryJob | None = None
    """A summary to be made."""


@record
class Conditions:
    """The conditions of one request."""

    rule: CacheRule
    binding: Binding
    cold: bool
    """True if the provider's cache has expired."""
    turn_begins: bool
    """True if the user has sent a message since the last request."""
    cached: int
    """Counted tokens of the view that the last request put into the cache."""
    budget: int
    """Counted tokens that the view may have."""
    floor: int
    """Counted tokens of a view below which no edit is made to save cost."""
    summaries: bool
    """True if a summary can be made."""
    requests: int = 1
    """Requests since the last decision, including this one."""


class Planner:
    """Decides about the edits of a view, and applies them."""

    __slots__ = ("_candidates", "_retention", "_view", "carrying_cost", "segments", "summarized")

    def __init__(self, view: View, candidates: Candidates, retention: Retention) -> None:
        self._view = view
        self._candidates = candidates
        self._retention = retention
        self.carrying_cost = (0.0, 0.0)
        """Cost since the last edits of carrying reducible results, and messages that could be summarized."""
        self.summarized = 0
        """Index up to which messages are summarized or omitted."""
        self.segments: list[Summarize] = []
        """The summaries in the view, in order."""

    def adopt(self, edit: Edit) -> None:
        """Take in an edit that the view has applied."""
        if isinstance(edit, Summarize):
            self.segments = [old for old in self.segments if not edit.first <= old.first < edit.end] + [edit]
            self.segments.sort(key=lambda segment: segment.first)
            self.summarized = max(self.summarized, edit.end)

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

    # -- when to edit --------------------------------------------------------------------------------------------

    def slack(self, conditions: Conditions) -> int:
        """Return how many bytes may be added before the next decision.

        A token is at least a byte, so the view cannot cross the floor, or fill the window, within the slack.
        """
        tokens = self._view.tokens
        to_floor = conditions.floor - tokens
        pause = max(tokens // _PAUSE, _LEAST_PAUSE)
        return max(to_floor, min(pause, int(_EARLY * conditions.budget) - tokens))

    def decide(self, conditions: Conditions, prepared: SummaryJob | None, *, busy: bool = False) -> Decision:
        """Add the carrying cost of the requests since the last decision, and return the edits that are due.

        *prepared*: the job of the summaries that wait to be applied; *busy*: a summary is being made. Edits made
        together share one rewrite of the cache, so a summary costs less in the same step as a reduction.
        """
        rule, tokens, saved = conditions.rule, self._view.tokens, self._candidates.saved
        found = Decision()
        if tokens < conditions.floor:
            return found
        full, patience = self._full(conditions), self._retention.patience
        results_cost, messages_cost = self.carrying_cost
        rewrite = 0.0
        if saved:
            first = self._candidates.first or 0
            rewrite = self._rewrite_cost(first, saved, conditions)
            results_cost += rule.read * saved * conditions.requests
            self.carrying_cost = results_cost, messages_cost
            due = 0 < results_cost >= patience * rewrite and self._may_edit(conditions, first)
            found.reduce = due or (full and saved >= _PROGRESS * conditions.budget)
        if busy or not conditions.summaries:
            return found
        end = self._end(conditions) if prepared is None else prepared.end
        old = max(self._old(end) - saved, 0) if prepared is None else self._size(prepared)
        if prepared is None and old < _LEAST_SUMMARIZED:
            return found
        call = 0.0 if prepared is not None else min(rule.read * tokens, old) + rule.output * _RATIO * old
        rewrite = self._rewrite_cost(end, 0.0, conditions) - (rewrite if found.reduce else 0.0)
        messages_cost += rule.read * (1 - _RATIO) * old * conditions.requests
        self.carrying_cost = results_cost, messages_cost
        due = full or (
            0 < messages_cost >= patience * (call + max(rewrite, 0.0)) and self._may_edit(conditions, self.summarized)
        )
        if prepared is not None:
            found.splice = due or (prepared.immediate and self._may_edit(conditions, prepared.first))
            found.reduce = found.reduce or (found.splice and saved > 0)
        elif due or tokens > _EARLY * conditions.budget:
            span = self._span(conditions)
            if span is not None and span.tokens >= _LEAST_SUMMARIZED:
                found.job, span.immediate = span, due
        return found

    def _rewrite_cost(self, first: int, saved: float, conditions: Conditions) -> float:
        """Return the cost of writing the messages behind an edit at index *first* to the cache again."""
        if conditions.cold:
            return 0.0
        behind = conditions.cached - self._view.before(self._view.position(first)) - saved
        return (conditions.rule.write - conditions.rule.read) * max(behind, 0.0)

    # -- the edits -----------------------------------------------------------------------------------------------

    def reduce_single_use(self, conditions: Conditions) -> list[Edit]:
        """Reduce the single-use results that the model has seen: those before its newest answer."""
        edits: list[Edit] = []
        first, record = self._candidates.first_single_use, self._view.record
        answered = next((index for index in range(len(record) - 1, -1, -1) if record[index].role == "assistant"), 0)
        if first is None or first >= answered or not self._may_edit(conditions, first):
            return edits
        if (seen := self._candidates.take_seen(self._view, answered)) is not None:
            self._apply(seen, edits)
            self._strip_bound(conditions, seen.indexes[0], edits)
        return edits

    def reduce(self, conditions: Conditions) -> list[Edit]:
        """Reduce all candidates."""
        edits: list[Edit] = []
        self.carrying_cost = 0.0, self.carrying_cost[1]
        if (first := self._candidates.first) is not None:
            self._apply(self._candidates.take(self._view), edits)
            self._strip_bound(conditions, first, edits)
        return edits

    def splice(self, prepared: list[Summarize], conditions: Conditions) -> list[Edit]:
        """Apply prepared summaries."""
        edits: list[Edit] = []
        for edit in prepared:
            self._replace(edit, edits)
        self.carrying_cost = self.carrying_cost[0], 0.0
        self._strip_bound(conditions, prepared[-1].first, edits)
        return edits

    def _replace(self, edit: Summarize, edits: list[Edit]) -> None:
        self._apply(edit, edits)
        self.adopt(edit)
        self._candidates.refresh(self._view)

    def _span(self, conditions: Conditions, keep: int | None = None) -> SummaryJob | None:
        """Return the span of messages old enough to summarize; *keep*: how many of the newest are not."""
        end, first = self._end(conditions, keep), self.summarized
        prefix_only = keep is None and self._view.tokens > conditions.budget
        if prefix_only:
            end = min(end, self._fitting(conditions.budget - _ASKING))
        if end <= first:
            return None
        pinned = self.pinned(first, end)
        while first in pinned:
            first += 1
        if first >= end:
            return None
        merges = tuple(self.segments[:MOST_SEGMENTS]) if len(self.segments) >= MOST_SEGMENTS else ()
        follows = any(not segment.omitted for segment in self.segments)
        span = SummaryJob(first, end, tuple(sorted(index for index in pinned if index >= first)), 0, merges, follows)
        span.tokens, span.prefix_only = self._size(span), prefix_only
        return span

    def _fitting(self, budget: int) -> int:
        """Return the index up to which whole groups of the view fit into *budget* tokens."""
        view = self._view
        position = bisect_right(range(len(view.indexes)), budget, key=view.before) - 1
        return view.groups[view.indexes[position]] if position > 0 else 0

    def _end(self, conditions: Conditions, keep: int | None = None) -> int:
        """Return the index behind the last message old enough to summarize."""
        view, users = self._view, self._candidates.users
        end = len(view.record) - max(self._retention.messages if keep is None else keep, 1)
        if conditions.binding == "turn" and users and view.reasoned >= users[-1] and not self._full(conditions):
            end = min(end, users[-1])
        return view.groups[end] if end > self.summarized else self.summarized

    def _old(self, end: int) -> int:
        """Return the approximate tokens of a summary's span up to index *end*; the few pinned results are included."""
        view, users, first = self._view, self._candidates.users, self.summarized
        old = view.between(first, end)
        for index in (users[0], users[-1]) if len(users) > 1 else users:
            if first <= index < end:
                old -= view.between(index, index + 1)
        return old

    def _size(self, span: SummaryJob) -> int:
        view = self._view
        return view.between(span.first, span.end) - sum(view.between(index, index + 1) for index in span.kept)

    def pinned(self, first: int, end: int) -> set[int]:
        """Return the indexes in the range that every view shows.

        They are the user's first and newest message, and pinned results with their calls.
        """
        users, pins = self._candidates.users, self._candidates.pins
        found = {index for index in (*users[:1], *users[-1:]) if first <= index < end}
        for index in pins[bisect_left(pins, first) : bisect_left(pins, end)]:
            start = self._view.groups[index]
            found.update(range(max(start, first), self.group_end(start)))
        return found

    def group_end(self, index: int) -> int:
        """Return the index behind the group of the message at *index*."""
        groups = self._view.groups
        end = index + 1
        while end < len(groups) and groups[end] == groups[index]:
            end += 1
        return end

    # -- a full window -------------------------------------------------------------------------------------------

    def omit_oldest(self, conditions: Conditions) -> list[Edit]:
        """Omit the oldest messages, down to half of the budget, where nothing can be summarized."""
        view = self._view
        edits: list[Edit] = []
        span = self._span(conditions, 1)
        if span is None:
            return edits
        end, kept = span.first, set(span.kept)
        left = view.tokens
        while end < span.end and left > _AFTER * conditions.budget:
            stop = self.group_end(end)
            left -= sum(view.between(index, index + 1) for index in range(end, stop) if index not in kept)
            end = stop
        end = min(end, span.end)
        if view.tokens - left >= _PROGRESS * conditions.budget or view.tokens > conditions.budget:
            first, kept_here = span.first, tuple(index for index in span.kept if index < end)
            if self.segments and self.segments[-1].omitted:  # extend the last notice instead of adding one
                first, pinned = self.segments[-1].first, self.pinned(self.summarized, end)
                kept_here = tuple(sorted({*self.segments[-1].kept, *pinned}))
            text = f"({end - first - len(kept_here)} messages before this are not shown.)"
            self._replace(self._summary(SummaryJob(first, end, kept_here, 0), text, omitted=True), edits)
            self._strip_bound(conditions, first, edits)
        return edits

    def reduce_newest(self, conditions: Conditions) -> list[Edit]:
        """Reduce the newest results as well, except those of the current turn."""
        live = self._view.groups[-1] if self._view.groups else 0
        edits: list[Edit] = []
        found = self._candidates.take_newest(self._view, live)
        if found is not None:
            self._apply(found, edits)
            self._strip_bound(conditions, found.indexes[0], edits)
        return edits

    def truncate_first_message(self, conditions: Conditions) -> list[Edit]:
        """Show only the beginning of the user's first message if there is another one: the last resort."""
        edits: list[Edit] = []
        users, view = self._candidates.users, self._view
        message = view.at(users[0]) if len(users) > 1 else None
        if isinstance(message, UserMessage) and message is view.record[users[0]]:
            text = f"(The user's first message is too long to be shown. It begins: {message.text[:_BEGINNING]}...)"
            self._replace(self._summary(SummaryJob(users[0], users[0] + 1, (), 0), text, omitted=True), edits)
            self._strip_bound(conditions, users[0], edits)
        return edits

    # -- summaries -----------------------------------------------------------------------------------------------

    def prepare(self, job: SummaryJob, text: str, merged: str | None) -> list[Summarize]:
        """Return the edits that apply the summary *text* of *job*, and *merged*, the one of its earlier summaries."""
        edits = [self._summary(job, f"Summary of the conversation before this:\n{text}")]
        if job.merges and merged:
            first, end = job.merges[0].first, max(old.end for old in job.merges)
            starts = {old.first for old in job.merges}
            between = self._view.indexes[self._view.position(first) : self._view.position(end)]
            whole = SummaryJob(first, end, tuple(index for index in between if index not in starts), 0)
            edits.insert(0, self._summary(whole, f"Summary of the conversation before this:\n{merged}"))
        return edits

    def _summary(self, job: SummaryJob, text: str, *, omitted: bool = False) -> Summarize:
        check = fingerprint(self._view.record[job.first : job.end])
        handle = handle_for(f"{job.first}-{job.end} {check}")
        text += hint(handle, recallable=self._candidates.recallable)
        return Summarize(job.first, job.end, job.kept, text, handle, check, omitted)

    # -- bound reasoning -----------------------------------------------------------------------------------------

    def _full(self, conditions: Conditions) -> bool:
        return self._view.tokens > FULL * conditions.budget

    def _bound(self, conditions: Conditions, first: int) -> bool:
        """Return True if reasoning that is still sent is bound to messages at or behind index *first*."""
        return conditions.binding == "prefix" and self._view.reasoned >= first

    def _may_edit(self, conditions: Conditions, first: int) -> bool:
        """Return True if an edit at index *first* is permitted while the window is not full."""
        return conditions.cold or conditions.turn_begins or not self._bound(conditions, first)

    def strip(self) -> list[Edit]:
        """Omit all reasoning of the view, after a change to the prefix that it is bound to."""
        edits: list[Edit] = []
        if self._view.reasoned >= 0:
            self._apply(Strip(len(self._view.record)), edits)
        return edits

    def _strip_bound(self, conditions: Conditions, first: int, edits: list[Edit]) -> None:
        if self._bound(conditions, first):
            edits += self.strip()

    def _apply(self, edit: Edit, edits: list[Edit]) -> None:
        self._view.apply(edit)
        edits.append(edit)
