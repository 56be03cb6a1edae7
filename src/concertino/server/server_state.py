"""The state of one application: its runtime, its settings, and whether it drains."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..errors import ConfigurationError
from ..runtime import Runtime
from ..scope import OPERATOR
from .file_folder import FileFolder
from .request_limits import RequestRates

RETRY_AFTER = {"Retry-After": "5"}
_FRESH = 1.0
"""Seconds for which a check of the store counts."""


def state_of(request: Request) -> ServerState | None:
    """Return the state of the application; None if `create_app` has not made it."""
    return getattr(request.app.state, "server", None)


class Closing:
    """The end of all streams. Each has a future of its own: an `asyncio.Event` would take a task for each."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether streams are to end."""
        return self._is_set

    def set(self) -> None:
        """Let streams end."""
        self._is_set = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def future(self) -> asyncio.Future[None]:
        """Return a future that is done when streams are to end; cancel it when that no longer matters."""
        future = asyncio.get_running_loop().create_future()
        if self._is_set:
            future.set_result(None)
        else:
            self._waiting.add(future)
            future.add_done_callback(self._waiting.discard)
        return future


class StoreCheck:
    """Checks that the store can be read. Requests that come together, or within a second, share one check.

    Requests that ask need no session and have no rate, since a proxy asks all the time.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._check: asyncio.Task[None] | None = None
        self._fresh_until = 0.0

    async def passed(self) -> None:
        """Return if the last check has passed, else raise its error."""
        loop = asyncio.get_running_loop()
        if self._check is None or (self._check.done() and loop.time() >= self._fresh_until):
            self._check = loop.create_task(self._read())
        await asyncio.shield(self._check)

    async def _read(self) -> None:
        try:
            await self._runtime.store.event_positions(OPERATOR, [""])
        finally:
            self._fresh_until = asyncio.get_running_loop().time() + _FRESH


class ServerState:
    """The values that the endpoints of an application share."""

    def __init__(
        self, runtime: Runtime, agents: Sequence[str] | None, files: FileFolder | None, rates: RequestRates
    ) -> None:
        known = [agent.name for agent in runtime.agents]
        for name in agents or ():
            if name not in known:
                raise ConfigurationError(f"create_app(agents=...): the runtime has no agent {name!r}")
        self.runtime = runtime
        self.agents = tuple(known if agents is None else agents)
        """The names of the agents that a conversation may have; the first is the default."""
        self.files = files
        self.rates = rates
        self.store_check = StoreCheck(runtime)
        self.draining = False
        """Whether new work is refused, because the process is about to end."""
        self.closing = Closing()
        """Set when streams end."""

    def check_open(self) -> None:
        """Raise `HTTPException` with status 503 if new work is refused."""
        if self.draining:
            raise HTTPException(503, "this process is about to end: send the request again", RETRY_AFTER)

    async def drain(self, grace: float) -> None:
        """Refuse new work, park the runs that do not end within *grace* seconds, and end all streams."""
        self.draining = True
        await self.runtime.close(grace)
        self.closing.set()
