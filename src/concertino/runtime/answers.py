"""Answers to waiting calls: their effect, and who may give them."""

from __future__ import annotations

from ..errors import NotAllowedError, RunStateError, UnknownWaitError
from ..records import record
from ..scope import AnyScope, Scope, TenantScope
from ..storage.base import Store
from ..waits import Wait


@record
class AnswerOutcome:
    """The effect of an answer to a waiting call."""

    won: bool
    """Whether the answer was the first. If not, it changed nothing: `wait.resolution` is the answer that counts."""
    wait: Wait


async def approval_of(store: Store, scope: AnyScope, key: str) -> tuple[AnyScope, Wait]:
    """Return the approval that waits under *key*, and the scope that answers it; `Store.approvals` lists the same ones.

    Raises `NotAllowedError`, `UnknownWaitError`, and `RunStateError` if the call waits for a result.
    """
    wait = await store.wait(scope, key)
    if wait is None and isinstance(scope, Scope):
        # An approver is named by the call, and need not own the run.
        scope = TenantScope(scope.tenant, by=scope.user)
        wait = await store.wait(scope, key)
        wait = wait if wait is not None and scope.by in wait.who else None
    if wait is None:
        raise UnknownWaitError(f"no call waits under {key!r}")
    if wait.kind != "approval":
        raise RunStateError(f"{key} waits for a result, not for an approval: use resolve")
    if wait.who and scope.by not in wait.who:
        raise NotAllowedError(f"{scope.by!r} may not answer {key}; those who may: {', '.join(wait.who)}")
    return scope, wait
