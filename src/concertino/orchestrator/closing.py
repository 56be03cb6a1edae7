"""Closing a turn that nobody goes on with, so that every provider takes the conversation back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..events import StoppedWork
from ..messages import Message, ToolMessage, UserMessage
from .outcome import Outcome
from .record import OpenTurn
from .tree import Tree

INTERRUPTED = "interrupted: the run was stopped before this tool had ended"
NOT_BEGUN = "not run: the run was stopped before"


def closing(tree: Tree, path: str, turn: OpenTurn | None, added: Sequence[Message]) -> Iterator[Message]:
    """A result for each call of an open *turn* of the agent at *path* that has none among the messages *added*.

    What became of the calls goes into the tree's receipt.
    """
    if turn is None:
        return
    answered = {message.call_id for message in added[turn.at :] if isinstance(message, ToolMessage)}
    native = {call.id for call in turn.message.tool_calls}
    for place, call in enumerate(turn.calls):
        if call.id in answered:
            continue
        outcome = turn.outcomes.get(place)
        if outcome is None:
            begun = place in turn.begun
            effect = "once" if begun else ""
            work = StoppedWork(agent_path=path, what="tool", name=call.name, call_id=call.id, effect=effect)
            tree.note_stopped("unknown" if begun else "stopped", work)
            outcome = Outcome(call, INTERRUPTED if begun else NOT_BEGUN, is_error=True)
        yield result_message(outcome, native=call.id in native)


def result_message(outcome: Outcome, *, native: bool) -> Message:
    """A call's outcome as it stands in the conversation: a user's message, if no provider knows of the call."""
    call = outcome.call
    if not native:
        return UserMessage(f"[result of {call.name}]\n{outcome.content}", tool=call.name)
    return ToolMessage(
        call.id,
        call.name,
        outcome.content,
        outcome.is_error,
        outcome.whole,
        outcome.summary,
        retain=outcome.retain,
        handle=outcome.handle,
    )
