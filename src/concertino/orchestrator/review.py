"""Review of texts that hooks and tools show as the answer, outside the turns; those of turns are in `turn`."""

from __future__ import annotations

from ..messages import AssistantMessage, Text
from .hooks import Hooks
from .outcome import Finish
from .run import RunSession


async def reviewed(run: RunSession, hooks: Hooks, message: AssistantMessage) -> AssistantMessage:
    """Return *message* as the agent's `review_answer` admits it, or the text that it ends a turn with instead.

    Raises `HookError` for any other decision: there is no turn that could continue or fail.
    """
    decision = await hooks.review_answer(run.context, message)
    if isinstance(decision, Finish):
        decision = AssistantMessage((Text(decision.text),) if decision.text else ())
    if not isinstance(decision, AssistantMessage):
        name = type(decision).__name__
        raise hooks.review_answer.error(f"returned {name} for a text outside a turn: return a message or a Finish")
    run.admitted = decision.text
    return decision


async def reviewed_text(run: RunSession, hooks: Hooks, text: str) -> str:
    """Return the *text* of a hook as `reviewed` admits it, unless it was admitted before."""
    if not hooks.review_answer.own or not text or text == run.admitted:
        return text
    return (await reviewed(run, hooks, AssistantMessage((Text(text),)))).text
