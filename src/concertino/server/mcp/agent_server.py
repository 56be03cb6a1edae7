"""`AgentServer`: the agents, workers and workflows of a runtime as tools of an MCP server."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import Route

from ..._version import __version__
from ...agents import WorkerAgent, WorkflowAgent
from ...agents.workflow.outside_tools import COMPLETION, CONTINUE, OutsideSteps
from ...errors import ConcertinoError, ConfigurationError, ToolError
from ...number_checks import check_amount
from ...orchestrator.agent import AgentConfig
from ...orchestrator.chat import Chat
from ...runtime import Runtime
from ...scope import Scope
from ..error_form import failure_text
from ..protocols.http import scope_of
from .call_report import error_report
from .exchange import Exchange
from .followed_runs import FollowedRuns, McpAnswer, McpContext
from .stdio import standard_streams

_MOST_CALLS = 10_000
"""Calls that a notification may cancel. A call that was cut off has no end that would remove it."""
_RUN: dict[str, Any] = {
    "type": "object",
    "properties": {"run": {"type": "string", "description": "The id of the run"}},
    "required": ["run"],
    "additionalProperties": False,
}
_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_MESSAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "The complete task; the agent sees nothing else"}
    },
    "required": ["message"],
    "additionalProperties": False,
}
_READS, _REPEATS = types.ToolAnnotations(read_only_hint=True), types.ToolAnnotations(idempotent_hint=True)
_OWN = {
    "continue_workflow": (CONTINUE, COMPLETION, _REPEATS),
    "get_run": ("Wait for a run and return its answer, or what it waits for.", _RUN, _READS),
    "list_runs": ("List the newest runs with their states.", _NOTHING, _READS),
    "stop_run": ("Stop a run.", _RUN, _REPEATS),
}
_INSTRUCTIONS = (
    "Each call of an agent starts a run, which does not depend on the connection. If it takes long or waits for "
    "someone, the call returns its state: get_run returns the answer later."
)


class AgentServer:
    """Agents, workers and workflows of *runtime* as tools of an MCP server, as an async context manager.

    The caller has entered *runtime*, and closes it. Clients see *agents*, by default all of the runtime, with
    *descriptions* by agent; those of workflows and workers are the default. A call starts a run, and returns after
    *seconds* at the latest, with the state of a run that takes longer. *secret* signs the tokens of the steps that a
    client does; it must be the same in all processes, and is random by default, which suits a single process.

    Raises `ConfigurationError` if the runtime lacks an agent, or one has the name of a tool of the server.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        agents: Sequence[str] | None = None,
        descriptions: Mapping[str, str] | None = None,
        name: str = "concertino",
        secret: str = "",
        seconds: float = 50.0,
    ) -> None:
        known = {agent.name: agent for agent in runtime.agents}
        offered = [each.name for each in known.values() if _is_active(each)] if agents is None else list(agents)
        for each in offered:
            if each not in known:
                raise ConfigurationError(f"AgentServer(agents=...): the runtime has no agent {each!r}")
            if each in _OWN:
                raise ConfigurationError(f"AgentServer: {each!r} is a tool of the server: give the agent another name")
        check_amount("AgentServer", "seconds", seconds, "seconds above 0")
        self._runtime = runtime
        self._agents = frozenset(offered)
        self._outside = OutsideSteps(runtime, secret or secrets.token_hex())
        self._runs = FollowedRuns(runtime, self._agents, self._outside, seconds)
        texts = descriptions or {}
        self._tools = [_agent_tool(known[each], texts.get(each, "")) for each in offered]
        self._tools += [
            types.Tool(name=own, description=text, input_schema=schema, annotations=hints)
            for own, (text, schema, hints) in _OWN.items()
        ]
        self._calls: OrderedDict[tuple[str, str, types.RequestId], str] = OrderedDict()
        self._local: Scope | None = None
        self._server: Server[Any] = Server(
            name,
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        cancelled = types.CancelledNotificationParams
        self._server.add_notification_handler("notifications/cancelled", cancelled, self._cancelled)
        self._sessions = StreamableHTTPSessionManager(self._server)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Accept connections over HTTP."""
        await self._stack.enter_async_context(self._sessions.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all sessions. Runs continue."""
        await self._stack.aclose()

    def routes(self) -> list[Route]:
        """Return the route of streamable HTTP, for `create_app(routes={"/mcp": ...})`."""

        async def answer(request: Request) -> Exchange:
            return Exchange(request, self._sessions)

        return [Route("/", answer, methods=["GET", "POST", "DELETE"])]

    async def serve_stdio(self, scope: Scope) -> None:
        """Serve one client over standard input and output, for *scope*, until it leaves."""
        self._local = scope
        async with standard_streams() as (incoming, outgoing):
            await self._server.run(incoming, outgoing, self._server.create_initialization_options())

    # -- requests ------------------------------------------------------------------------------------------------

    async def _list(self, context: McpContext, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._tools)

    async def _call(self, context: McpContext, params: types.CallToolRequestParams) -> McpAnswer:
        scope = self._scope(context)
        try:
            return await self._called(context, scope, params)
        except ToolError as error:
            return error_report(str(error))
        except ConcertinoError as error:
            return error_report(failure_text(error, f"MCP tool {params.name:.80}")[1])

    async def _called(self, context: McpContext, scope: Scope, params: types.CallToolRequestParams) -> McpAnswer:
        name, arguments = params.name, params.arguments or {}
        if params.request_state is not None:
            return await self._answered(context, scope, params.request_state, params.input_responses or {})
        if name in self._agents:
            return await self._started(context, scope, name, _text(arguments, "message"))
        match name:
            case "continue_workflow":
                return await self._continue(context, scope, arguments)
            case "get_run":
                run_id = (await self._runs.known(scope, _text(arguments, "run"))).start.run_id
                return await self._runs.follow(context, scope, run_id)
            case "list_runs":
                return await self._runs.listed(scope)
            case "stop_run":
                run_id = (await self._runs.known(scope, _text(arguments, "run"))).start.run_id
                await self._runtime.stop(scope, run_id)
                return await self._runs.state(scope, run_id)
            case _:
                raise MCPError(types.INVALID_PARAMS, f"there is no tool {name!r:.80}")

    async def _started(self, context: McpContext, scope: Scope, agent: str, message: str) -> McpAnswer:
        live = await self._runtime.start(Chat(message, scope=scope), agent)
        key = *_client(context, scope), context.request_id or 0
        self._calls[key] = live.id
        if len(self._calls) > _MOST_CALLS:
            self._calls.popitem(last=False)
        found = await self._runs.follow(context, scope, live.id, after=0)
        self._calls.pop(key, None)  # not in a `finally`: the notification arrives after the cancellation
        return found

    async def _answered(
        self, context: McpContext, scope: Scope, run_id: str, responses: Mapping[str, Any]
    ) -> McpAnswer:
        """Take the answers with which a client repeats a call, and follow its run."""
        await self._runs.known(scope, run_id)
        if await self._runs.take(scope, run_id, responses):
            return await self._runs.follow(context, scope, run_id)
        return await self._runs.state(scope, run_id)

    async def _continue(self, context: McpContext, scope: Scope, arguments: Mapping[str, Any]) -> McpAnswer:
        given = arguments.get("context") or {}
        if not isinstance(given, dict):
            raise ToolError("invalid argument 'context': use an object with the variables that the step sets")
        wait = await self._outside.complete(scope, _text(arguments, "token"), _text(arguments, "notes"), given)
        await self._runs.resume(scope, wait.root_id)
        return await self._runs.follow(context, scope, wait.root_id)

    async def _cancelled(self, context: McpContext, params: types.CancelledNotificationParams) -> None:
        """Stop the run of a call that its client has cancelled."""
        scope = self._scope(context)
        run_id = self._calls.pop((*_client(context, scope), params.request_id or 0), None)
        if run_id is not None:
            with suppress(ConcertinoError):  # it has ended in the meantime
                await self._runtime.stop(scope, run_id)

    def _scope(self, context: McpContext) -> Scope:
        if context.request is not None:
            return scope_of(context.request)
        assert self._local is not None
        return self._local


def _client(context: McpContext, scope: Scope) -> tuple[str, str]:
    """Return what tells apart the clients whose requests may have the same id."""
    request = context.request
    return scope.key, "" if request is None else request.headers.get("mcp-session-id", "")


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"invalid argument {name!r}: it is missing, or is not text")
    return value


def _is_active(agent: AgentConfig[Any]) -> bool:
    return not isinstance(agent, WorkerAgent) or agent.definition.status == "active"


def _agent_tool(agent: AgentConfig[Any], description: str) -> types.Tool:
    if not description and isinstance(agent, WorkerAgent):
        description = agent.definition.description
    if not description and isinstance(agent, WorkflowAgent):
        description = agent.workflow.description
    return types.Tool(
        name=agent.name,
        description=description or f"Give the agent {agent.name} a task.",
        input_schema=_MESSAGE,
        annotations=types.ToolAnnotations(),
    )
