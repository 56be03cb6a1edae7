"""The parts of the port `Store` that keep schedules and secrets of users."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from ..scope import AnyScope, Operator, Scope

if TYPE_CHECKING:
    from .schedule_types import Schedule


class ScheduleStore(Protocol):
    """Schedules: messages that are sent to an agent at given times, each on behalf of a user."""

    async def add_schedule(self, scope: Scope, schedule: Schedule) -> bool:
        """Store a schedule of *scope*. Return False, and change nothing, if its scope has one of that id."""
        ...

    async def schedules(self, scope: AnyScope, *, limit: int = 100) -> Sequence[Schedule]:
        """Return the schedules that *scope* reaches, the oldest first."""
        ...

    async def schedule(self, scope: AnyScope, schedule_id: str) -> Schedule | None:
        """Return one schedule, or None."""
        ...

    async def due_schedules(
        self, scope: Operator, limit: int = 50, agents: Collection[str] | None = None
    ) -> tuple[float, Sequence[Schedule]]:
        """Return the store's time, and the schedules that are due, the longest due first; only those of *agents*."""
        ...

    async def move_schedule(
        self, scope: AnyScope, schedule_id: str, due_at: float | None, *, since: float | None
    ) -> bool:
        """Set when a schedule is due, or pause it with None, if it is due at *since* now. Return whether it was."""
        ...

    async def delete_schedule(self, scope: AnyScope, schedule_id: str) -> bool:
        """Erase a schedule. Return whether there was one."""
        ...


class SecretStore(Protocol):
    """Secrets of users, such as the tokens of a login. The store gets them encrypted, and has no key.

    A secret has a version, which no other secret of its name has had. A process that wants to replace a secret can
    claim it, so that the others wait. Only the version decides whether a replacement counts.
    """

    async def secret(self, scope: AnyScope, name: str) -> tuple[str, int] | None:
        """Return the encrypted text and the version of a secret, or None."""
        ...

    async def put_secret(self, scope: Scope, name: str, sealed: str, *, version: int | None) -> bool:
        """Replace *version* of a secret, and end the claim on it; with None, add it. Return whether this was done.

        It is not done if the secret has another version, or, with None, if there is one.
        """
        ...

    async def claim_secret(self, scope: Scope, name: str, *, version: int, seconds: float) -> bool:
        """Claim *version* of a secret for *seconds*. Return False if it is claimed, or has another version."""
        ...

    async def delete_secret(self, scope: AnyScope, name: str, *, version: int | None = None) -> bool:
        """Erase a secret, if it has *version*; with None, whichever it has. Return whether there was one."""
        ...
