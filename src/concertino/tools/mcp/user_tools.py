"""The tools of servers with a login: each user has their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic

from ...errors import ConcertinoError, ToolError
from ...records import record
from ...scope import Scope
from ..base import Tool
from .oauth.login_values import LoginRequiredError
from .oauth.refused_requests import refusals
from .server import McpServer

Listing = Callable[[McpServer, Scope, list[str]], Awaitable[tuple[Tool, ...]]]
"""Lists the tools of a server for a user, and adds to the list which of them cannot be used."""

_MOST_LISTS = 200
_PATIENCE = 5.0
"""How long the start of a run waits for a server, in seconds. The listing goes on, up to `connect_seconds`."""
_PAUSE = 60.0
"""For so long after a failure, runs start without waiting for the server again."""


@record(frozen=False)
class _Known:
    """The tools of one user on one server."""

    tools: tuple[Tool, ...] = ()
    fresh: bool = False
    """Whether they have been listed since the server has reported a change."""
    paused_until: float = 0.0


class UserTools:
    """The tools of the users of *servers*, listed once in each process, and again after a change."""

    def __init__(self, servers: Iterable[McpServer], listing: Listing, report: Callable[[str], object]) -> None:
        self._servers = servers
        self._listing = listing
        self._report = report
        self._known: dict[tuple[str, str], _Known] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def tools_of(self, scope: Scope) -> tuple[Tool, ...]:
        """Return the tools of all servers to which the user of *scope* has logged in.

        A failure is reported. Of a server that fails or does not answer soon, they are the tools known from before.
        """
        servers = [server for server in self._servers if server.oauth is not None]
        found = await asyncio.gather(*[self._tools_of(server, scope) for server in servers])
        return tuple([tool for tools in found for tool in tools])

    async def _tools_of(self, server: McpServer, scope: Scope) -> tuple[Tool, ...]:
        known = self._of(server, scope)
        if known.fresh or monotonic() < known.paused_until:
            return known.tools
        try:
            if server.oauth is None or not await server.oauth.is_logged_in(server, scope):
                return ()
        except ConcertinoError as error:
            self._report(str(error))
            return ()
        key = server.name, scope.key
        if (task := self._tasks.get(key)) is None:
            # A task of its own: it outlives a run that starts without it, and all runs of the user share it.
            task = self._tasks[key] = asyncio.create_task(self._try_to_list(server, scope))
            task.add_done_callback(lambda _: self._tasks.pop(key))
        await asyncio.wait([task], timeout=_PATIENCE)
        if not task.done():
            known.paused_until = monotonic() + _PAUSE
            self._report(f"{server.name} has not listed its tools within {_PATIENCE:g} s: a run starts without it")
        return self._of(server, scope).tools

    async def _try_to_list(self, server: McpServer, scope: Scope) -> None:
        try:
            await self.list_tools(server, scope)
        except LoginRequiredError:
            self._of(server, scope).tools = ()
        except ConcertinoError as error:
            self._of(server, scope).paused_until = monotonic() + _PAUSE
            self._report(str(error))

    def _of(self, server: McpServer, scope: Scope) -> _Known:
        key = server.name, scope.key
        if key not in self._known:
            while len(self._known) >= _MOST_LISTS:
                del self._known[next(iter(self._known))]
            self._known[key] = _Known()
        return self._known[key]

    async def list_tools(self, server: McpServer, scope: Scope) -> tuple[Tool, ...]:
        """List the tools of *server* for a user. Raises `ToolError` and `LoginRequiredError`."""
        problems: list[str] = []
        try:
            async with asyncio.timeout(server.connect_seconds):
                with refusals(server.name):
                    found = await self._listing(server, scope, problems)
        except TimeoutError:
            raise ToolError(f"{server.name} did not list its tools within {server.connect_seconds:g} s") from None
        except LoginRequiredError:
            raise
        except Exception as error:  # noqa: BLE001 - a server harms only its own tools
            raise ToolError(f"{server.name}: its tools cannot be listed: {error!s:.300}") from None
        for problem in problems:
            self._report(problem)
        known = self._of(server, scope)
        known.tools, known.fresh = found, True
        return found

    def forget(self, server: McpServer) -> None:
        """Let the tools of *server* be listed again."""
        for (name, _), known in self._known.items():
            if name == server.name:
                known.fresh, known.paused_until = False, 0.0

    async def close(self) -> None:
        """End the listings that are in progress."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
