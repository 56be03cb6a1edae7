"""The token engine: the record of a conversation, the view that a model is sent, and the cost of both. No I/O.

engine = TokenEngine(counter, limit=200_000)
engine.append(message)                              # counted once, when the count is needed
plan = engine.plan(fixed, reserve, "anthropic:claude-...")
...                                                 # if plan.urgent: make plan.job's summary, engine.complete(...)
edits = engine.fit()                                # journal these before sending the request
request = engine.view(), engine.breakpoints
miss = engine.observe(tokens, settings)             # the provider's figures
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_

from ..context_state import ContextReport, ContextState
from ..messages import Message, Messages
from ..usage import Tokens
from .caching.breakpoints import Breakpoints
from .caching.monitor import CacheMonitor, Miss
from .candidates import Candidates
from .counting.base import TokenCounter
from .counting.sizes import FRAME, max_tokens_of, measure_with
from .counting.statistics import TokenStatistics
from .edits import Edit, Reduce, Summarize, carry_over, decode_edit, encode_edit, shift_edit
from .planner import FULL, Conditions, Planner, SummaryJob
from .recall import recalled
from .retention import Retention
from .view import View
from .window import ContextWindow

_MOST_FAILURES = 2
"""Consecutive failed summaries after which messages are omitted instead."""
_SHARED = TokenStatistics()
"""Counts and calibrations of engines that are given none."""


@dataclass(slots=True)
class Plan:
    """The work that is due before the next request."""

    job: SummaryJob | None = None
    """A summary to make."""
    urgent: bool = False
    """True if the request must wait for the summary because the window is full. Without a job, one is being made."""


_NOTHING_DUE = Plan()


@dataclass(frozen=True, slots=True)
class FoldedConversation:
    """A finished run's counted view, with which the next run of the conversation starts instead of folding it again."""

    state: ContextState
    """The state for which the view was folded."""
    counter: TokenCounter
    retention: Retention
    example_count: int
    view: View
    candidates: Candidates
    segments: tuple[Summarize, ...]
    summarized: int

    def matches(self, engine: TokenEngine, messages: Sequence[Message], state: ContextState | None) -> bool:
        """Return True if *engine* can continue the view with *messages*, which extend the folded record by identity."""
        record = self.view.record
        return (
            self.counter is engine.counter
            and self.retention == engine.retention
            and self.example_count == engine.example_count
            and state is not None
            and (state is self.state or state == self.state)
            and len(record) <= len(messages)
            and all(map(is_, record, messages))
        )


class TokenEngine:
    """The record and the view of one conversation.

    *limit* is the context in tokens of the model that is asked next. *clock* returns seconds. *statistics* holds counts
    and calibrations that several engines share; by default all engines of the process do.
    """

    def __init__(
        self,
        counter: TokenCounter,
        limit: int,
        retention: Retention | None = None,
        clock: Callable[[], float] = time.time,
        statistics: TokenStatistics | None = None,
    ) -> None:
        self.counter = counter
        self.retention = retention or Retention()
        self.breakpoints: tuple[int, ...] | None = None
        """Positions in the view that end a cached prefix; None if the provider needs no cache breakpoints."""
        self.example_count = 0
        """Leading messages of the record that are examples: no edit treats them as the user's."""
        self.tokens_before = 0
        """Tokens of the view before the last plan's edits."""
        self._window = ContextWindow(counter, limit, self.retention.soft_limit, statistics or _SHARED)
        self._clock = clock
        self._measure = measure_with(counter)
        self._monitor = CacheMonitor()
        self.report: ContextReport = self._monitor.report
        """Tokens of the requests so far."""
        self.billed = self._monitor.billed
        self._cold = self._expired = True
        self._now = 0.0
        self._restart(View(self._measure), Candidates(self.retention.results, self._measure))

    def _restart(self, view: View, candidates: Candidates) -> None:
        self._view = view
        self._candidates = candidates
        self._planner = Planner(view, candidates, self.retention)
        self._breakpoints = Breakpoints()
        self._conditions: Conditions | None = None  # of the last plan
        self._fresh: list[Edit] = []
        self._job: SummaryJob | None = None
        self.prepared: list[Summarize] = []
        """Summaries that are made and not applied yet."""
        self._prepared_for: SummaryJob | None = None
        self._failed = 0
        self._answered = 0  # index of the newest answer: the model has seen the messages before it
        self._sent = 0  # messages of the record at the last request
        self._cacheable = 0  # tokens of the last request that the provider can cache
        self._same = 0  # tokens of the last request with which the next one begins
        self._record_tokens = 0
        self._user_tokens: int | None = None  # of the user's first and newest message; None: not computed
        self._pending = 0  # upper bound of the tokens that are not counted yet
        self._slack = -1  # bytes that may be added before the next full plan
        self._skipped = 0  # requests since the last full plan
        self._planned = False  # the last plan was a full one
        self._below_floor = False
        self._edited = False  # since the last observation
        self._moved = False  # the prefix that reasoning may be bound to has changed

    # -- the record ----------------------------------------------------------------------------------------------

    def append(self, message: Message) -> None:
        """Append *message* to the record in constant time."""
        self._view.append(message)
        self._pending += max_tokens_of(message)
        role = message.role
        if role == "assistant":
            self._answered = len(self._view.record) - 1
        elif role == "user" or (message.role == "tool" and message.retain != "window"):
            self._slack = -1

    def _settle(self) -> None:
        """Count the messages appended since the last call."""
        view, index, before = self._view, self._view.settled, self._view.tokens
        candidates = self._candidates
        users = len(candidates.users)
        for message in view.settle():
            if index >= self.example_count:
                candidates.add(message, index, view)
            index += 1
        self._record_tokens += view.tokens - before
        if len(candidates.users) != users:
            self._user_tokens = None
        self._slack -= self._pending
        self._pending = 0

    def replace(self, messages: Sequence[Message]) -> None:
        """Start again with other messages, after a hook has replaced the conversation."""
        recallable, self.example_count = self._candidates.recallable, 0
        self._restart(View(self._measure), Candidates(self.retention.results, self._measure))
        self._candidates.recallable = recallable
        self._monitor.replaced()
        for message in messages:
            self.append(message)

    def record(self) -> Messages:
        """Return all messages as they were appended."""
        return Messages(self._view.record)

    @property
    def edits(self) -> list[Edit]:
        """Return all edits so far."""
        return list(self._view.edits)

    @property
    def tokens(self) -> int:
        """Return the counted tokens of the view."""
        self._settle()
        return self._view.tokens

    def tokens_of(self, message: Message) -> int:
        """Return the counted tokens of *message* without a provider's framing; the message caches the count."""
        return self._measure(message).tokens - FRAME

    @property
    def limit(self) -> int:
        """Return the context in tokens of the model that is asked next."""
        return self._window.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        if limit != self._window.limit:
            self._window.limit, self._slack = limit, -1

    @property
    def carrying_cost(self) -> tuple[float, float]:
        """Return the cost so far of carrying what the next edits would remove, in tokens of uncached input."""
        results, messages = self._planner.carrying_cost
        return round(results), round(messages)

    # -- restoring -----------------------------------------------------------------------------------------------

    def restore(self, edits: Iterable[Edit], carrying_cost: tuple[float, float] = (0.0, 0.0)) -> None:
        """Apply the journaled *edits* of this run, after all messages that they concern were appended."""
        self._settle()
        for edit in edits:
            self._adopt(edit)
        self._candidates.refresh(self._view)
        self._planner.carrying_cost = carrying_cost
        self._sent = len(self._view.record)
        self._monitor.sent_at = self._clock()  # if the cache has expired, an edit merely comes a little later

    def _adopt(self, edit: Edit) -> None:
        self._view.apply(edit)
        self._planner.adopt(edit)
        self._user_tokens = None

    def state(self, skipped: Sequence[int] = ()) -> ContextState:
        """Return the state for the next run of the conversation, which lacks the messages at the indexes *skipped*."""
        record = self._view.record
        edits, prepared = (
            [encode_edit(edit) for old in log if (edit := carry_over(old, record, skipped)) is not None]
            for log in (self._view.edits, self.prepared)
        )
        return ContextState(edits, prepared, self._monitor.sent_at, self._window.model, self._planner.carrying_cost)

    def fold(self, state: ContextState) -> FoldedConversation:
        """Return the finished view together with its *state*, for the next run in this process to `start` with.

        The engine must not be used afterwards: the result shares its data.
        """
        self._settle()
        planner = self._planner
        return FoldedConversation(
            state=state,
            counter=self.counter,
            retention=self.retention,
            example_count=self.example_count,
            view=self._view,
            candidates=self._candidates,
            segments=tuple(planner.segments),
            summarized=planner.summarized,
        )

    def start(
        self,
        messages: Sequence[Message],
        state: ContextState | None = None,
        *,
        example_count: int = 0,
        folded: FoldedConversation | None = None,
    ) -> bool:
        """Load the *messages* of earlier runs, led by *example_count* examples, and continue the view of *state*.

        With *folded*, the view of the same messages (by identity), only messages behind it are counted. Return False if
        *state* has edits of other messages; they are not applied.
        """
        self.example_count = example_count
        if folded is None or state is None or not folded.matches(self, messages, state):
            for message in messages:
                self.append(message)
            return state is None or self.resume(state, example_count)
        self._restart(folded.view.copy(), folded.candidates.copy())
        self._planner.segments, self._planner.summarized = list(folded.segments), folded.summarized
        self._record_tokens = self._view.tokens
        for message in messages[len(self._view.record) :]:
            self.append(message)
        self._continue(state, example_count)
        return True

    def resume(self, state: ContextState, offset: int = 0) -> bool:
        """Continue the view of the last run, whose first message has index *offset*.

        Return False if *state* has edits of other messages; neither they nor later edits are applied.
        """
        self._settle()
        for encoded in state.edits:
            edit = shift_edit(decode_edit(encoded), lambda index: index + offset)
            if not self._planner.fits(edit):
                self._candidates.refresh(self._view)
                return False
            self._adopt(edit)
        self._candidates.refresh(self._view)
        self._continue(state, offset)
        return True

    def _continue(self, state: ContextState, offset: int) -> None:
        self.restore_prepared(prepared_edits(state, offset))
        self._monitor.sent_at, self._planner.carrying_cost = state.sent_at, state.carrying_cost
        self._window.select(state.model)
        self._sent = len(self._view.record)
        self._moved = bool(state.edits) and self._window.binding != "prefix"

    def restore_prepared(self, edits: Sequence[Edit]) -> None:
        """Restore summaries that were made before and not applied, as they were in `prepared`."""
        made = [edit for edit in edits if isinstance(edit, Summarize) and self._planner.fits(edit)]
        if made and made[-1].end > self._planner.summarized:
            job = SummaryJob(made[-1].first, made[-1].end, made[-1].kept, 0, immediate=True)
            self.prepared, self._prepared_for = made, job

    # -- before a request ----------------------------------------------------------------------------------------

    def plan(
        self,
        fixed: Mapping[str, str],
        reserve: int,
        model: str,
        *,
        recallable: bool = False,
        summaries: bool = True,
    ) -> Plan:
        """Make the edits that are due before the next request to *model* (`provider:name`).

        *fixed*: the texts sent with every request (system prompt, tools) by name; an identical object is assumed to be
        unchanged. *reserve*: tokens for the answer. *recallable*: the model can call `recall`. *summaries*: the model
        can summarize.
        """
        window = self._window
        self._now = now = self._clock()
        sent_at = self._monitor.sent_at
        self._expired = sent_at is None or now - sent_at > window.rule.seconds
        if (
            self._pending <= self._slack
            and (self._below_floor or not self._expired)
            and model == window.model
            and fixed is window.fixed.texts
            and reserve == window.reserve
        ):
            self._skipped += 1
            self._planned = False
            return _NOTHING_DUE
        self._planned = True
        self._cold = self._expired or model != window.model
        self._settle()
        window.select(model)
        self._moved = self._moved or (bool(window.fixed.texts) and fixed != window.fixed.texts)
        window.fixed.update(fixed)
        window.reserve = reserve
        return self._plan(recallable=recallable, summaries=summaries)

    def _plan(self, *, recallable: bool, summaries: bool) -> Plan:
        view, planner, window = self._view, self._planner, self._window
        if not self._fresh:
            self.tokens_before = view.tokens
        if self._moved and window.binding == "prefix":
            self._moved = False
            self._note(planner.strip())
        self._candidates.recallable = recallable
        possible = summaries and self.retention.summaries and self._failed < _MOST_FAILURES
        conditions = self._conditions = self._conditions_now(summaries=possible)
        if self._candidates.first_single_use is not None:
            self._note(planner.reduce_single_use(conditions, self._answered))
        due = planner.decide(conditions, self._prepared_for, busy=self._job is not None)
        if due.splice:
            self._splice(conditions)
            if view.tokens > conditions.budget:  # the summary covers only what its own request could contain
                due.job = planner.decide(conditions, None).job
        if due.reduce:
            self._note(planner.reduce(conditions))
        self._skipped = 0
        full = view.tokens > FULL * conditions.budget
        self._below_floor = view.tokens < planner.floor(conditions)
        if self._job is not None:
            return Plan(urgent=full)
        self._slack = -1 if due.job or self.prepared or full else planner.slack(conditions)
        self._job = due.job
        return Plan(due.job, urgent=full) if due.job is not None else _NOTHING_DUE

    def _conditions_now(self, *, summaries: bool) -> Conditions:
        window, view, users = self._window, self._view, self._candidates.users
        window.update(view.by_kind)
        cached = view.before(view.position(self._sent))
        if not window.rule.breakpoints:
            self._same = window.fixed.tokens + cached
        return Conditions(
            rule=window.rule,
            binding=window.binding,
            cold=self._cold,
            turn_begins=bool(users) and users[-1] >= self._sent,
            cached=cached,
            budget=window.budget,
            summaries=summaries,
            requests=1 + self._skipped,
        )

    def complete(self, job: SummaryJob, text: str | None, merged: str | None = None) -> bool:
        """Take in the summary *text* of *job*, and *merged*, the one of `job.merges`; None: it failed.

        Return False and change nothing if the text is empty or longer than half of what it would replace. An invalid
        *merged* leaves the earlier summaries as they are.
        """
        if job is not self._job:
            return False  # of a conversation that was replaced
        self._job = None
        text = self._valid_summary(text, job.tokens)
        if text is None:
            self._failed += 1
            self._planner.carrying_cost = (self._planner.carrying_cost[0], 0.0)
            return False
        self._failed = 0
        merged = self._valid_summary(merged, 2 * sum(self.counter.count(old.text) for old in job.merges))
        self.prepared, self._prepared_for = self._planner.prepare(job, text, merged), job
        return True

    def _valid_summary(self, text: str | None, tokens: int) -> str | None:
        """Return the stripped summary of *tokens*, or None if it is empty or too long."""
        text = (text or "").strip()
        return text if text and self.counter.count(text) <= max(tokens // 2, 1) else None

    def fit(self) -> list[Edit]:
        """Make the view fit the window at any cost; return all edits since the last request.

        Raises `ContextFloorError`, naming what fills the window, if not even the newest messages fit.
        """
        if not self._planned:
            return []
        conditions, planner, view, window = self._conditions, self._planner, self._view, self._window
        assert conditions is not None
        if view.tokens > FULL * conditions.budget:
            self._relieve(conditions)
        if self._fresh:  # the remaining text may be of another kind than the removed text
            window.update(view.by_kind)
            conditions = self._conditions = replace(conditions, budget=window.budget)
            if view.tokens > window.hard_budget:
                self._omit_oldest(conditions)
                window.update(view.by_kind)
        if view.tokens > window.hard_budget:
            self._note(planner.truncate_first_message(conditions))
            window.update(view.by_kind)
        if view.tokens > window.hard_budget:
            raise window.floor_error(view, window.reserve)
        fresh, self._fresh = self._fresh, []
        return fresh

    def _relieve(self, conditions: Conditions) -> None:
        """Edit a full view: apply prepared summaries, reduce the newest results, omit the oldest messages."""
        view, planner = self._view, self._planner
        if self.prepared:
            self._splice(conditions)
        if view.tokens > FULL * conditions.budget and not conditions.summaries:
            self._omit_oldest(conditions)
        if view.tokens > conditions.budget:
            self._note(planner.reduce_newest(conditions))
        if view.tokens > conditions.budget:
            self._omit_oldest(conditions)

    def _splice(self, conditions: Conditions) -> None:
        made, self.prepared, self._prepared_for = self.prepared, [], None
        self._note(self._planner.splice(made, conditions))

    def _omit_oldest(self, conditions: Conditions) -> None:
        edits = self._planner.omit_oldest(conditions)
        if edits:
            self._job, self.prepared, self._prepared_for = None, [], None  # of messages no longer in the view
        self._note(edits)

    def _note(self, edits: list[Edit]) -> None:
        """Record *edits*: less of the last request begins the next one, and other prefixes are stable."""
        if not edits:
            return
        for edit in edits:
            first = edit.indexes[0] if isinstance(edit, Reduce) else edit.first if isinstance(edit, Summarize) else 0
            position = self._view.position(first)
            if self.breakpoints is not None:
                position = max([mark + 1 for mark in self.breakpoints if mark < position], default=0)
            self._same = min(self._same, self._window.fixed.tokens + self._view.before(position))
            if isinstance(edit, Reduce):
                newest = self._candidates.first_kept
                self._breakpoints.edited(first - 1, len(self._view.record) - 1 if newest is None else newest - 1)
        self._edited = True
        self._user_tokens = None
        self._moved = self._moved or self._window.binding != "prefix"
        self.report.edits += len(edits)
        self._fresh += edits

    def preview(self) -> Messages:
        """Return the messages that a request would contain now."""
        return self._view.messages()

    def position_of(self, index: int) -> int:
        """Return how many messages the view shows before the message at *index* of the record."""
        return self._view.position(index)

    def view(self) -> Messages:
        """Return the messages to send, and set `breakpoints`. Without an edit, one view is a prefix of the next."""
        view, window = self._view, self._window
        self._sent = len(view.record)
        self._monitor.sent_at = self._now
        if window.rule.breakpoints:
            candidates = self._candidates
            once = candidates.first_single_use
            until = len(view.shown) if once is None or window.binding == "prefix" else view.position(once)
            self._breakpoints.expect(candidates.first_unreduced, self._planner.summarized)
            self.breakpoints = self._breakpoints.place(view, window.rule, until)
            end = self.breakpoints[-1] + 1 if self.breakpoints else 0
        else:
            self.breakpoints, end = None, len(view.shown)
        if self._planned:
            self._cacheable = window.fixed.tokens + view.before(end)
            self._by_kind = tuple(view.by_kind)
        return view.messages()

    # -- after a request -----------------------------------------------------------------------------------------

    def observe(self, tokens: Tokens, settings: object = None) -> Miss | None:
        """Take in the provider's figures for the request that `view` was made for.

        *settings*: the other parts of the request that decide about cache entries. Return the miss if the provider read
        fewer tokens from its cache than expected.
        """
        window, monitor = self._window, self._monitor
        key = (window.model, window.fixed.texts, settings)
        if not self._planned:  # no edit since the last request, and all of this one can be cached
            return monitor.observe(
                tokens, key, window.rule, cold=self._expired, same=monitor.cacheable, cacheable=tokens.prompt
            )
        view_tokens, fixed_tokens = self._view.tokens, window.fixed.tokens
        total = view_tokens + fixed_tokens
        ratio = tokens.prompt / total if total else 1.0
        monitor.omitted = int(max(self._record_tokens - view_tokens, 0) * ratio)
        same, cacheable = int(self._same * ratio), int(self._cacheable * ratio)
        miss = monitor.observe(tokens, key, window.rule, cold=self._expired, same=same, cacheable=cacheable)
        self._same = self._cacheable
        window.gauge.observe(self._by_kind, fixed_tokens, tokens.prompt, grown=not self._edited)
        self._edited = False
        return miss

    def lower_limit(self) -> None:
        """Lower the budget after the model has rejected the last view as too long."""
        self._settle()
        self._window.gauge.rejected(self._view.by_kind, self._window.fixed.tokens)
        self._slack = -1

    # -- long results and messages -------------------------------------------------------------------------------

    def allowance(self, results: int, limit: int | None = None) -> int:
        """Return the tokens that each of *results* results of one turn may have.

        They share half of the budget that the user's first and newest message leave. *limit* is the tool's own limit.
        """
        said = self._user_tokens
        if said is None:
            users = self._candidates.users
            between = self._view.between
            said = self._user_tokens = sum([between(index, index + 1) for index in {*users[:1], *users[-1:]}])
        share = max(self._window.budget - said, 2) // 2 // max(results, 1)
        return max(1, min(self.retention.max_result_tokens if limit is None else limit, share))

    def truncate(self, text: str, fixed: Mapping[str, str], reserve: int, model: str) -> str:
        """Return the beginning of *text* that a user's message to *model* may have; the same object if all of it fits.

        Raises `ContextFloorError` if *fixed* and *reserve* leave no tokens.
        """
        return self._window.truncate(text, fixed, reserve, model)

    def recall(self, handle: str) -> str | None:
        """Return the whole content that was cut, reduced, summarized or omitted under *handle*; None if unknown."""
        return recalled(self._view.record, self._view.edits, handle)


def prepared_edits(state: ContextState, offset: int) -> list[Edit]:
    """Return the prepared summaries of *state*, for a record whose conversation begins at index *offset*."""
    return [shift_edit(decode_edit(encoded), lambda index: index + offset) for encoded in state.prepared]
