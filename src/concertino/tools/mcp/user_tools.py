"""The tools of servers with a login: each user has their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ...errors import ConcertinoError, ToolError
from ...scope import Scope
from ..base import Tool
from .oauth.login_values import LoginRequiredError
from .oauth.refused_requests import refusals
from .server import McpServer

Listing = Callable[[McpServer, Scope, list[str]], Awaitable[tuple[Tool, ...]]]
"""Lists the tools of a server for a user, and adds to the list which of them cannot be used."""

_MOST_LISTS = 200


class UserTools:
    """The tools of the users of *servers*, listed once in each process, and again after a change."""

    def __init__(self, servers: Iterable[McpServer], listing: Listing, report: Callable[[str], object]) -> None:
        self._servers = servers
        self._listing = listing
        self._report = report
        self._lists: dict[tuple[str, str], tuple[Tool, ...]] = {}

    async def tools_of(self, scope: Scope) -> tuple[Tool, ...]:
        """Return the tools of all servers to which the user of *scope* has logged in. A failure is reported."""
        servers = [server for server in self._servers if server.oauth is not None]
        found = await asyncio.gather(*[self._tools_of(server, scope) for server in servers])
        return tuple([tool for tools in found for tool in tools])

    async def _tools_of(self, server: McpServer, scope: Scope) -> tuple[Tool, ...]:
        if (known := self._lists.get((server.name, scope.key))) is not None:
            return known
        try:
            if server.oauth is None or not await server.oauth.is_logged_in(server, scope):
                return ()
            return await self.list_tools(server, scope)
        except LoginRequiredError:
            return ()
        except ConcertinoError as error:
            self._report(str(error))
            return ()

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
        while len(self._lists) >= _MOST_LISTS:
            del self._lists[next(iter(self._lists))]
        self._lists[server.name, scope.key] = found
        return found

    def forget(self, server: McpServer) -> None:
        """Let the tools of *server* be listed again."""
        for key in [key for key in self._lists if key[0] == server.name]:
            del self._lists[key]
