"""The token engine: what is kept of a conversation, what of it is sent, and what that costs. It does no I/O.

engine = TokenEngine(counter, limit=200_000)
engine.append(message)                              # each message is counted once
plan = engine.plan(fixed, reserve, "anthropic:claude-...")
...                                                 # if plan.urgent: make plan.job's summary, engine.complete(...)
edits = engine.fit()                                # to be kept before the request is sent
request = engine.view(), engine.marks
miss = engine.observe(tokens, settings)             # the provider's own figures
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..context import ContextReport, ContextState
from ..messages import Message, Messages
from ..usage import Tokens
from .calibration import Calibration, Gauge, calibration_of
from .edits import Edit, Reduce, Summarise, carried, edit_of, form, moved
from .marks import Marks
from .planning import FULL, Planner, SummaryJob, Terms, floor_error
from .port import TokenCounter
from .profiles import Binding, binding, cache_rule
from .recalling import recalled
from .retention import Candidates, Retention
from .sizes import KINDS, Fixed, measure_with, most_tokens
from .view import View
from .watching import CacheWatch, Miss

_NOTE = 32
"""Tokens of room for the words that a message was cut."""
_MOST_SAID = 0.75
"""The share of the room that one message of the user's may fill."""
_MOST_FAILURES = 2
"""Summaries that may fail one after another; then messages are left out instead."""


@dataclass(slots=True)
class Plan:
    """What is to be done before the next request."""

    job: SummaryJob | None = None
    """A summary that is wanted."""
    urgent: bool = False
    """Whether the request cannot wait for it: the window is full. Without a job, one is being made already."""


_CALM = Plan()


class TokenEngine:
    """One conversation, as it is kept and as it is sent.

    *limit* is the context in tokens of the model that is asked next; *clock* gives seconds.
    """

    def __init__(
        self,
        counter: TokenCounter,
        limit: int,
        retention: Retention | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.counter = counter
        self.retention = retention or Retention()
        self.marks: tuple[int, ...] | None = None
        """Where the request is to be marked for the provider's cache, by index in the view; None: nowhere."""
        self.limit = limit
        self.examples = 0
        """How many messages of examples the record begins with: none of them is the user's."""
        self._clock = clock
        self._measure = measure_with(counter)
        self._fixed = Fixed(counter)
        self._model = ""
        self._rule = cache_rule("", "")
        self._binding: Binding = "free"
        self._gauge = Gauge(Calibration(), exact=counter.exact)
        self._watch = CacheWatch()
        self.report: ContextReport = self._watch.report
        """What the requests took so far."""
        self.asked = self._watch.asked
        self._cold = self._expired = True
        self._now = 0.0
        self._room = self._hard = limit
        self._last_terms = Terms(self._rule, self._binding, True, False, 0, limit, False)
        self._reserve = 0
        self.before = 0
        """Tokens of what was shown before the last plan's edits."""
        self._restart()

    def _restart(self) -> None:
        self._view = View(self._measure)
        self._record_tokens = 0
        self._candidates = Candidates(self.retention.results, self._measure)
        self._planner = Planner(self._view, self._candidates, self.retention)
        self._marks = Marks()
        self._fresh: list[Edit] = []
        self._job: SummaryJob | None = None
        self.ready: list[Summarise] = []
        """The summaries that were made and are not in use yet."""
        self._ready_for: SummaryJob | None = None
        self._failed = 0
        self._answered = 0  # the place of the newest answer: the model has seen what stands before it
        self._sent = 0  # the place behind the last message that was sent
        self._marked = 0  # tokens of the last request that its marks let the provider remember
        self._same = 0  # tokens of the last request with which the next one begins
        self._pending = 0  # bytes that are not counted yet
        self._calm = -1  # bytes that may be added before it is worth thinking again
        self._skipped = 0
        self._edited = False
        self._moved = False  # what reasoning may be bound to is no longer what it was

    # -- the record ----------------------------------------------------------------------------------------------

    def append(self, message: Message) -> None:
        """Add to the end of the record. O(1); nothing is ever taken out."""
        self._view.append(message)
        self._pending += most_tokens(message)
        if message.role == "assistant":
            self._answered = len(self._view.record) - 1
        elif message.role == "user" or (message.role == "tool" and message.retain != "window"):
            self._calm = -1

    def _settle(self) -> None:
        """Count what was appended since the last time."""
        view, place, before = self._view, len(self._view.groups), self._view.tokens
        add = self._candidates.add
        for message in view.settle():
            if place >= self.examples:
                add(message, place, view)
            place += 1
        self._record_tokens += view.tokens - before
        self._calm -= self._pending
        self._pending = 0

    def replace(self, messages: Sequence[Message]) -> None:
        """Begin again with other messages, because a hook has changed the conversation."""
        recallable, self.examples = self._candidates.recallable, 0
        self._restart()
        self._candidates.recallable = recallable
        self._watch.replaced()
        for message in messages:
            self.append(message)

    def record(self) -> Messages:
        """All messages, as they were appended."""
        return Messages(self._view.record)

    @property
    def tokens(self) -> int:
        """Of what is shown, by the counter."""
        self._settle()
        return self._view.tokens

    def shown(self) -> Messages:
        """What a request would have of them now."""
        return self._view.messages()

    @property
    def rent(self) -> tuple[float, float]:
        """What was paid so far for carrying what the next edits would take out, in tokens of uncached input."""
        results, messages = self._planner.rent
        return round(results), round(messages)

    def restore(self, edits: Iterable[Edit], rent: tuple[float, float] = (0.0, 0.0)) -> None:
        """Show what was shown after these *edits*: to be called once all messages are there that they are about."""
        self._settle()
        for edit in edits:
            self._view.apply(edit)
            self._planner.adopt(edit)
        self._candidates.settle(self._view)
        self._planner.rent = rent
        self._sent = len(self._view.record)
        self._watch.at = self._clock()  # if the cache has forgotten it all, an edit comes a little later

    # -- from run to run -----------------------------------------------------------------------------------------

    def state(self, skipped: Sequence[int] = ()) -> ContextState:
        """For the next run of the conversation. *skipped*: the places of messages that it will not have."""
        record = self._view.record
        edits, ready = (
            [form(edit) for old in log if (edit := carried(old, record, skipped)) is not None]
            for log in (self._view.edits, self.ready)
        )
        return ContextState(edits, ready, self._watch.at, self._model, self._planner.rent)

    def resume(self, state: ContextState, head: int = 0) -> bool:
        """Go on as the last run of the conversation left it, whose first message is at place *head*.

        Edits that are about other messages than those that are here are left out; then it is False.
        """
        self._settle()
        fits = True
        for written in state.edits:
            edit = moved(edit_of(written), lambda place: place + head)
            fits = fits and self._planner.fits(edit)
            if fits:
                self._view.apply(edit)
                self._planner.adopt(edit)
        self._candidates.settle(self._view)
        if fits:
            self.make_ready(ready_of(state, head))
            self._watch.at, self._planner.rent = state.at, state.rent
            self._use(state.model)
            self._sent = len(self._view.record)
            self._moved = bool(state.edits) and self._binding != "prefix"
        return fits

    def make_ready(self, edits: Sequence[Edit]) -> None:
        """These summaries were made before, as they were in `ready`."""
        made = [edit for edit in edits if isinstance(edit, Summarise) and self._planner.fits(edit)]
        if made and made[-1].end > self._planner.gone:
            self.ready, self._ready_for = made, SummaryJob(made[-1].first, made[-1].end, made[-1].kept, 0, due=True)

    def shown_before(self, place: int) -> int:
        """How many messages are shown in front of the one at *place* in the record."""
        return self._view.index(place)

    @property
    def edits(self) -> list[Edit]:
        """All edits so far."""
        return list(self._view.edits)

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

        *fixed* names the parts that go along with every request (system prompt, tools) by their text: the same object
        means the same texts. *reserve* is the room in tokens for the answer. *recallable*: whether the model can call
        `recall`; *summaries*: whether one can be made.
        """
        self._now = self._clock()
        self._expired = self._watch.cold(self._now, self._rule)
        self._cold = self._expired or model != self._model
        calm = self._pending <= self._calm and not self._cold
        if calm and fixed is self._fixed.texts and reserve == self._reserve:
            self._skipped += 1
            return _CALM
        self._settle()
        self._use(model)
        self._moved = self._moved or (bool(self._fixed.texts) and fixed != self._fixed.texts)
        self._fixed.take(fixed)
        view, planner = self._view, self._planner
        if not self._fresh:
            self.before = view.tokens
        if self._moved and self._binding == "prefix":
            self._moved = False
            self._note(planner.strip())
        self._candidates.recallable = recallable
        terms = self._terms(reserve, summaries=summaries and self.retention.summaries and self._failed < _MOST_FAILURES)
        self._note(planner.throw(terms, self._answered))
        due = planner.decide(terms, self._ready_for, busy=self._job is not None)
        if due.splice:
            self._splice(terms)
            if view.tokens > terms.room:  # what was summarised was all that its request had room for
                due.job = planner.decide(terms, None).job
        if due.reduce:
            self._note(planner.reduce(terms))
        self._skipped = 0
        full = view.tokens > FULL * terms.room
        if self._job is not None:
            return Plan(urgent=full)
        self._calm = -1 if self._rule.marks or due.job or self.ready or full else planner.calm(terms)
        self._job = due.job
        return Plan(due.job, urgent=due.job is not None and full)

    def _use(self, model: str) -> None:
        if model != self._model or not self._rule.source:
            self._model = model
            provider, _, name = model.partition(":")
            self._rule, self._binding = cache_rule(provider, name), binding(provider, name)
            self._gauge = Gauge(calibration_of(model, self.counter.name), exact=self.counter.exact)

    def _terms(self, reserve: int, *, summaries: bool) -> Terms:
        self._reserve = reserve
        self._measure_room()
        view, users, terms = self._view, self._candidates.users, self._last_terms
        terms.rule, terms.binding, terms.cold, terms.summaries = self._rule, self._binding, self._cold, summaries
        terms.turn_begins = bool(users) and users[-1] >= self._sent
        terms.cached, terms.room, terms.requests = view.before(view.index(self._sent)), self._room, 1 + self._skipped
        if not self._rule.marks:
            self._same = self._fixed.tokens + terms.cached
        return terms

    def _measure_room(self) -> None:
        """How many tokens, in ours, what is shown may have now: at most, and as the agent wants it."""
        gauge, by_kind, room = self._gauge, self._view.by_kind, self.limit - self._reserve
        self._room = self._hard = gauge.room(by_kind, self._fixed.tokens, room)
        if self.retention.most is not None and self.retention.most < room:
            most = max(self.retention.most, self._fixed.tokens + self.retention.most // 2)
            self._room = min(self._hard, gauge.room(by_kind, self._fixed.tokens, most))

    def complete(self, job: SummaryJob, text: str | None, merged: str | None = None) -> bool:
        """The summary of *job* was made; *merged* is the one of `job.merges`. None: it failed.

        False, and nothing changes, if it is no summary: empty, or longer than half of what it is to stand for. A merged
        one that is none leaves those that it was to stand for.
        """
        if job is not self._job:
            return False  # of a conversation that is no longer
        self._job = None
        text = _told(text, job.tokens, self.counter)
        if text is None:
            self._failed += 1
            self._planner.rent = (self._planner.rent[0], 0.0)
            return False
        self._failed = 0
        merged = _told(merged, 2 * sum(self.counter.count(old.text) for old in job.merges), self.counter)
        self.ready, self._ready_for = self._planner.made(job, text, merged), job
        return True

    def fit(self) -> list[Edit]:
        """All edits since the last request; the window holds what is shown now, whatever that takes.

        Raises `ContextFloorError`, naming what fills the window, if not even the newest messages fit.
        """
        if self._pending:
            return []  # it was not worth counting
        terms, planner, view = self._last_terms, self._planner, self._view
        if view.tokens > FULL * terms.room and self.ready:
            self._splice(terms)
        if view.tokens > FULL * terms.room and not terms.summaries:
            self._leave_out(terms)
        if view.tokens > terms.room:
            self._note(planner.squeeze(terms))
        if view.tokens > terms.room:
            self._leave_out(terms)
        if self._fresh:  # what is left may be of another kind than what is gone
            self._measure_room()
            terms.room = self._room
            if view.tokens > self._hard:
                self._leave_out(terms)
                self._measure_room()
        if view.tokens > self._hard:
            self._note(planner.let_go())
            self._measure_room()
        if view.tokens > self._hard:
            parts = {**self._fixed.sizes(), "room for the answer": self._reserve}
            raise floor_error(self.limit, parts, view)
        fresh, self._fresh = self._fresh, []
        return fresh

    def _splice(self, terms: Terms) -> None:
        made, self.ready, self._ready_for = self.ready, [], None
        self._note(self._planner.splice(made, terms))

    def _leave_out(self, terms: Terms) -> None:
        edits = self._planner.leave_out(terms)
        if edits:
            self._job, self.ready, self._ready_for = None, [], None  # about messages that are no longer shown
        self._note(edits)

    def view(self) -> Messages:
        """What to send. Without an edit, one view is a prefix of the next."""
        view = self._view
        self._sent = len(view.record)
        self._watch.at = self._now
        if self._pending:
            return view.messages()
        if self._rule.marks:
            once = self._candidates.first_once
            until = len(view.shown) if once is None or self._binding == "prefix" else view.index(once)
            self._marks.expect(self._candidates.first_standing, self._planner.gone)
            self.marks = self._marks.place(view, self._rule, until)
            end = self.marks[-1] + 1 if self.marks else 0
        else:
            self.marks, end = None, len(view.shown)
        self._marked = self._fixed.tokens + view.before(end)
        self._by_kind = tuple(view.by_kind)
        return view.messages()

    def _note(self, edits: list[Edit]) -> None:
        """*edits* were made: less of the last request is the beginning of the next one, and other places are stable."""
        for edit in edits:
            first = edit.places[0] if isinstance(edit, Reduce) else edit.first if isinstance(edit, Summarise) else 0
            index = self._view.index(first)
            if self.marks is not None:
                index = max([mark + 1 for mark in self.marks if mark < index], default=0)
            self._same = min(self._same, self._fixed.tokens + self._view.before(index))
            if isinstance(edit, Reduce):
                newest = self._candidates.first_kept
                self._marks.edited(first - 1, len(self._view.record) - 1 if newest is None else newest - 1)
        self._edited = self._edited or bool(edits)
        self._moved = self._moved or (bool(edits) and self._binding != "prefix")
        self._watch.report.edits += len(edits)
        self._fresh += edits

    # -- after a request -----------------------------------------------------------------------------------------

    def observe(self, tokens: Tokens, settings: object = None) -> Miss | None:
        """What the provider says of the request that `view` was for; *settings* is what else its cache depends on.

        The miss, if it has read less from its cache than it should have.
        """
        sent = (self._model, self._fixed.texts, settings)
        watch = self._watch
        if self._pending:  # nothing was edited since the last request, and all of it can be in the cache
            return watch.observe(tokens, sent, self._rule, cold=False, same=watch.cacheable, marked=tokens.prompt)
        total = self._view.tokens + self._fixed.tokens
        ratio = tokens.prompt / total if total else 1.0
        watch.left_out = int(max(self._record_tokens - self._view.tokens, 0) * ratio)
        same, marked = int(self._same * ratio), int(self._marked * ratio)
        miss = watch.observe(tokens, sent, self._rule, cold=self._expired, same=same, marked=marked)
        self._same = self._marked
        self._gauge.observe(self._by_kind, self._fixed.tokens, tokens.prompt, grown=not self._edited)
        self._edited = False
        return miss

    def refused(self) -> None:
        """The model has refused what `view` gave as too long: it gets less from now on."""
        self._settle()
        self._gauge.refused(self._view.by_kind, self._fixed.tokens)
        self._calm = -1

    # -- results and messages that are too long ------------------------------------------------------------------

    def allowance(self, results: int, most: int | None = None) -> int:
        """How many tokens each of *results* results of one turn may have: half of the room is left to them at most
        that the user's first and newest messages leave, and *most* to a tool that says so."""
        largest = self.retention.largest_result if most is None else most
        users = self._candidates.users
        said = sum(self._view.between(place, place + 1) for place in {*users[:1], *users[-1:]})
        return max(1, min(largest, max(self._room - said, 2) // 2 // max(results, 1)))

    def cut(self, text: str, fixed: Mapping[str, str], reserve: int, model: str) -> str:
        """The beginning of *text* that a message to *model* may have, so that there is room to work on it; all of it,
        the same object, if it fits.

        Raises `ContextFloorError` if *fixed* and *reserve* leave no room at all.
        """
        room = self.limit - reserve - _NOTE
        if len(text) * 4 + sum(map(len, fixed.values())) * 4 <= _MOST_SAID * room:
            return text  # a token is at least a byte, and a character at most four
        self._fixed.take(fixed)
        gauge = Gauge(calibration_of(model, self.counter.name), exact=self.counter.exact)
        room = int(_MOST_SAID * gauge.room([0] * KINDS, self._fixed.tokens, room)) - _NOTE
        if room <= 0:
            parts = {**self._fixed.sizes(), "room for the answer": reserve}
            raise floor_error(self.limit, parts, View(self._measure))
        return text if self.counter.count(text) <= room else self.counter.cut(text, room)

    def recall(self, handle: str) -> str | None:
        """The whole of what was cut, reduced, summarised or left out under *handle*; None: there is nothing of that
        name."""
        return recalled(self._view.record, self._view.edits, handle)


def ready_of(state: ContextState, head: int) -> list[Edit]:
    """The summaries that were ready in *state*, for a record whose first message of the conversation is at *head*."""
    return [moved(edit_of(written), lambda place: place + head) for written in state.ready]


def _told(text: str | None, tokens: int, counter: TokenCounter) -> str | None:
    """What a summary of so many *tokens* says; None: it is none."""
    text = (text or "").strip()
    return text if text and counter.count(text) <= max(tokens // 2, 1) else None
