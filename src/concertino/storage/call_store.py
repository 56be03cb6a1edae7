"""The part of the port `Store` by which processes of a fleet share the work of targets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from ..records import record
from ..scope import Operator
from .types import Claim, ClaimedCall, Due


@record(kw_only=True)
class Consumer:
    """A process that is the only consumer of targets."""

    owner: str
    targets: Sequence[str]


class CallStore(Protocol):
    """Due trees, calls that the processes of a target answer, and targets with a single consumer."""

    async def due(
        self,
        scope: Operator,
        limit: int = 50,
        agents: Collection[str] | None = None,
        *,
        owner: str = "",
        consumer: Consumer | None = None,
    ) -> Due:
        """Expire overdue waits, and return up to *limit* trees to resume, only of *agents* if given.

        The trees that `claim_due` would not claim for *owner* are doubtful, except those of the targets that others
        than *consumer* have.
        """
        ...

    async def claim_due(
        self,
        scope: Operator,
        owner: str,
        seconds: float,
        *,
        limit: int = 50,
        agents: Collection[str] | None = None,
        consumer: Consumer | None = None,
    ) -> Sequence[Claim]:
        """Expire overdue waits, and claim up to *limit* trees that are due, as `claim` does; the longest due first.

        Only trees of *agents* are claimed, if given. A tree that another process is claiming is left out, not waited
        for. Doubtful trees are left to `due`: trees to stop, trees that were resumed without progress, and the trees
        of the owner's own process. Nothing is claimed if *consumer* has lost a target. The cost depends on *limit*, and
        not on the number or the age of runs.
        """
        ...

    async def claim_calls(
        self,
        scope: Operator,
        seconds: float,
        *,
        limit: int = 50,
        targets: Collection[str] | None = None,
        consumer: Consumer | None = None,
        overdue: float = 0.0,
    ) -> Sequence[ClaimedCall]:
        """Claim up to *limit* calls that wait for the processes of *targets*; the longest due first. None: of all.

        Each is due again after *seconds*, in the same order, unless it has an answer by then, or a run that works for
        it (`begin` with a root that has a `parent_id`). A call that another process is taking is left out, and so is a
        call that has been due for less than *overdue* seconds.
        Nothing is claimed if *consumer* has lost a target: its process may have been frozen since it looked.
        """
        ...

    async def postpone_call(self, scope: Operator, call: ClaimedCall, seconds: float) -> None:
        """Let any process take a claimed call after *seconds*, unless it has an answer or a run by then."""
        ...

    async def claim_target(
        self, scope: Operator, target: str, owner: str, seconds: float, agents: Collection[str] = ()
    ) -> str:
        """Make *owner* the only consumer of *target*, which has *agents*, for *seconds*, or longer if it is already.

        Return the owner of the target now: another one whose lease has not ended keeps it. Until the lease ends, claims
        of all others leave out the work of *agents*, calls of the target, and runs that call its tools.
        """
        ...

    async def leave_target(self, scope: Operator, target: str, owner: str) -> None:
        """End the lease of *owner* on *target*, if it has one."""
        ...
