"""Calls that wait: what they wait for, and what the answer makes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...errors import ToolError
from ...messages import ToolCall
from ...storage.codec import storable
from ...waits import Wait, WaitKind, arguments_hash

if TYPE_CHECKING:
    from ..run import Run


class Waiting(Exception):  # noqa: N818 - no error: how a call tells its dispatch, and nobody else, that it waits
    """The call cannot go on without an answer from outside."""

    def __init__(self, kind: WaitKind, seconds: float | None, who: tuple[str, ...], note: str, arguments: str) -> None:
        super().__init__(kind)
        self.kind: WaitKind = kind
        self.seconds = seconds
        self.who = tuple(who)
        self.note = note
        self.arguments = arguments


def asked_arguments(arguments: dict[str, Any]) -> str:
    """*arguments* as the JSON text that is shown to whoever approves, and that the approval is bound to."""
    text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    # A store changes what is no Unicode (lone surrogates), and the approval would no longer be for this text.
    return text if storable(text) == text else json.dumps(arguments, sort_keys=True)


def open_wait(run: Run[Any], call: ToolCall, key: str, waiting: Waiting) -> Wait:
    """The row that anybody who may can answer."""
    return Wait(
        key=key,
        run_id=run.id,
        root_id=run.root_id,
        agent_path=run.path,
        call_id=call.id,
        tool=call.name,
        kind=waiting.kind,
        arguments=waiting.arguments,
        arguments_hash=arguments_hash(waiting.arguments),
        who=waiting.who,
        note=waiting.note,
        expires=waiting.seconds,
    )


def outcome_of(wait: Wait) -> tuple[str, bool] | None:
    """What the model reads of an answer, and whether that is an error; None: the call was approved, and may run."""
    resolution = wait.resolution
    assert resolution is not None
    match resolution.verdict:
        case "approved":
            return None
        case "result":
            return resolution.content, False
        case "failed":
            return resolution.content or "it failed", True
        case "denied":
            by = f" by {resolution.by}" if resolution.by else ""
            return f"not allowed{by}: {resolution.content or 'no reason was given'}", True
        case "expired":
            what = "nobody allowed it in time" if wait.kind == "approval" else "no result came in time"
            return what, True
        case "cancelled":
            return "the run was stopped while this waited", True


def approved(wait: Wait, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that were approved. Raises `ToolError` if the call's are no longer those that were shown."""
    resolution = wait.resolution
    assert resolution is not None
    shown = asked_arguments(arguments)
    if arguments_hash(shown) != wait.arguments_hash:
        raise ToolError("refused: the arguments are not those that were shown for approval")
    if resolution.arguments is None:
        return arguments
    edited = json.loads(resolution.arguments)
    if not isinstance(edited, dict):
        raise ToolError("refused: the approved arguments are no JSON object")
    return edited
