"""The review of a user's message before it enters a run."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import LimitError
from ...events import Steered
from ...messages import UserMessage
from ..hooks import Hooks, within_patience
from ..outcome import Fail, Finish
from ..run import RunSession
from .open import fitting

WITHHELD = "[This message was not admitted.]"
"""Stands in the conversation for a user's message that the agent did not admit."""


async def reviewed_input(run: RunSession, hooks: Hooks, text: str) -> str | Finish | Fail:
    """Return a user's message as the agent admits it, or how the run ends instead."""
    if not hooks.review_input.own:
        return text
    try:
        return await within_patience(run, "review_input", hooks.review_input(run.context, text))
    except LimitError as reached:
        return Fail(f"the message could not be reviewed: {reached}")


async def admit(run: RunSession, hooks: Hooks, messages: Sequence[str]) -> Finish | Fail | None:
    """Add messages of the user to the running agent, or return how the run ends instead."""
    for message in messages:
        text = await reviewed_input(run, hooks, run.clean(message))
        if not isinstance(text, str):
            run.add(UserMessage(WITHHELD))
            return text
        run.add(UserMessage(fitting(run, text)))
        run.state.has_tool_calls = True
        run.emit(Steered, text)
    return None
