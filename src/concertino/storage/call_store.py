"""The part of the port `Store` by which processes of a fleet share the work of targets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from ..scope import Operator
from .types import ClaimedCall


class CallStore(Protocol):
    """Calls that the processes of a target answer, and targets with a single consumer."""

    async def claim_calls(
        self, scope: Operator, seconds: float, *, limit: int = 50, targets: Collection[str] | None = None
    ) -> Sequence[ClaimedCall]:
        """Claim up to *limit* calls that wait for the processes of *targets*; the longest due first. None: of all.

        Each is due again after *seconds*, unless it has an answer by then, or a run that works for it (`begin` with a
        root that has a `parent_id`). A call that another process is taking is left out.
        """
        ...

    async def postpone_call(self, scope: Operator, call: ClaimedCall, seconds: float) -> None:
        """Let any process take a claimed call after *seconds*, unless it has an answer or a run by then."""
        ...

    async def claim_target(self, scope: Operator, target: str, owner: str, seconds: float) -> str:
        """Make *owner* the only consumer of *target* for *seconds*, or longer if it is that already.

        Return the owner of the target now: another one whose lease has not ended keeps it.
        """
        ...

    async def leave_target(self, scope: Operator, target: str, owner: str) -> None:
        """End the lease of *owner* on *target*, if it has one."""
        ...
