"""`concertino worker`: the workers, and a run of one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from ... import wiring
from ...agents import WorkerAgent, WorkerDefinition
from ...errors import ConfigurationError
from ...runtime import Runtime
from ..app_function import call_app
from ..command_context import CommandContext
from ..render.console import table
from .agent_run import run_agent

BUILT_IN = ("librarian",)


async def list_workers(context: CommandContext) -> int:
    """Print the workers. Raises `ConfigurationError`."""
    async with AsyncExitStack() as stack:
        definitions: Sequence[WorkerDefinition] = [wiring.librarian()]
        if context.options.app is not None:
            runtime = await call_app(context.options.app, context)
            stack.push_async_callback(runtime.close)
            definitions = [agent.definition for agent in _workers(runtime)]
        if context.console.as_json:
            for each in definitions:
                context.console.json(_object(each))
        elif definitions:
            rows = [[each.id, each.status.replace("_", " "), each.name, each.description] for each in definitions]
            context.console.print(table(("worker", "status", "name", "description"), rows, flexible=("description",)))
        else:
            context.console.notice(f"the runtime of --app {context.options.app} has no workers")
    return 0


async def run_worker(name: str, tenant: str, goal: str | None, context: CommandContext) -> int:
    """Give the worker *name* a task of a user of *tenant*, and show it. Raises `ConfigurationError`."""
    if context.options.app is None and name not in BUILT_IN:
        raise ConfigurationError(
            f"there is no worker {name!r}: choose from {', '.join(BUILT_IN)}, or name the function that builds your "
            "Runtime with --app MODULE:NAME"
        )
    return await run_agent("worker", WorkerAgent, name, tenant, goal, context)


def _workers(runtime: Runtime) -> list[WorkerAgent]:
    return [agent for agent in runtime.agents if isinstance(agent, WorkerAgent)]


def _object(definition: WorkerDefinition) -> dict[str, object]:
    names = ("id", "name", "title", "description", "long_description", "icon", "status", "starter_prompts")
    more = ("approval_label", "empty_state_description")
    return {name: getattr(definition, name) for name in (*names, *more)}
