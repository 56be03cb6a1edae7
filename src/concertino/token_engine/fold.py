"""The fold of a conversation: its record and edits, the view that they give, and what is known of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import is_

from ..context_state import ContextState
from ..messages import Message
from .candidates import Candidates
from .counting.base import TokenCounter
from .counting.sizes import max_tokens_of, measure_with
from .edits import Edit, carry_over, decode_edit, encode_edit, shift_edit
from .planner import FULL, Conditions, Planner
from .retention import Retention
from .summaries import PendingSummaries, prepared_edits
from .view import View
from .window import WindowBudget


class ConversationFold:
    """A record that only grows, its edits, and the view that they give, each message counted once."""

    __slots__ = (
        "_counter",
        "_user_tokens",
        "answered",
        "candidates",
        "pending",
        "planner",
        "record_tokens",
        "retention",
        "single_use",
        "summaries",
        "view",
    )

    def __init__(self, counter: TokenCounter, retention: Retention, source: ConversationFold | None = None) -> None:
        self._counter = counter
        self.retention = retention
        self.answered = 0
        """Index of the newest answer: the model has seen the messages before it."""
        self.pending = 0
        """Upper bound of the tokens that are not counted yet."""
        self.single_use = False
        """True if the record has single-use results."""
        self.record_tokens = 0
        """Counted tokens of all messages."""
        self._user_tokens: int | None = None
        measure = measure_with(counter)
        if source is None:
            self.view, self.candidates = View(measure), Candidates(retention.results, measure)
        else:
            self.view, self.candidates = source.view.copy(), source.candidates.copy()
            self.answered, self.pending, self.record_tokens = source.answered, source.pending, source.record_tokens
            self.single_use = source.single_use
        self.planner = Planner(self.view, self.candidates, retention)
        if source is not None:
            self.planner.segments, self.planner.summarized = list(source.planner.segments), source.planner.summarized
        self.summaries = PendingSummaries(self.planner, counter)

    def append(self, message: Message) -> None:
        """Append *message* to the record in constant time."""
        self.view.append(message)
        self.pending += max_tokens_of(message)
        if message.role == "assistant":
            self.answered = len(self.view.record) - 1
        elif message.role == "tool" and message.retain == "once":
            self.single_use = True

    def settle(self, example_count: int) -> None:
        """Count the messages appended since the last call; the first *example_count* of the record are examples."""
        view, candidates, index = self.view, self.candidates, self.view.settled
        before, users = view.tokens, len(candidates.users)
        for message, tokens in view.settle():
            if index >= example_count:
                candidates.add(message, index, tokens)
            index += 1
        self.record_tokens += view.tokens - before
        self.pending = 0
        if len(candidates.users) != users:
            self._user_tokens = None

    def uncounted_slack(self, window: WindowBudget) -> int:
        """Return the bytes that an uncounted record may have before an edit can be due; -1 if edits are possible.

        A token is at least a byte, so a record with fewer bytes than the floor has tokens needs no count.
        """
        if self.view.settled or self.single_use:
            return -1
        window.update(self.view.by_kind)
        return self.planner.floor(window.budget)

    def user_tokens(self) -> int:
        """Return the tokens shown of the user's first and newest message."""
        if self._user_tokens is None:
            users, between = self.candidates.users, self.view.between
            self._user_tokens = sum([between(index, index + 1) for index in {*users[:1], *users[-1:]}])
        return self._user_tokens

    def edited(self) -> None:
        """Take note that the planner has edited the view."""
        self._user_tokens = None

    # -- earlier edits -------------------------------------------------------------------------------------------

    def restore(self, edits: Iterable[Edit], *, check: bool = False) -> bool:
        """Apply earlier edits; with *check*, stop at the first edit of other messages.

        Return False if it stopped.
        """
        complete = True
        for edit in edits:
            if check and not self.planner.fits(edit):
                complete = False
                break
            self.view.apply(edit)
            self.planner.adopt(edit)
        self.candidates.refresh(self.view)
        self.edited()
        return complete

    def resume(self, state: ContextState, offset: int) -> bool:
        """Apply the edits of the last run's *state*, whose first message has index *offset*.

        Return False if they were made for other messages.
        """
        return self.restore(_edits_of(state, offset), check=True)

    def log_as(self, state: ContextState, offset: int) -> None:
        """Replace the log by the edits of *state*, which have fingerprints: no later run computes them again."""
        self.view.edits = _edits_of(state, offset)

    def adopt(self, state: ContextState, offset: int) -> None:
        """Adopt the prepared summaries and the carrying cost of *state*."""
        self.summaries.restore(prepared_edits(state, offset))
        self.planner.carrying_cost = state.carrying_cost

    def state(self, skipped: Sequence[int], sent_at: float | None, model: str) -> ContextState:
        """Return the state for the next run, which lacks the messages at the indexes *skipped*."""
        record = self.view.record
        edits, prepared = (
            [encode_edit(edit) for old in log if (edit := carry_over(old, record, skipped)) is not None]
            for log in (self.view.edits, self.summaries.prepared)
        )
        return ContextState(edits, prepared, sent_at, model, self.planner.carrying_cost)

    def conditions(self, window: WindowBudget, *, cold: bool, sent: int, requests: int, summaries: bool) -> Conditions:
        """Return the conditions of the next request; *sent*: messages of the record at the last one."""
        users = self.candidates.users
        return Conditions(
            rule=window.rule,
            binding=window.binding,
            cold=cold,
            turn_begins=bool(users) and users[-1] >= sent,
            cached=self.view.before(self.view.position(sent)),
            budget=window.budget,
            summaries=summaries and self.retention.summaries,
            requests=requests,
        )

    # -- a full window -------------------------------------------------------------------------------------------

    def splice(self, conditions: Conditions) -> list[Edit]:
        """Apply the prepared summaries."""
        return self.planner.splice(self.summaries.take(), conditions)

    def omit_oldest(self, conditions: Conditions) -> list[Edit]:
        """Omit the oldest messages, and the pending summaries of them."""
        edits = self.planner.omit_oldest(conditions)
        if edits:
            self.summaries.discard()
        return edits

    def relieve(self, conditions: Conditions) -> list[Edit]:
        """Edit a full view: apply prepared summaries, reduce the newest results, omit the oldest messages."""
        view, planner = self.view, self.planner
        edits: list[Edit] = []
        if self.summaries.prepared:
            edits += self.splice(conditions)
        if view.tokens > FULL * conditions.budget and not conditions.summaries:
            edits += self.omit_oldest(conditions)
        if view.tokens > conditions.budget:
            edits += planner.reduce_newest(conditions)
        if view.tokens > conditions.budget:
            edits += self.omit_oldest(conditions)
        return edits


def _edits_of(state: ContextState, offset: int) -> list[Edit]:
    return [shift_edit(decode_edit(encoded), lambda index: index + offset) for encoded in state.edits]


@dataclass(frozen=True, slots=True)
class FoldedConversation:
    """The fold of a finished run, with which the next run of the conversation starts instead of folding again.

    It contains the messages, so keep a bounded number. It is never changed: several runs may start with it.
    """

    state: ContextState
    """The state that the run ended with."""
    counter: TokenCounter
    example_count: int
    fold: ConversationFold

    def continued_by(
        self,
        messages: Sequence[Message],
        state: ContextState,
        counter: TokenCounter,
        retention: Retention,
        example_count: int,
    ) -> ConversationFold | None:
        """Return the fold if *messages* extend its record, by identity, with the same state and settings; else None."""
        record = self.fold.view.record
        same = (
            self.counter is counter
            and self.fold.retention == retention
            and self.example_count == example_count
            and (state is self.state or state == self.state)
            and len(record) <= len(messages)
            and all(map(is_, record, messages))
        )
        return self.fold if same else None
