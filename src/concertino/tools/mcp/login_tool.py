"""Calls that wait for a login of the user, and the tool with which a model asks for one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from ...errors import ToolError
from ..base import Tool, ToolContext
from .connection import Elicitation, ElicitationAnswer
from .oauth.login_values import Challenge, LoginError, LoginRequiredError
from .server import McpServer
from .user_tools import UserTools

T = TypeVar("T")
ElicitationAsk = Callable[[ToolContext, Elicitation], Awaitable[ElicitationAnswer]]
"""Asks the user of a call."""

_MOST_LOGINS = 3
_SHOWN_TOOLS, _SHOWN = 100, 200


class LoginToolbox(Protocol):
    """The toolbox of a server with a login."""

    ask: ElicitationAsk | None
    users: UserTools


async def with_login(
    toolbox: LoginToolbox, server: McpServer, context: ToolContext, work: Callable[[], Awaitable[T]]
) -> T:
    """Do the *work* of a call, again after a login if the server asks for one. Raises `ToolError`."""
    for _ in range(_MOST_LOGINS):
        try:
            return await work()
        except LoginRequiredError as needed:
            await _log_in(toolbox.ask, server, context, needed.challenge)
        except LoginError as error:
            raise ToolError(f"{server.name}: {error}") from None
    raise ToolError(f"{server.name} refuses the user, who has logged in")


async def _log_in(ask: ElicitationAsk | None, server: McpServer, context: ToolContext, challenge: Challenge) -> None:
    """Wait until the user of a call has logged in to *server*. Raises `ToolError` if they do not."""
    if ask is None or server.oauth is None:
        raise ToolError(f"{server.name} needs a login of the user")
    try:
        url = await server.oauth.begin(server, context.scope, challenge)
    except LoginError as error:
        raise ToolError(f"{server.name}: {error}") from None
    message = f"Log in to {server.name} to continue."
    answer = await ask(context, Elicitation(message=message, url=url, login=server.name))
    if answer.action != "accept":
        raise ToolError(f"the user has not logged in to {server.name}")


class LogIn(Tool):
    """Asks the user to log in to a server, and tells the model which tools that gives."""

    effect = "idempotent"
    logs_in = True
    """Marks the calls after which the user may have other tools."""
    parameters = {"type": "object", "properties": {}, "additionalProperties": False}  # noqa: RUF012 - never changed

    def __init__(self, server: McpServer, toolbox: LoginToolbox) -> None:
        self.name = f"{server.name}.log_in"
        self.description = (
            f"Ask the user to log in to {server.name}, if its tools are missing and you need them. "
            "They are there afterwards."
        )
        self.timeout = server.timeout
        self._server, self._toolbox = server, toolbox

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return a line about each tool."""

        def work() -> Awaitable[Sequence[Tool]]:
            return self._toolbox.users.list_tools(self._server, context.scope)

        tools = await with_login(self._toolbox, self._server, context, work)
        lines = [f"{tool.spec.name}: {tool.description[:_SHOWN]}" for tool in tools[:_SHOWN_TOOLS]]
        return "\n".join([f"The user has logged in. Tools of {self._server.name}:", *lines])
