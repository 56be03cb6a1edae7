"""`concertino serve`: the web API for one person on one machine."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack

from ...errors import ConfigurationError
from ...runtime import Runtime
from ...scope import Scope
from ...server import FileFolder, create_app, is_loopback, single_user
from ...server import serve as serve_app
from ...server.page import PageAgent, page_routes
from ...server.protocols import ag_ui, ai_sdk, openai
from ..command_context import CommandContext, user_name
from ..fleet_file import read_fleet_file
from .runs_resume import runtime_of

TOKEN = "CONCERTINO_TOKEN"  # noqa: S105 - the name of a variable
AGENTS = ("main_thread", "supervisor", "librarian")
"""The built-in agents to talk to; the first is the default."""
PRESENTED = (
    PageAgent(
        name="main_thread",
        label="Chat",
        description="Searches your documents, answers with citations, and asks before it remembers anything.",
        prompts=(
            "How do I read a CSV file in Python?",
            "Remember that I prefer short examples.",
        ),
    ),
    PageAgent(
        name="supervisor",
        label="Research",
        description="Splits a question, sends a researcher for each part, and writes a report with sources.",
        prompts=(
            "When do I use threads, and when processes? How do I stop each of them?",
            "What is the difference between json and pickle, and which of them is safe?",
        ),
    ),
)
"""The built-in agents as the page presents them."""
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


async def serve(host: str, port: int, grace: float, context: CommandContext) -> int:
    """Serve until a signal arrives. Raises `ConfigurationError`."""
    token = os.environ.get(TOKEN, "").strip()
    if not token and not is_loopback(host):
        raise ConfigurationError(
            f"--host {host} lets other machines connect: set {TOKEN} to a secret that each request must send as "
            "'Authorization: Bearer ...'"
        )
    async with AsyncExitStack() as stack:
        runtime = await runtime_of(context)
        await join_fleet(runtime, context, stack)
        await stack.enter_async_context(runtime)
        first = runtime.agents[0].name if context.options.app else AGENTS[0]
        app = create_app(
            runtime,
            single_user(Scope(user=user_name()), token),
            agents=None if context.options.app else AGENTS,
            files=FileFolder(context.folder / "uploads"),
            hosts=_LOCAL if is_loopback(host) else (),
            routes={
                "": page_routes(() if context.options.app else PRESENTED),
                "/api/chat": ai_sdk.routes(runtime, agent=first),
                "/agui": ag_ui.routes(runtime, agent=first),
                "/v1": openai.routes(runtime),
            },
        )
        await serve_app(app, host=host, port=port, grace=grace, started=lambda url: _announce(url, context))
    return 0


async def join_fleet(runtime: Runtime, context: CommandContext, stack: AsyncExitStack) -> None:
    """Join the fleet of `--config`, if it is given, as a process that only records: the workers do the work."""
    if context.options.config is not None:
        file = read_fleet_file(context.options.config)
        bell = await stack.enter_async_context(file.bell(context.options))
        runtime.join(file.fleet(bell, (), runtime.store))


def _announce(url: str, context: CommandContext) -> None:
    if context.console.as_json:
        context.console.json({"url": url})
    else:
        context.console.notice(
            f"serving {url}: open it in a browser. The API is at /api, described by /api/openapi.json; end with Ctrl-C"
        )
