"""The fold of a conversation: what is known of a record that is counted, and of the edits that it has had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

from ..context_state import ContextState
from ..messages import Message
from ..records import record
from .candidates import Candidates
from .counting.base import TokenCounter
from .counting.sizes import measure_with
from .edits import Edit, carry_over, decode_edits
from .planner import FULL, Conditions, Planner
from .retention import Retention
from .summaries import PendingSummaries, prepared_edits
from .view import View
from .window import WindowBudget


class ConversationFold:
    """The parts that plan the edits of a view. A conversation that is too short for edits has none."""

    __slots__ = ("_retention", "_user_tokens", "candidates", "planner", "summaries", "view")

    def __init__(
        self, view: View, counter: TokenCounter, retention: Retention, source: ConversationFold | None = None
    ) -> None:
        self.view = view
        self._retention = retention
        self._user_tokens: int | None = None
        if source is None:
            self.candidates = Candidates(retention.results, measure_with(counter))
        else:
            self.candidates = source.candidates.copy()
        self.planner = Planner(view, self.candidates, retention)
        if source is not None:
            self.planner.segments, self.planner.summarized = list(source.planner.segments), source.planner.summarized
        self.summaries = PendingSummaries(self.planner, counter)

    def settle(self, example_count: int) -> None:
        """Count the messages appended since the last call; the first *example_count* of the record are examples."""
        candidates = self.candidates
        users = len(candidates.users)
        for index, message, tokens in self.view.settle():
            if index >= example_count:
                candidates.add(message, index, tokens)
        if len(candidates.users) != users:
            self._user_tokens = None

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

    def restore(self, edits: Iterable[Edit]) -> None:
        """Apply earlier *edits* of a record that is counted."""
        for edit in edits:
            self.view.apply(edit)
            self.planner.adopt(edit)
        self.candidates.refresh(self.view)
        self.edited()

    def resume(self, state: ContextState, example_count: int) -> bool:
        """Apply the edits of the last run's *state* to a record that is not counted, and count the view.

        The record begins with *example_count* examples. Stop at the first edit of other messages, and return False.
        """
        view, complete = self.view, True
        for edit in decode_edits(state.edits, example_count):
            if not self.planner.fits(edit):
                complete = False
                break
            view.apply(edit)
            self.planner.adopt(edit)
        view.settle()
        view.omitted = state.omitted if complete else 0
        self.candidates.load(view, example_count)
        return complete

    def adopt(self, state: ContextState, offset: int) -> None:
        """Adopt the prepared summaries and the carrying cost of *state*."""
        self.summaries.restore(prepared_edits(state, offset))
        results, messages = state.carrying_cost  # a list if the product stores the state as JSON
        self.planner.carrying_cost = results, messages

    def carried_over(self, skipped: Sequence[int]) -> tuple[list[Edit], list[Edit]]:
        """Return the edits and the prepared summaries for the next run, which lacks the messages at *skipped*."""
        record = self.view.record
        edits, prepared = (
            [edit for old in log if (edit := carry_over(old, record, skipped)) is not None]
            for log in (self.view.edits, self.summaries.prepared)
        )
        return edits, prepared

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
            floor=window.floor,
            summaries=summaries and self._retention.summaries,
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


@record
class FoldedConversation:
    """The fold of a finished run, with which the next run of the conversation starts instead of folding again.

    It contains the messages, so keep a bounded number. It is never changed: several runs may start with it.
    """

    state: ContextState
    """The state that the run ended with."""
    counter: TokenCounter
    retention: Retention
    example_count: int
    view: View
    fold: ConversationFold | None
    """None if the conversation is too short for edits."""

    def is_continued_by(
        self,
        messages: Sequence[Message],
        state: ContextState | None,
        counter: TokenCounter,
        retention: Retention,
        example_count: int,
    ) -> bool:
        """Return True if *messages* extend this record, by identity, with the same state and settings.

        An edit of examples ends with its run, since no state contains it: such a view is not continued.
        """
        record, view = self.view.record, self.view
        return (
            self.counter is counter
            and self.retention == retention
            and self.example_count == example_count
            and (state is self.state or state == self.state)
            and len(record) <= len(messages)
            and all(map(is_, record, messages))
            and all(map(is_, map(view.at, range(example_count)), record))
        )
