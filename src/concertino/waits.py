"""Waits: a tool call whose outcome is not there yet, and the one outcome that it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .ids import digest

WaitKind = Literal["approval", "result"]
"""`approval`: somebody must allow the call before it runs. `result`: it runs, and its result comes from outside."""
Verdict = Literal["approved", "denied", "result", "failed", "expired", "cancelled"]
"""How a wait ended. `approved` and `denied` answer an approval; `result` and `failed` are what came from outside;
`expired`: nobody answered in time; `cancelled`: its run was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The outcome of a wait. The first one wins; a wait has no second."""

    verdict: Verdict
    id: str = ""
    """Made by the one who answers, to tell whether it was theirs that won."""
    content: str = ""
    """The result, the error, or the reason for a denial, as the model is to read it."""
    arguments: str | None = None
    """For an approval with other arguments than the call's: these, as JSON text."""
    by: str = ""
    """Who answered."""
    at: float = 0.0
    """Seconds since the epoch, by the store's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One open call: a row that anybody who may can answer, from any process."""

    key: str
    """The engine's own id of the call, the same in every life of the run."""
    run_id: str
    root_id: str
    agent_path: str
    call_id: str
    """The provider's id of the call."""
    tool: str
    kind: WaitKind
    arguments: str
    """JSON text of the checked arguments; "" once the data policy has erased them."""
    arguments_hash: str
    who: tuple[str, ...] = ()
    """Who may answer; (): anybody whom the product lets."""
    note: str = ""
    """Why it is asked, for the one who answers."""
    opened: float = 0.0
    """Seconds since the epoch, by the store's clock."""
    expires: float | None = None
    """When it expires; None: never."""
    resolution: Resolution | None = None


def arguments_hash(arguments: str) -> str:
    """What binds an approval to the very *arguments*, as JSON text, that were shown."""
    return digest(arguments)
