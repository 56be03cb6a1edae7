"""Calls that wait for an answer from outside: the wait's row, and what the answer makes of the call."""

from __future__ import annotations

import json
from typing import Any

from ...errors import ToolError
from ...messages import ToolCall
from ...storage.codec import storable
from ...waits import APPROVAL_TIMED_OUT, Wait, WaitKind, arguments_hash, denial
from ..run import RunSession


class NeedsAnswer(Exception):  # noqa: N818 - a signal from a call to its dispatcher, not an error
    """The call cannot continue without an answer from outside."""

    def __init__(
        self,
        kind: WaitKind,
        seconds: float | None,
        who: tuple[str, ...],
        note: str,
        arguments: str,
        *,
        target: str = "",
        task: str = "",
    ) -> None:
        super().__init__(kind)
        self.kind: WaitKind = kind
        self.seconds = seconds
        self.who = tuple(who)
        self.note = note
        self.arguments = arguments
        self.target = target
        """The target of a fleet that does the work; empty: none."""
        self.task = task
        """JSON text of the work."""


def arguments_text(arguments: dict[str, Any]) -> str:
    """Return *arguments* as the JSON text that an approver sees, and that the approval is bound to."""
    text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    # A store replaces lone surrogates, and the approval would no longer be bound to this text.
    return text if storable(text) == text else json.dumps(arguments, sort_keys=True)


def wait_of(run: RunSession, call: ToolCall, key: str, needs: NeedsAnswer) -> Wait:
    """Return the row of a waiting call."""
    return Wait(
        key=key,
        run_id=run.id,
        root_id=run.tree.root_id,
        agent_path=run.path,
        call_id=call.id,
        tool=call.name,
        kind=needs.kind,
        arguments=needs.arguments,
        arguments_hash=arguments_hash(needs.arguments),
        who=needs.who,
        note=needs.note,
        expires=needs.seconds,
        target=needs.target,
        task=needs.task,
    )


def answer_text(wait: Wait) -> tuple[str, bool] | None:
    """Return the model's text for an answer and whether it is an error; None if the call was approved and may run."""
    resolution = wait.resolution
    assert resolution is not None
    match resolution.verdict:
        case "approved":
            return None
        case "result":
            return resolution.content, False
        case "failed":
            return resolution.content or "the call failed", True
        case "denied":
            return denial(resolution.by, resolution.content), True
        case "expired":
            return APPROVAL_TIMED_OUT if wait.kind == "approval" else "no result arrived in time", True
        case "cancelled":
            return "the run was stopped while this call waited", True


def approved_arguments(wait: Wait, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that were approved. Raises `ToolError` if they differ from the arguments that were shown."""
    resolution = wait.resolution
    assert resolution is not None
    if arguments_hash(arguments_text(arguments)) != wait.arguments_hash:
        raise ToolError("refused: the arguments differ from those shown for approval")
    if resolution.arguments is None:
        return arguments
    edited = json.loads(resolution.arguments)
    if not isinstance(edited, dict):
        raise ToolError("refused: the approved arguments are not a JSON object")
    return edited
