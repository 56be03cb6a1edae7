"""`McpToolbox`: the tools, resources and prompts of several MCP servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

from ...errors import ConcertinoError, ConfigurationError, ToolError
from ...messages import AssistantMessage, Media, MediaPart, Message, Text, UserMessage
from ...scope import Scope
from ..base import Tool, ToolResult, check_tool
from .awaited_tool import AwaitedTool
from .connection import Connection, McpConnectionError
from .login_tool import ElicitationAsk, LogIn
from .oauth.refused_requests import refusals
from .remote_task import RemoteTask
from .remote_tool import FollowTask, McpTool, add_block, add_contents
from .resource_tools import ListResources, ReadResource
from .server import McpServer
from .user_tools import UserTools

log = logging.getLogger("concertino.mcp")

_MOST_PAGES, _MOST_TOOLS = 100, 2_000
_MOST_SCOPES = 100
"""Connections of different scopes to one server; beyond that, the one unused for longest is closed."""
_CHANGE_SECONDS = 1.0
"""The time between two listings of a server that reports changes."""


class McpToolbox:
    """The tools of *servers*, as an async context manager.

    Entering it connects to all servers concurrently. A server that fails is left out. *report* gets a line about it and
    about each tool that cannot be used; `problems` has the same lines. Call `refresh` to try again.

    Raises `ConfigurationError` if two servers have the same name.
    """

    def __init__(self, *servers: McpServer, report: Callable[[str], object] = log.warning) -> None:
        names = [server.name for server in servers]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"two MCP servers have the same name: {', '.join(sorted(names))}; rename one")
        self._servers = {server.name: server for server in servers}
        self._report = report
        self._tools: dict[str, tuple[Tool, ...]] = {}
        self._all: tuple[Tool, ...] = ()
        self._connections: dict[tuple[str, str], Connection] = {}
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.users = UserTools(self._servers.values(), self.listed, report)
        self.ask: ElicitationAsk | None = None
        """How to ask the user a question of a server; None refuses it. `McpTools` sets it."""
        self.follow: FollowTask | None = None
        """How a run with a store waits for a task; None keeps the call open. `McpTools` sets it."""
        self.problems: dict[str, tuple[str, ...]] = {}
        """By server: why it, or some of its tools, cannot be used."""

    async def __aenter__(self) -> Self:
        """Connect to all servers."""
        await self.refresh()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        for task in [*self._refreshing.values(), *self._background]:
            task.cancel()
        await self.users.close()
        await asyncio.gather(*[connection.close() for connection in self._connections.values()])

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of all servers; another tuple after a server has changed its tools.

        A server with `oauth` has only a tool to log in; `tools_of` returns the tools of a user.
        """
        return self._all

    async def tools_of(self, scope: Scope) -> tuple[Tool, ...]:
        """Return the tools of the servers with `oauth` to which the user of *scope* has logged in."""
        return await self.users.tools_of(scope)

    def awaited(self, name: str) -> Tool | None:
        """Return what stands in for a tool of a server with `oauth` that cannot be listed now; None for others."""
        server = self._servers.get(name.partition(".")[0])
        return None if server is None or server.oauth is None else AwaitedTool(name, server, self)

    async def refresh(self) -> None:
        """List the tools of all servers again."""
        await asyncio.gather(*[self._refresh(server) for server in self._servers.values()])

    async def read(self, server: str, uri: str, scope: Scope | None = None) -> ToolResult:
        """Return the resource *uri* of a server. Raises `ToolError` if it cannot be read."""
        contents = await self.request(server, scope, lambda client: client.read_resource(uri))
        texts: list[str] = []
        media: list[Media] = []
        for each in contents.contents:
            add_contents(each, texts, media)
        return ToolResult("\n".join(texts), media=tuple(media))

    async def prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None, scope: Scope | None = None
    ) -> tuple[Message, ...]:
        """Return a prompt of a server as messages for `Chat(history=...)`. Raises `ToolError` if it has none."""
        found = await self.request(server, scope, lambda client: client.get_prompt(name, dict(arguments or {})))
        messages: list[Message] = []
        for message in found.messages:
            texts: list[str] = []
            media: list[Media] = []
            add_block(message.content, texts, media)
            if message.role == "user":
                messages.append(UserMessage("\n".join(texts), tuple(media)))
            else:
                messages.append(AssistantMessage((*map(Text, texts), *map(MediaPart, media))))
        return tuple(messages)

    async def prompts(self, server: str, scope: Scope | None = None) -> tuple[tuple[str, str], ...]:
        """Return the names and descriptions of the prompts of a server. Raises `ToolError` if it has none."""
        found = await self.request(server, scope, lambda client: client.list_prompts())
        return tuple([(prompt.name, prompt.description or "") for prompt in found.prompts])

    def cancel(self, server: str, task_id: str, scope: Scope) -> None:
        """Ask a server in the background to cancel a task, if it is one of the toolbox."""
        if (known := self._servers.get(server)) is not None:
            self._spawn(RemoteTask(self.connection, known, "", scope).cancel(task_id))

    # -- connections ---------------------------------------------------------------------------------------------

    def connection(self, server: McpServer, scope: Scope) -> Connection:
        """Return the connection of *scope* to *server*."""
        key = server.name, scope.key if server.per_scope else ""
        found = self._connections.pop(key, None)
        if found is None:
            found = Connection(server, scope, lambda: self._changed(server))
            self._close_unused(server.name)
        self._connections[key] = found  # the last one is the newest
        return found

    def _close_unused(self, server: str) -> None:
        own = [key for key in self._connections if key[0] == server]
        if len(own) >= _MOST_SCOPES:
            unused = next((key for key in own if self._connections[key].idle and key[1]), None)
            if unused is not None:
                self._spawn(self._connections.pop(unused).close())

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def request(self, server: str, scope: Scope | None, send: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return what *send* returns for the server's client. Raises `ToolError` if the server fails."""
        known = self._servers.get(server)
        if known is None:
            raise ConfigurationError(f"no MCP server is named {server!r}: choose from {', '.join(self._servers)}")
        try:
            async with asyncio.timeout(known.timeout):
                with refusals(server):
                    return await send(await self.connection(known, scope or Scope()).client())
        except ConcertinoError as error:
            raise ToolError(str(error)) from None
        except TimeoutError:
            raise ToolError(f"{server} did not answer within {known.timeout:g} s") from None
        except Exception as error:  # noqa: BLE001 - what a server does wrong is an error of this request
            raise ToolError(f"{server}: {getattr(error, 'message', '') or error!s:.500}") from None

    # -- the list of tools ---------------------------------------------------------------------------------------

    def _changed(self, server: McpServer) -> None:
        """List the tools of *server* again, soon and once, however often it reports a change."""
        task = self._refreshing.get(server.name)
        if task is None or task.done():
            self._refreshing[server.name] = asyncio.create_task(self._refresh_soon(server))

    async def _refresh_soon(self, server: McpServer) -> None:
        await asyncio.sleep(_CHANGE_SECONDS)
        await self._refresh(server)

    async def _refresh(self, server: McpServer) -> None:
        problems: list[str] = []
        try:
            async with asyncio.timeout(server.connect_seconds):
                tools = await self._shared_tools(server, problems)
        except TimeoutError:
            problems = [f"MCP server {server.name!r} did not list its tools within {server.connect_seconds:g} s"]
        except McpConnectionError as error:
            problems = [str(error)]
        except Exception as error:  # noqa: BLE001 - a server harms only its own tools
            problem = f"{type(error).__name__}: {error!s:.300}"
            problems = [f"MCP server {server.name!r}: its tools cannot be listed: {problem}"]
        else:
            self._tools[server.name] = tools
            self._all = tuple([tool for each in self._servers for tool in self._tools.get(each, ())])
        self.problems.pop(server.name, None)
        if problems:
            self.problems[server.name] = tuple(problems)
        for problem in problems:
            self._report(problem)

    async def _shared_tools(self, server: McpServer, problems: list[str]) -> tuple[Tool, ...]:
        if server.oauth is None:
            return await self.listed(server, Scope(), problems)
        self.users.forget(server)
        return (LogIn(server, self),)

    async def listed(self, server: McpServer, scope: Scope, problems: list[str]) -> tuple[Tool, ...]:
        """List the tools of *server* for *scope*, and add to *problems* which are left out. Raises what fails."""
        client = await self.connection(server, scope).client()
        found: dict[str, Tool] = {}
        offered: set[str] = set()
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            for each in page.tools[: _MOST_TOOLS - len(found)]:
                if server.tools is not None and each.name not in server.tools:
                    continue
                offered.add(each.name)
                if problem := _added(found, McpTool(server, each, self)):
                    problems.append(f"MCP server {server.name!r}: {problem}")
            cursor = page.next_cursor
            if cursor is None or len(found) == _MOST_TOOLS:
                break
        if server.tools is not None and (missing := set(server.tools) - offered):
            problems.append(f"MCP server {server.name!r} has no tool {', '.join(sorted(missing))}")
        if server.tools is None and await _has_resources(client):
            for resource_tool in (ListResources(self, server.name), ReadResource(self, server.name)):
                found.setdefault(resource_tool.spec.name, resource_tool)
        return tuple(found.values())


def _added(found: dict[str, Tool], tool: Tool) -> str:
    """Add *tool* to *found*, by the name that models see; return why it cannot be used, "" if it can."""
    try:
        check_tool(tool)
        tool.schema.require_valid()
    except ConfigurationError as error:
        return str(error)
    other = found.setdefault(tool.spec.name, tool)
    return "" if other is tool else f"models see {tool.name!r} as {other.name!r}"


async def _has_resources(client: Any) -> bool:
    """Return whether the server has resources now. Many declare the capability and have none."""
    if client.server_capabilities.resources is None:
        return False
    if (await client.list_resources()).resources:
        return True
    return bool((await client.list_resource_templates()).resource_templates)
