"""Operations: everything in a run that takes time, costs money or has an effect, and the states it passes through.

A model attempt, a tool call and a sub-agent are operations. Each has one row in the store and one state. A wait is the
state `waiting` of an operation, and a timer is its deadline. `transition` is the only function that changes a state;
the live engine, resume, stop, seal, erase, the store and the command line share it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from .records import record
from .scope import Scope

OperationKind = Literal["model_call", "tool_call", "sub_agent"]
OperationState = Literal["planned", "waiting", "running", "done", "failed", "unknown", "cancelled"]
"""`planned`: announced, and not begun. `waiting`: needs an answer from outside the process. `running`: begun.
`done`, `failed`, `cancelled`: ended. `unknown`: ended, and its outcome cannot be known."""
WaitsFor = Literal["approval", "result", "sub_agent"]
"""`approval`: a person must allow the call. `result`: the result comes from outside. `sub_agent`: the call's sub-agent
is suspended."""
OperationEvent = Literal[
    "start", "wait", "approve", "deny", "resolve", "expire", "complete", "fail", "recover", "lose", "cancel", "settle"
]
"""`start`: begin, or begin again. `wait`: an answer from outside is needed. `approve`, `deny`: a person answered.
`resolve`: the result came from outside. `expire`: the deadline passed. `complete`, `fail`: the work ended. `recover`:
the process ended, and the work may be repeated. `lose`: the process ended, and the work may have had its effect.
`cancel`: the work was stopped. `settle`: an unknown outcome was established later."""

ENDED: frozenset[OperationState] = frozenset(("done", "failed", "unknown", "cancelled"))
"""States that no event but `settle` leaves: the first outcome wins."""

_TRANSITIONS: dict[tuple[OperationState, OperationEvent], OperationState] = {
    ("planned", "start"): "running",
    ("planned", "wait"): "waiting",
    ("planned", "fail"): "failed",
    ("planned", "cancel"): "cancelled",
    ("waiting", "approve"): "planned",
    ("waiting", "start"): "running",
    ("waiting", "deny"): "failed",
    ("waiting", "resolve"): "done",
    ("waiting", "expire"): "failed",
    ("waiting", "fail"): "failed",
    ("waiting", "cancel"): "cancelled",
    ("running", "wait"): "waiting",
    ("running", "resolve"): "done",
    ("running", "complete"): "done",
    ("running", "fail"): "failed",
    ("running", "recover"): "planned",
    ("running", "lose"): "unknown",
    ("running", "cancel"): "cancelled",
    ("unknown", "settle"): "done",
}


def transition(state: OperationState, event: OperationEvent) -> OperationState:
    """Return the state that *event* leads to from *state*.

    The function is total: an event that does not apply leaves the state as it is. So a second answer, an answer after
    the deadline and a completion after a cancellation all change nothing.
    """
    return _TRANSITIONS.get((state, event), state)


def accepts(event: OperationEvent) -> tuple[OperationState, ...]:
    """Return the states that *event* leaves, for a store that applies it in one statement."""
    return tuple(state for state, accepted in _TRANSITIONS if accepted == event)


@record(kw_only=True)
class Operation:
    """An operation of a run, as the store keeps it while it is open."""

    key: str
    """Deterministic: the same operation has the same key in every process. `RUN:STEP.INDEX` for a tool call,
    `RUN:STEP:ATTEMPT` for a model attempt, the child's run id for a sub-agent."""
    scope: Scope
    run_id: str
    kind: OperationKind
    state: OperationState
    step: int
    name: str
    """The tool, the model (`provider:name`) or the agent."""
    index: int = 0
    """The call's index in its turn; -1 outside a turn."""
    call_id: str = ""
    """The provider's id of the call; empty if the call is not part of the model's message."""
    effect: str = ""
    """The tool's declared effect: `read`, `idempotent` or `once`."""
    remote: bool = False
    """Whether the result may arrive from outside, so that an answer is accepted as soon as the call runs."""
    waits_for: WaitsFor | None = None
    """In state `waiting`: the kind of the answer that is needed."""
    tokens: int | None = None
    """Of a model attempt: the tokens reserved for it; None without a budget."""
    money: Decimal | None = None
    """Of a model attempt: the US dollars reserved for it."""
    prompt: int | None = None
    """Of a model attempt: the counted tokens of its prompt."""
    outcome: dict[str, Any] | None = None
    """Of an ended call: its outcome, until the conversation contains it. JSON."""
