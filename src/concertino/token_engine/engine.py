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
from .caching.breakpoints import Marks
from .caching.monitor import CacheWatch, Miss
from .counting.base import TokenCounter
from .counting.sizes import measure_with, most_tokens
from .edits import Edit, Reduce, Summarise, carried, edit_of, form, moved
from .planner import FULL, Planner, SummaryJob, Terms
from .recall import recalled
from .retention import Candidates, Retention
from .room import Room
from .view import View

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
        self.room = Room(counter, limit, self.retention.most)
        """How much the model that is asked takes."""
        self.examples = 0
        """How many messages of examples the record begins with: none of them is the user's."""
        self._clock = clock
        self._measure = measure_with(counter)
        self._watch = CacheWatch()
        self.report: ContextReport = self._watch.report
        """What the requests took so far."""
        self.asked = self._watch.asked
        self._cold = self._expired = True
        self._now = 0.0
        self._last_terms = Terms(self.room.rule, self.room.binding, True, False, 0, limit, False)
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
        return ContextState(edits, ready, self._watch.at, self.room.model, self._planner.rent)

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
            self.room.ask(state.model)
            self._sent = len(self._view.record)
            self._moved = bool(state.edits) and self.room.binding != "prefix"
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
        self._now, room = self._clock(), self.room
        self._expired = self._watch.cold(self._now, room.rule)
        self._cold = self._expired or model != room.model
        calm = self._pending <= self._calm and not self._cold
        if calm and fixed is room.fixed.texts and reserve == room.reserve:
            self._skipped += 1
            return _CALM
        self._settle()
        room.ask(model)
        self._moved = self._moved or (bool(room.fixed.texts) and fixed != room.fixed.texts)
        room.fixed.take(fixed)
        view, planner = self._view, self._planner
        if not self._fresh:
            self.before = view.tokens
        if self._moved and room.binding == "prefix":
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
        self._calm = -1 if room.rule.marks or due.job or self.ready or full else planner.calm(terms)
        self._job = due.job
        return Plan(due.job, urgent=due.job is not None and full)

    def _terms(self, reserve: int, *, summaries: bool) -> Terms:
        room = self.room
        room.reserve = reserve
        room.measure(self._view.by_kind)
        view, users, terms = self._view, self._candidates.users, self._last_terms
        terms.rule, terms.binding, terms.cold, terms.summaries = room.rule, room.binding, self._cold, summaries
        terms.turn_begins = bool(users) and users[-1] >= self._sent
        terms.cached, terms.room, terms.requests = view.before(view.index(self._sent)), room.soft, 1 + self._skipped
        if not room.rule.marks:
            self._same = room.fixed.tokens + terms.cached
        return terms

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
        terms, planner, view, room = self._last_terms, self._planner, self._view, self.room
        if view.tokens > FULL * terms.room and self.ready:
            self._splice(terms)
        if view.tokens > FULL * terms.room and not terms.summaries:
            self._leave_out(terms)
        if view.tokens > terms.room:
            self._note(planner.squeeze(terms))
        if view.tokens > terms.room:
            self._leave_out(terms)
        if self._fresh:  # what is left may be of another kind than what is gone
            room.measure(self._view.by_kind)
            terms.room = room.soft
            if view.tokens > room.hard:
                self._leave_out(terms)
                room.measure(self._view.by_kind)
        if view.tokens > room.hard:
            self._note(planner.let_go(terms))
            room.measure(self._view.by_kind)
        if view.tokens > room.hard:
            raise room.exceeded(view, room.reserve)
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
        view, room = self._view, self.room
        self._sent = len(view.record)
        self._watch.at = self._now
        if self._pending:
            return view.messages()
        if room.rule.marks:
            once = self._candidates.first_once
            until = len(view.shown) if once is None or room.binding == "prefix" else view.index(once)
            self._marks.expect(self._candidates.first_standing, self._planner.gone)
            self.marks = self._marks.place(view, room.rule, until)
            end = self.marks[-1] + 1 if self.marks else 0
        else:
            self.marks, end = None, len(view.shown)
        self._marked = room.fixed.tokens + view.before(end)
        self._by_kind = tuple(view.by_kind)
        return view.messages()

    def _note(self, edits: list[Edit]) -> None:
        """*edits* were made: less of the last request is the beginning of the next one, and other places are stable."""
        for edit in edits:
            first = edit.places[0] if isinstance(edit, Reduce) else edit.first if isinstance(edit, Summarise) else 0
            index = self._view.index(first)
            if self.marks is not None:
                index = max([mark + 1 for mark in self.marks if mark < index], default=0)
            self._same = min(self._same, self.room.fixed.tokens + self._view.before(index))
            if isinstance(edit, Reduce):
                newest = self._candidates.first_kept
                self._marks.edited(first - 1, len(self._view.record) - 1 if newest is None else newest - 1)
        self._edited = self._edited or bool(edits)
        self._moved = self._moved or (bool(edits) and self.room.binding != "prefix")
        self._watch.report.edits += len(edits)
        self._fresh += edits

    # -- after a request -----------------------------------------------------------------------------------------

    def observe(self, tokens: Tokens, settings: object = None) -> Miss | None:
        """What the provider says of the request that `view` was for; *settings* is what else its cache depends on.

        The miss, if it has read less from its cache than it should have.
        """
        room = self.room
        sent = (room.model, room.fixed.texts, settings)
        watch = self._watch
        if self._pending:  # nothing was edited since the last request, and all of it can be in the cache
            return watch.observe(tokens, sent, room.rule, cold=False, same=watch.cacheable, marked=tokens.prompt)
        total = self._view.tokens + room.fixed.tokens
        ratio = tokens.prompt / total if total else 1.0
        watch.left_out = int(max(self._record_tokens - self._view.tokens, 0) * ratio)
        same, marked = int(self._same * ratio), int(self._marked * ratio)
        miss = watch.observe(tokens, sent, room.rule, cold=self._expired, same=same, marked=marked)
        self._same = self._marked
        room.gauge.observe(self._by_kind, room.fixed.tokens, tokens.prompt, grown=not self._edited)
        self._edited = False
        return miss

    def refused(self) -> None:
        """The model has refused what `view` gave as too long: it gets less from now on."""
        self._settle()
        self.room.gauge.refused(self._view.by_kind, self.room.fixed.tokens)
        self._calm = -1

    # -- results and messages that are too long ------------------------------------------------------------------

    def allowance(self, results: int, most: int | None = None) -> int:
        """How many tokens each of *results* results of one turn may have: half of the room is left to them at most
        that the user's first and newest messages leave, and *most* to a tool that says so."""
        largest = self.retention.largest_result if most is None else most
        users = self._candidates.users
        said = sum(self._view.between(place, place + 1) for place in {*users[:1], *users[-1:]})
        return max(1, min(largest, max(self.room.soft - said, 2) // 2 // max(results, 1)))

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
