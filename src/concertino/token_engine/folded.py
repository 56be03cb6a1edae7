"""Folded conversations: the counted view of a finished run, kept for the next run of the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_

from ..context_state import ContextState
from ..messages import Message
from .candidates import Candidates
from .counting.base import TokenCounter
from .edits import Summarize
from .retention import Retention
from .view import View


@dataclass(frozen=True, slots=True)
class FoldedConversation:
    """A finished run's view, with which the next run of the conversation starts instead of folding the record again.

    It holds the messages, so keep a bounded number. It is never changed: several runs may start with it.
    """

    state: ContextState
    """The state for which the view was folded."""
    counter: TokenCounter
    retention: Retention
    example_count: int
    view: View
    candidates: Candidates
    segments: tuple[Summarize, ...]
    summarized: int

    def matches(
        self,
        messages: Sequence[Message],
        state: ContextState,
        *,
        counter: TokenCounter,
        retention: Retention,
        example_count: int,
    ) -> bool:
        """Return True if *messages* extend the folded record, by identity, under the same *state* and settings."""
        record = self.view.record
        return (
            self.counter is counter
            and self.retention == retention
            and self.example_count == example_count
            and (state is self.state or state == self.state)
            and len(record) <= len(messages)
            and all(map(is_, record, messages))
        )
