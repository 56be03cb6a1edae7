"""The token engine: the record of a conversation, the view for the model, and the cost of both. No I/O.

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
from functools import partial

from ..context_state import ContextReport, ContextState
from ..messages import Message, Messages, begins_with
from ..unread_messages import UnreadMessages, UnreadPart, fill
from ..usage import Tokens
from .cache_monitor import CacheMonitor, Miss
from .counting.base import TokenCounter
from .counting.sizes import max_tokens, size_of
from .digests import handle_of, is_cut
from .edits import Edit, Summarize, carry_over, encode_edit
from .planner import FULL, Plan, Planner, SummaryJob
from .retention import Retention
from .view import View
from .window import Window

_RETENTION = Retention()
_NOTHING_DUE, _NO_EDITS = Plan(), Plan(edits_possible=False)
_BYTES_PER_TOKEN = 4
"""Average bytes of a token in English text."""
_AFTER_REJECTION = 0.75
"""Share of a rejected request that the next attempt may have."""
_NOTE = 32
"""Tokens for the note that a message was cut."""
_LARGEST_MESSAGE, _ANSWER = 0.75, 2_000
"""Share of the budget that one message of the user may fill, if it leaves these tokens, or half, for the answer."""


class TokenEngine:
    """The record and the view of a conversation. A conversation that is too short for edits is not counted.

    *limit* is the context in tokens of the model that is asked next. *clock* returns seconds.
    """

    __slots__ = (  # a dictionary of so many attributes takes 1.5 kB in each run
        "_clock", "_expired", "_given", "_model", "_monitor", "_noted", "_pending", "_planned", "_planner", "_slack",
        "_view", "_window", "append", "bill", "breakpoints", "counter", "edits", "example_count", "failures", "limit",
        "report", "retention", "tokens_before", "tokens_of",
    )  # fmt: skip

    def __init__(
        self,
        counter: TokenCounter,
        limit: int,
        retention: Retention | None = None,
        clock: Callable[[], float] = time.time,
        model: str = "",
    ) -> None:
        self.counter, self.retention, self.limit = counter, retention or _RETENTION, limit
        self.example_count = 0
        """Leading messages that are examples: no edit treats them as the user's."""
        self.breakpoints: tuple[int, ...] | None = None
        """View positions that end a cached prefix in the last request; None if the provider needs none."""
        self.bill = 0.0
        """Cost of the conversation's requests so far, in tokens of uncached input."""
        self.failures = 0
        """Consecutive requests for a summary that failed, and may have been billed."""
        self.tokens_before = 0
        """Tokens of the view before the last plan's edits."""
        self._model = model  # whose images the sizes are for
        self.tokens_of = partial(size_of, counter, model, frame=0)
        """Returns the counted tokens of a message without a provider's framing; the message caches the count."""
        self._window = Window(counter, limit, self.retention)
        self._clock = clock
        self._monitor = CacheMonitor()
        self.report: ContextReport = self._monitor.report
        self._expired = True
        self._restart(View(partial(size_of, counter, model)))

    def _restart(self, view: View, source: Planner | None = None) -> None:
        """Begin with *view*, a copy of the view of *source* if that is given."""
        self._view = view
        self.append: Callable[[Message], None] = view.record.append
        self._planner = None if source is None else Planner(view, self._window, self._monitor, source)
        self.edits = view.edits
        """All edits so far."""
        self._given: Sequence[Message] = ()  # the messages that `start` has loaded, if they cannot change
        self._noted = 0  # messages of the record that `_pending` and `_slack` reflect
        self._pending = 0  # upper bound of the tokens that are not counted yet
        self._slack = -1  # bytes that may be added before the next full plan
        self._planned = False  # the last plan was a full one

    # -- the record ----------------------------------------------------------------------------------------------

    def _note_appended(self) -> None:
        """Take note of the messages appended since the last call, without counting them."""
        record = self._view.record
        fresh = record[self._noted :]
        if not fresh:
            return
        self._noted = len(record)
        self._pending += max_tokens(fresh)
        for message in fresh:
            if message.role == "user" or (message.role == "tool" and message.retain != "window"):
                self._slack = -1
                if message.retain == "once" and self._planner is None:  # it is reduced, however short the conversation
                    self._planner = Planner(self._view, self._window, self._monitor)

    def _settle(self) -> Planner:
        """Count the messages appended since the last call, and return what plans the edits."""
        if self._slack >= 0:
            self._note_appended()
            self._slack -= self._pending
        if self._planner is None:
            self._planner = Planner(self._view, self._window, self._monitor)
        self._planner.settle(self.example_count)
        self._noted, self._pending = len(self._view.record), 0
        return self._planner

    def replace(self, messages: Sequence[Message]) -> None:
        """Start again with other messages, after a hook has replaced the conversation."""
        self.example_count = 0
        self._restart(View(partial(size_of, self.counter, self._model)))
        self._monitor.replaced()
        self._window.counted = self._window.billed = 0
        self._view.record.extend(messages)

    def record(self) -> Messages:
        """Return all messages as they were appended."""
        view = self._view
        return Messages(view.record) if view.unread is None else UnreadMessages(view.record, view.unread.read)

    def shown_from(self, first: int) -> Sequence[int]:
        """Return the indexes from *first* on whose messages the view shows."""
        return self._view.indexes[self.position_of(first) :]

    @property
    def omitted(self) -> int:
        """Return the tokens of the record that the view omits, as far as it is counted."""
        return self._view.omitted

    @property
    def prepared(self) -> list[Summarize]:
        """Return the summary that is made and not applied yet, if there is one."""
        return [] if self._planner is None else self._planner.prepared

    @property
    def tokens(self) -> int:
        """Return the counted tokens of the view."""
        return self._settle().view.tokens

    @property
    def estimated_tokens(self) -> int:
        """Return the approximate tokens of the planned request without counting any message."""
        self._note_appended()
        return self._window.fixed + self._view.tokens + self._pending // _BYTES_PER_TOKEN

    # -- earlier runs --------------------------------------------------------------------------------------------

    def start(
        self,
        messages: Sequence[Message],
        state: ContextState | None = None,
        *,
        example_count: int = 0,
        last: TokenEngine | None = None,
    ) -> bool:
        """Load the *messages* of earlier runs, led by *example_count* examples, and continue the view of *state*.

        *last* is the engine that returned *state*, if it is kept: its messages are not counted again. Return False if
        *state* has edits of other messages; they are not applied.
        """
        self.example_count = example_count
        counted = state is not None and (state.counted or bool(state.edits or state.prepared))
        if last is not None and self._continues(last, messages):
            counted = False
            self._restart(last._view.copy(), last._planner)
            self._noted, self._pending = last._noted, last._pending
        view = self._view
        view.record.extend(messages[len(view.record) :])
        self._given = messages if isinstance(messages, Messages) else ()
        if state is None:
            return True
        if counted:
            self._planner = Planner(view, self._window, self._monitor)
            if not self._planner.resume(state, example_count):
                return False
            self._noted = len(view.record)
        self.bill, self.failures, self._monitor.sent_at = state.bill, state.failures, state.sent_at
        self._window.select(state.model)
        tokens, billed, self._window.fixed = state.anchor or (0, 0, 0)
        self._window.observe(tokens - self._window.fixed, billed)
        return True

    def _continues(self, last: TokenEngine, messages: Sequence[Message]) -> bool:
        """Return True if *messages* extend the record of *last*, by identity, with the same settings."""
        # No state contains an edit of examples: such a view is not continued.
        view, record, first = last._view, last._view.record, len(last._given)
        return (
            last._planner is not None
            and last.counter is self.counter
            and last.retention == self.retention
            and last.example_count == self.example_count
            and begins_with(messages, last._given)
            and begins_with(messages[first:], record[first:])
            and all(view.at(index) is record[index] for index in range(self.example_count))
        )

    def state(self, skipped: Sequence[int] = ()) -> ContextState:
        """Return the state for the next run of the conversation, which lacks the messages at the indexes *skipped*."""
        window = self._window
        state = ContextState(sent_at=self._monitor.sent_at, model=window.model, bill=round(self.bill))
        if not window.removed and not skipped:
            state.anchor = [window.counted, window.billed, window.fixed]
        if self._planner is not None:
            view, state.counted, state.failures = self._view, True, self.failures
            view.whole()
            state.omitted = view.omitted
            state.edits = list(map(encode_edit, carry_over(view.edits, view.record, skipped)))
            state.prepared = list(map(encode_edit, carry_over(self.prepared, view.record, skipped)))
        return state

    def restore(
        self,
        edits: Sequence[Edit],
        bill: float = 0.0,
        prepared: Iterable[Edit] = (),
        unread: UnreadPart | None = None,
    ) -> None:
        """Apply the journaled *edits* of this run, after all their messages; for *prepared*, see the property.

        *unread* is the part of the record that was not read; `UNREAD` represents it.
        """
        first = 0
        if unread is not None:
            self._view.unread, first = unread, unread.edits
            self._planner = Planner(self._view, self._window, self._monitor)
            self._planner.restore(edits[:first], ())
            self._planner.settle(self.example_count)
            self._view.omitted = unread.omitted
        self._settle().restore(edits[first:], prepared)
        self._window.removed = 0  # nothing of it was in a request of this process
        self.bill = bill
        self._monitor.sent_at = self._clock()

    def complete_record(self, messages: Sequence[Message], edits: Sequence[Edit]) -> None:
        """Insert the first *messages* of the record, and its first *edits*, in place of the unread part."""
        view = self._view
        if view.unread is not None:
            fill(view.record, messages)
            view.edits[: view.unread.edits], view.unread = edits, None

    # -- before a request ----------------------------------------------------------------------------------------

    def plan(
        self, fixed: Mapping[str, str], reserve: int, model: str, *, recallable: bool = False, summaries: bool = True
    ) -> Plan:
        """Make the edits that are due before the next request to *model* (`provider:name`).

        *fixed*: the texts of every request by name, unchanged if it is the same object. *reserve*: tokens for the
        answer. *recallable*: the model can call `recall` after an edit. *summaries*: the model can summarize.
        """
        window, sent_at = self._window, self._monitor.sent_at
        self._expired = sent_at is None or self._clock() - sent_at > window.rule.seconds
        if self._slack >= 0 or self._planner is None:
            self._note_appended()
        if (
            self._pending <= self._slack
            and model == window.model
            and fixed is window.fixed_texts
            and reserve == window.reserve
            and self.limit == window.limit
        ):
            self._planned = False
            return _NO_EDITS
        changed = window.model not in ("", model) or bool(window.fixed_texts and fixed != window.fixed_texts)
        window.prepare(model, fixed, self.limit, reserve)
        strip = changed and window.binding == "prefix"  # reasoning is bound to what has changed
        self._planned = self._planner is not None or strip or self._pending > window.floor
        if not self._planned:
            self._slack = window.floor  # a token is at least a byte: no edit can be due
            return _NO_EDITS
        return self._plan(self._settle(), strip=strip, recallable=recallable, summaries=summaries)

    def _plan(self, planner: Planner, *, strip: bool, recallable: bool, summaries: bool) -> Plan:
        window, view = self._window, planner.view
        if not planner.fresh:
            self.tokens_before = view.tokens
        planner.recallable = recallable
        if strip:
            planner.strip()
        if planner.single_use:
            planner.reduce_single_use()
        planner.splice()
        busy = planner.job
        if summaries:
            planner.job = busy or planner.due(self.bill, self.failures)
        job, full = planner.job, view.tokens > FULL * window.budget
        waiting = job is not None or bool(planner.prepared or planner.single_use)
        self._slack = -1 if waiting or full else planner.slack()
        return _NOTHING_DUE if job is None else Plan(None if busy else job, urgent=full)

    def complete(self, job: SummaryJob, text: str | None, *, billed: bool = True) -> bool:
        """Take in the summary *text* of *job*; return False if it failed (None) or does not serve.

        *billed*: the request may have cost something.
        """
        done = self._planner is not None and self._planner.complete(job, text)
        self.failures = 0 if done else self.failures + billed
        return done

    def fit(self) -> list[Edit]:
        """Make the view fit the window at any cost; return all edits since the last request.

        Raises `ContextFloorError`, naming what fills the window, if not even the newest messages fit.
        """
        planner, view, window = self._planner, self._view, self._window
        if not self._planned or planner is None:
            return []
        planner.splice()
        if not window.fits(view.tokens):
            planner.omit()
        if not window.fits(view.tokens, surely=False):  # the smallest view; without a margin, it is worth a try
            raise window.floor_error(view, window.reserve)
        fresh, planner.fresh = planner.fresh, []
        self.report.edits += len(fresh)
        return fresh

    def position_of(self, index: int) -> int:
        """Return how many messages the view shows before the message at *index* of the record."""
        self._view.grow()
        return self._view.position(index)

    def view(self) -> Messages:
        """Return the messages to send, and set `breakpoints`. Without an edit, one view is a prefix of the next."""
        self._monitor.sent_at, self.breakpoints = self._clock(), None
        if self._window.rule.breakpoints:
            planner, end = self._planner, None
            if planner is not None and planner.single_use and self._window.binding != "prefix":
                end = planner.single_use[0]  # it is reduced next: the rest is not worth caching
            self._view.grow()
            self.breakpoints = self._monitor.mark(self._view, end)
        return self._view.messages()

    # -- after a request -----------------------------------------------------------------------------------------

    def observe(self, tokens: Tokens, settings: object = None, *, compacted: bool = False) -> Miss | None:
        """Take in the provider's figures for the last request; return the miss if it read too little from its cache.

        *settings*: the other parts of the request that decide about cache entries. *compacted*: the figures contain a
        summary by the provider itself, and say nothing about the size of the view.
        """
        window, monitor, rule, marks = self._window, self._monitor, self._window.rule, self.breakpoints
        self.bill += rule.read * tokens.cached + rule.write * (tokens.prompt - tokens.cached)
        share = 0.0 if compacted else 1.0
        if self._planned and not compacted:
            view, counted = self._view, max(self._view.tokens + window.fixed, 1)
            monitor.omitted = int(max(view.omitted, 0) * tokens.prompt / counted)
            if marks is not None:
                share = (window.fixed + view.before(marks[-1] + 1 if marks else 0)) / counted
            window.observe(view.tokens, tokens.prompt)
        key = (window.model, window.fixed_texts, settings)
        return monitor.observe(tokens, key, rule, cold=self._expired or compacted, share=share)

    def lower_limit(self) -> None:
        """Lower the budget after the model has rejected the last view as too long."""
        self._settle()
        self._window.rejected = _AFTER_REJECTION * self._window.expected(self._view.tokens)
        self._slack = -1

    # -- long results and messages -------------------------------------------------------------------------------

    def allowance(self, results: int, limit: int | None = None) -> int:
        """Return the tokens that each of *results* results of one turn may have; *limit* is the tool's own limit."""
        user_tokens = 0 if self._planner is None else self._planner.user_tokens()
        share = max(self._window.surely - user_tokens, 2) // 2 // max(results, 1)
        return max(1, min(self.retention.max_result_tokens if limit is None else limit, share))

    def truncate(self, text: str, fixed: Mapping[str, str], reserve: int, model: str) -> str:
        """Return the beginning of *text* that a user's message may have. Raises `ContextFloorError` if nothing fits."""
        if 8 * (len(text) + sum(map(len, fixed.values()))) <= self.limit - reserve - _NOTE:
            return text  # at most half: a token is at least a byte, and a character at most four bytes
        self._window.prepare(model, fixed, self.limit, reserve + _NOTE)
        most = self._window.surely
        left = min(int(_LARGEST_MESSAGE * most), max(most // 2, most - _ANSWER)) - _NOTE
        if left <= 0:
            raise self._window.floor_error(View(), reserve)
        return text if self.counter.count(text) <= left else self.counter.cut(text, left)

    def recall(self, handle: str = "") -> Sequence[Message]:
        """Return the messages that were cut, reduced, summarized or omitted under *handle*; without it, all of them."""
        view, record = self._view, self._view.whole()
        if not handle:
            view.grow()
            every = enumerate(record)
            return [m for n, m in every if view.at(n) is not m or (m.role == "tool" and is_cut(m))]
        for message in reversed(record):
            if message.role == "tool" and handle_of(message) == handle:
                return [message]
        spans = (edit for edit in view.edits if isinstance(edit, Summarize) and edit.handle == handle)
        return next((record[edit.first : edit.end] for edit in spans), [])
