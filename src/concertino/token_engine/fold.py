"""The fold of a finished run: what the next run of the conversation need not count and plan again."""

from __future__ import annotations

from collections.abc import Sequence

from ..context_state import ContextState
from ..messages import Message, begins_with
from ..records import record
from .counting.base import TokenCounter
from .planner import Planner
from .retention import Retention
from .view import View


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
    given: Sequence[Message]
    """The messages that the run began with, or the first of them."""
    view: View
    planner: Planner | None
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
        record, view, first = self.view.record, self.view, len(self.given)
        return (
            self.counter is counter
            and self.retention == retention
            and self.example_count == example_count
            and (state is self.state or state == self.state)
            and begins_with(messages, self.given)
            and begins_with(messages[first:], record[first:])
            and all(view.at(index) is record[index] for index in range(example_count))
        )
