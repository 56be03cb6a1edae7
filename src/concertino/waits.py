"""Waits: tool calls that wait for an answer from outside, and the resolution that each of them gets."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from .ids import digest
from .records import record

ASK_PERSON = "ask_person"
"""The name in `Wait.tool` for the question of a tool to a person."""
MOST_WAITS = 10_000
"""The number of a run's waits that its resumption reads."""
WaitKind = Literal["approval", "result"]
"""`approval`: a person must allow the call before it runs. `result`: the call's result arrives from outside."""
Verdict = Literal["approved", "denied", "result", "failed", "expired", "cancelled"]
"""Outcome of a wait. `approved` and `denied` answer an approval; `result` and `failed` arrive from outside; `expired`:
the deadline passed without an answer; `cancelled`: the run was stopped."""


Remember = Literal["once", "conversation", "always"]
"""The calls for which an approval counts: this one, or those of the tool by this agent for the run's user, in this
conversation or always."""


@record(kw_only=True)
class Resolution:
    """The outcome of a wait. The first one wins; later ones are rejected."""

    verdict: Verdict
    id: str = ""
    """Chosen by the sender, to recognize whether its own answer won."""
    content: str = ""
    """The result, the error, or the reason for a denial, as the model reads it."""
    arguments: str | None = None
    """JSON text that replaces the call's arguments, for an approval with changes."""
    by: str = ""
    """The person or system that answered."""
    remember: Remember = "once"
    """For an approval: how long it counts."""
    at: float = 0.0
    """Seconds since the epoch, by the store's clock."""


@record(kw_only=True)
class Wait:
    """An open call, which any process can answer."""

    key: str
    """The engine's id of the call, the same in every process that executes the run."""
    run_id: str
    root_id: str
    agent_path: str
    call_id: str
    """The provider's id of the call."""
    tool: str
    kind: WaitKind
    arguments: str
    """JSON text of the validated arguments; "" once the data policy has erased them."""
    arguments_hash: str
    who: tuple[str, ...] = ()
    """Ids of the users who may answer; empty for every scope that reaches the run."""
    note: str = ""
    """The reason why the call waits, for the person who answers."""
    opened: float = 0.0
    """Seconds since the epoch, by the store's clock."""
    expires: float | None = None
    """Deadline in seconds since the epoch; None for no deadline."""
    resolution: Resolution | None = None
    target: str = ""
    """The target of a fleet whose processes do the work; empty if the product answers."""
    task: str = field(default="", repr=False)
    """JSON text of the work, when the wait is opened."""


def arguments_hash(arguments: str) -> str:
    """Return the hash that binds an approval to the exact *arguments* (JSON text) that were shown."""
    return digest(arguments)


APPROVAL_TIMED_OUT = "approval timed out"
"""The error that the model reads of a call that was not approved in time."""
_DENIED = "not allowed"


def denial(by: str, reason: str) -> str:
    """Return the error that the model reads of a call that *by* has denied."""
    return f"{_DENIED}{f' by {by}' if by else ''}: {reason or 'no reason was given'}"


def is_denial(error: str) -> bool:
    """Return whether the error of a call that waited for an approval means that it was not approved."""
    return error.startswith((_DENIED, APPROVAL_TIMED_OUT))


def denial_reason(denied: str) -> str:
    """Return the reason in the error of a call that was not approved."""
    return denied.partition(": ")[2] or denied
