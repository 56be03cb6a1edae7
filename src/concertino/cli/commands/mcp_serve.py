"""`concertino mcp serve`: the agents as tools of an MCP client that starts this program."""

from __future__ import annotations

from contextlib import AsyncExitStack

from ...scope import Scope
from ...server.mcp import AgentServer
from ..command_context import CommandContext, user_name
from .runs_resume import runtime_of
from .serve import AGENTS, PRESENTED, join_fleet


async def mcp_serve(seconds: float, context: CommandContext) -> int:
    """Serve the client at standard input and output until it leaves. Raises `ConfigurationError`."""
    built_in = context.options.app is None
    async with AsyncExitStack() as stack:
        runtime = await runtime_of(context)
        await join_fleet(runtime, context, stack)
        await stack.enter_async_context(runtime)
        server = AgentServer(
            runtime,
            agents=AGENTS if built_in else None,
            descriptions={agent.name: agent.description for agent in PRESENTED} if built_in else None,
            seconds=seconds,
        )
        await server.serve_stdio(Scope(user=user_name()))
    return 0
