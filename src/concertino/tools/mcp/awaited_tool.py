"""`AwaitedTool`: a stand-in for a tool of a user that cannot be listed."""

from __future__ import annotations

from typing import Any, NoReturn

from ...errors import ToolError
from ..base import Tool, ToolContext, ToolResult
from .login_tool import with_login
from .remote_task import RemoteTask
from .remote_tool import Toolbox, to_result
from .server import McpServer


class AwaitedTool(Tool):
    """Stands in for a tool of a user whose call is open in a resumed run, while the tool cannot be listed.

    It waits for a login if the server asks for one. It does not do the call: what the tool may do, and so whether a
    person has to approve it, is unknown until it is listed.
    """

    effect = "once"
    parameters = {"type": "object"}  # noqa: RUF012 - never changed
    stands_in = True
    """Marks what the user's own tool replaces after a call."""

    def __init__(self, name: str, server: McpServer, toolbox: Toolbox) -> None:
        self.name = name
        self.description = f"A tool of {server.name}, which cannot be described now."
        self.timeout = server.timeout
        self._server, self._toolbox = server, toolbox

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Follow the task of the call, if there is one. Else wait for a login, and raise `ToolError`."""
        server, toolbox = self._server, self._toolbox

        async def begin() -> NoReturn:
            await with_login(toolbox, server, context, lambda: toolbox.users.list_tools(server, context.scope))
            raise ToolError(
                f"{server.name} was not available, so the call was not done: call it again if you still need it"
            )

        if (follow := toolbox.follow) is None or not context.durable:
            await begin()
        # As in `McpTool`: a resumed call has to start its sub-agents in the same order.
        task = RemoteTask(toolbox.connection, server, self.name.partition(".")[2], context.scope)
        return to_result(await follow(context, task, begin), server.name)
