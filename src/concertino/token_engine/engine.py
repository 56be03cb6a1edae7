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
from dataclasses import replace

from ..context_state import ContextReport, ContextState
from ..messages import Message, Messages
from ..usage import Tokens
from .caching.monitor import CacheMonitor, Miss
from .caching.prefix import CachedPrefix
from .counting.base import TokenCounter
from .counting.sizes import FRAME, measure_with
from .counting.statistics import TokenStatistics
from .edits import Edit, Summarize
from .fold import ConversationFold, FoldedConversation
from .planner import FULL, Conditions, Plan, SummaryJob
from .recall import recalled
from .retention import Retention
from .window import WindowBudget

_SHARED = TokenStatistics()
"""Counts and calibrations of engines that are given none."""
_RETENTION = Retention()
_NOTHING_DUE = Plan()
_BYTES_PER_TOKEN = 4
"""Average bytes of a token in English text."""


class TokenEngine:
    """The record and the view of one conversation.

    *limit* is the context in tokens of the model that is asked next. *clock* returns seconds. *statistics* contains
    counts and calibrations that several engines share; by default all engines of the process do.
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
        self.retention = retention or _RETENTION
        self.limit = limit
        """Context in tokens of the model that is asked next."""
        self.example_count = 0
        """Leading messages that are examples: no edit treats them as the user's."""
        self.breakpoints: tuple[int, ...] | None = None
        """View positions that end a cached prefix in the last request; None if the provider needs none."""
        self.tokens_before = 0
        """Tokens of the view before the last plan's edits."""
        self._window = WindowBudget(counter, limit, self.retention.soft_limit, statistics or _SHARED)
        self._clock = clock
        self._measure = measure_with(counter)
        self._monitor = CacheMonitor()
        self.report: ContextReport = self._monitor.report
        """Tokens of the requests so far."""
        self._cold = self._expired = True
        self._now = 0.0
        self._restart(ConversationFold(counter, self.retention))

    def _restart(self, fold: ConversationFold) -> None:
        self._fold = fold
        self._prefix = CachedPrefix()
        self._conditions: Conditions | None = None  # of the last plan
        self._fresh: list[Edit] = []  # since the last request
        self._sent = 0  # messages of the record at the last request
        self._slack = -1  # bytes that may be added before the next full plan
        self._skipped = 0  # requests since the last full plan
        self._planned = False  # the last plan was a full one
        self._below_floor = False
        self._moved = False  # the prefix that reasoning may be bound to has changed

    # -- the record ----------------------------------------------------------------------------------------------

    def append(self, message: Message) -> None:
        """Append *message* to the record in constant time."""
        self._fold.append(message)
        if message.role == "user" or (message.role == "tool" and message.retain != "window"):
            self._slack = -1

    def _settle(self) -> None:
        """Count the messages appended since the last call."""
        self._slack -= self._fold.pending
        self._fold.settle(self.example_count)

    def replace(self, messages: Sequence[Message]) -> None:
        """Start again with other messages, after a hook has replaced the conversation."""
        recallable, self.example_count = self._fold.candidates.recallable, 0
        self._restart(ConversationFold(self.counter, self.retention))
        self._fold.candidates.recallable = recallable
        self._monitor.replaced()
        for message in messages:
            self.append(message)

    def record(self) -> Messages:
        """Return all messages as they were appended."""
        return Messages(self._fold.view.record)

    @property
    def edits(self) -> list[Edit]:
        """Return all edits so far."""
        return list(self._fold.view.edits)

    @property
    def prepared(self) -> list[Summarize]:
        """Return the summaries that are made and not applied yet."""
        return self._fold.summaries.prepared

    @property
    def tokens(self) -> int:
        """Return the counted tokens of the view."""
        self._settle()
        return self._fold.view.tokens

    @property
    def estimated_tokens(self) -> int:
        """Return the approximate tokens of the planned request without counting any message."""
        return self._window.fixed.tokens + self._fold.view.tokens + self._fold.pending // _BYTES_PER_TOKEN

    def tokens_of(self, message: Message) -> int:
        """Return the counted tokens of *message* without a provider's framing; the message caches the count."""
        return self._measure(message).tokens - FRAME

    @property
    def carrying_cost(self) -> tuple[float, float]:
        """Return the cost so far of carrying what the next edits would remove, in tokens of uncached input."""
        results, messages = self._fold.planner.carrying_cost
        return round(results), round(messages)

    # -- earlier runs --------------------------------------------------------------------------------------------

    def start(
        self,
        messages: Sequence[Message],
        state: ContextState | None = None,
        *,
        example_count: int = 0,
        folded: FoldedConversation | None = None,
    ) -> bool:
        """Load the *messages* of earlier runs, led by *example_count* examples, and continue the view of *state*.

        If *messages* extend the record of *folded* (the same objects), only the new ones are counted. Return False if
        *state* has edits of other messages; they are not applied.
        """
        self.example_count = example_count
        source = None
        if folded is not None and state is not None:
            source = folded.continued_by(messages, state, self.counter, self.retention, example_count)
        if source is not None:
            self._restart(ConversationFold(self.counter, self.retention, source))
        for message in messages[len(self._fold.view.record) :]:
            self.append(message)
        if state is None:
            return True
        if source is None and state.edits:
            self._settle()
        if source is None and not self._fold.resume(state, example_count):
            return False
        self._fold.adopt(state, example_count)
        self._monitor.sent_at = state.sent_at
        self._window.select(state.model)
        self._sent = len(self._fold.view.record)
        self._moved = bool(state.edits) and self._window.binding != "prefix"
        return True

    def state(self, skipped: Sequence[int] = ()) -> ContextState:
        """Return the state for the next run of the conversation, which lacks the messages at the indexes *skipped*."""
        return self._fold.state(skipped, self._monitor.sent_at, self._window.model)

    def folded(self, state: ContextState) -> FoldedConversation:
        """Return the fold of this finished run with its *state*, for the next run in this process to `start` with.

        The engine must not be used afterwards: both share the same data.
        """
        self._fold.log_as(state, self.example_count)
        return FoldedConversation(state, self.counter, self.example_count, self._fold)

    def restore(self, edits: Iterable[Edit], carrying_cost: tuple[float, float] = (0.0, 0.0)) -> None:
        """Apply the journaled *edits* of this run, after all messages that they concern were appended."""
        self._settle()
        self._fold.restore(edits)
        self._fold.planner.carrying_cost = carrying_cost
        self._sent = len(self._fold.view.record)
        self._monitor.sent_at = self._clock()  # if the cache has expired, an edit merely comes a little later

    def restore_prepared(self, edits: Sequence[Edit]) -> None:
        """Restore summaries that were made before and not applied, as they were in `prepared`."""
        self._fold.summaries.restore(edits)

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
            self._fold.pending <= self._slack
            and (self._below_floor or not self._expired)
            and model == window.model
            and fixed is window.fixed.texts
            and reserve == window.reserve
            and self.limit == window.limit
        ):
            self._skipped += 1
            self._planned = False
            return _NOTHING_DUE
        self._cold = self._expired or model != window.model
        window.select(model)
        self._moved = self._moved or (bool(window.fixed.texts) and fixed != window.fixed.texts)
        window.fixed.update(fixed)
        window.limit, window.reserve = self.limit, reserve
        slack = -1 if self._moved else self._fold.uncounted_slack(window)
        if self._fold.pending <= slack:
            self._slack, self._below_floor, self._planned = slack, True, False
            self._skipped += 1
            return _NOTHING_DUE
        self._planned = True
        self._settle()
        return self._plan(recallable=recallable, summaries=summaries)

    def _plan(self, *, recallable: bool, summaries: bool) -> Plan:
        fold, window = self._fold, self._window
        view, planner, pending = fold.view, fold.planner, fold.summaries
        if not self._fresh:
            self.tokens_before = view.tokens
        if self._moved and window.binding == "prefix":
            self._moved = False
            self._note(planner.strip())
        fold.candidates.recallable = recallable
        window.update(view.by_kind)
        conditions = self._conditions = fold.conditions(
            window,
            cold=self._cold,
            sent=self._sent,
            requests=1 + self._skipped,
            summaries=summaries and pending.possible,
        )
        if not window.rule.breakpoints:
            self._prefix.same = window.fixed.tokens + conditions.cached
        if fold.candidates.first_single_use is not None:
            self._note(planner.reduce_single_use(conditions, fold.answered))
        due = planner.decide(conditions, pending.prepared_for, busy=pending.job is not None)
        if due.splice:
            self._note(fold.splice(conditions))
            if view.tokens > conditions.budget:  # the summary covers only what its own request could contain
                due.job = planner.decide(conditions, None).job
        if due.reduce:
            self._note(planner.reduce(conditions))
        self._skipped = 0
        full = view.tokens > FULL * conditions.budget
        self._below_floor = view.tokens < planner.floor(conditions.budget)
        if pending.job is not None:
            return Plan(urgent=full)
        waiting = due.job is not None or pending.prepared or fold.candidates.first_single_use is not None
        self._slack = -1 if waiting or full else planner.slack(conditions)
        pending.job = due.job
        return Plan(due.job, urgent=full) if due.job is not None else _NOTHING_DUE

    def complete(self, job: SummaryJob, text: str | None, merged: str | None = None) -> bool:
        """Take in the summary *text* of *job*, and *merged*, the one of `job.merges`; None: it failed.

        Return False and change nothing if the text is empty or longer than half of what it would replace. An invalid
        *merged* leaves the earlier summaries as they are.
        """
        return self._fold.summaries.complete(job, text, merged)

    def fit(self) -> list[Edit]:
        """Make the view fit the window at any cost; return all edits since the last request.

        Raises `ContextFloorError`, naming what fills the window, if not even the newest messages fit.
        """
        if not self._planned:
            return []
        conditions, fold, view, window = self._conditions, self._fold, self._fold.view, self._window
        assert conditions is not None
        if view.tokens > FULL * conditions.budget:
            self._note(fold.relieve(conditions))
        if self._fresh:  # the remaining text may be of another kind than the removed text
            window.update(view.by_kind)
            conditions = self._conditions = replace(conditions, budget=window.budget)
            if view.tokens > window.hard_budget:
                self._note(fold.omit_oldest(conditions))
                window.update(view.by_kind)
        if view.tokens > window.hard_budget:
            self._note(fold.planner.truncate_first_message(conditions))
            window.update(view.by_kind)
        if view.tokens > window.hard_budget:
            raise window.floor_error(view, window.reserve)
        fresh, self._fresh = self._fresh, []
        return fresh

    def _note(self, edits: list[Edit]) -> None:
        """Take note of *edits* that the view has applied."""
        if edits:
            self._fold.edited()
            self._prefix.shorten(edits, self._fold.view, self._window, self._fold.candidates)
            self._moved = self._moved or self._window.binding != "prefix"
            self.report.edits += len(edits)
            self._fresh += edits

    def preview(self) -> Messages:
        """Return the messages that a request would contain now."""
        return self._fold.view.messages()

    def position_of(self, index: int) -> int:
        """Return how many messages the view shows before the message at *index* of the record."""
        return self._fold.view.position(index)

    def view(self) -> Messages:
        """Return the messages to send, and set `breakpoints`. Without an edit, one view is a prefix of the next."""
        fold = self._fold
        self._sent = len(fold.view.record)
        self._monitor.sent_at = self._now
        planner = fold.planner
        self._prefix.extend(fold.view, self._window, fold.candidates, planner.summarized, counted=self._planned)
        self.breakpoints = self._prefix.breakpoints
        return fold.view.messages()

    # -- after a request -----------------------------------------------------------------------------------------

    def observe(self, tokens: Tokens, settings: object = None) -> Miss | None:
        """Take in the provider's figures for the request that `view` was made for.

        *settings*: the other parts of the request that decide about cache entries. Return the miss if the provider read
        fewer tokens from its cache than expected.
        """
        window, monitor, prefix = self._window, self._monitor, self._prefix
        key = (window.model, window.fixed.texts, settings)
        if not self._planned:  # no edit since the last request, and all of this one can be cached
            return monitor.observe(
                tokens, key, window.rule, cold=self._expired, same=monitor.cacheable, cacheable=tokens.prompt
            )
        view_tokens, fixed_tokens = self._fold.view.tokens, window.fixed.tokens
        total = view_tokens + fixed_tokens
        ratio = tokens.prompt / total if total else 1.0
        monitor.omitted = int(max(self._fold.record_tokens - view_tokens, 0) * ratio)
        same, cacheable = int(prefix.same * ratio), int(prefix.cacheable * ratio)
        miss = monitor.observe(tokens, key, window.rule, cold=self._expired, same=same, cacheable=cacheable)
        window.gauge.observe(prefix.by_kind, fixed_tokens, tokens.prompt, grown=not prefix.edited)
        prefix.same, prefix.edited = prefix.cacheable, False
        return miss

    def lower_limit(self) -> None:
        """Lower the budget after the model has rejected the last view as too long."""
        self._settle()
        self._window.gauge.rejected(self._fold.view.by_kind, self._window.fixed.tokens)
        self._slack = -1

    # -- long results and messages -------------------------------------------------------------------------------

    def allowance(self, results: int, limit: int | None = None) -> int:
        """Return the tokens that each of *results* results of one turn may have.

        They share half of the budget that the user's first and newest message leave. *limit* is the tool's own limit.
        """
        share = max(self._window.budget - self._fold.user_tokens(), 2) // 2 // max(results, 1)
        return max(1, min(self.retention.max_result_tokens if limit is None else limit, share))

    def truncate(self, text: str, fixed: Mapping[str, str], reserve: int, model: str) -> str:
        """Return the beginning of *text* that a user's message to *model* may have; the same object if all of it fits.

        Raises `ContextFloorError` if *fixed* and *reserve* leave no tokens.
        """
        self._window.limit = self.limit
        return self._window.truncate(text, fixed, reserve, model)

    def recall(self, handle: str) -> str | None:
        """Return the whole content that was cut, reduced, summarized or omitted under *handle*; None if unknown."""
        return recalled(self._fold.view.record, self._fold.view.edits, handle)
