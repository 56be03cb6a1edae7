"""The user's messages on their way into a run: their review, and those sent while the agent runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...errors import LimitError
from ...events import Steered
from ...messages import Media, UserMessage
from ..hooks import Hooks, within_patience
from ..outcome import CONTINUE, Fail, Finish, StepOutcome
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


async def first_message(run: RunSession, hooks: Hooks) -> tuple[str, StepOutcome]:
    """Return the first message as the agent admits it and `CONTINUE`, or a stand-in and how the run ends instead."""
    reviewed = await reviewed_input(run, hooks, run.chat.message)
    if isinstance(reviewed, str):
        _show(run, reviewed, run.chat.media)
        return reviewed, CONTINUE
    _show(run, WITHHELD, ())
    return WITHHELD, reviewed


def show_admitted(run: RunSession) -> None:
    """Show the hooks of a resumed run the first message as the agent has admitted it."""
    first = next((message for message in run.added if isinstance(message, UserMessage)), None)
    if first is not None:
        _show(run, first.text, first.media)


def _show(run: RunSession, message: str, media: Sequence[Media]) -> None:
    """Keep what was not admitted from the hooks, which may send the message of the chat to a model or a library."""
    run.set_chat(dataclasses.replace(run.chat, message=message, media=media))
    run.context.chat = run.chat


async def new_steers(run: RunSession) -> list[str]:
    """Return the messages sent to the running agent since the last step."""
    steers, run.steers = run.steers, []
    journal = run.journal
    if run.tree.store is not None:
        for command in await run.tree.store.commands(run.scope, run.id, after=journal.processed):
            journal.processed = command.number
            if command.kind == "steer":
                steers.append(command.text)
    return steers


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
