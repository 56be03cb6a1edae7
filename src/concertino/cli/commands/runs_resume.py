"""`concertino runs resume` and `fork`: a stored run continues in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rich.text import Text

from ... import wiring
from ...agents.deep_research import RESEARCHER
from ...errors import ConfigurationError, RunEndedError
from ...messages import ToolMessage
from ...orchestrator.journal.replay import replay
from ...orchestrator.resources import Resources
from ...runtime import Runtime
from ...scope import OPERATOR
from ...storage.types import StoredRun
from ..app_function import call_app
from ..command_context import CommandContext, NewRunContext, open_library
from ..render.result_document import CitedSources
from .run_state import find_run, tree_of
from .watch import LEASE, print_result, watch

BUILT_IN_AGENTS = ("supervisor", "researcher", "main_thread", "librarian")
"""The agents of `wiring.open_runtime`."""


async def resume_run(run_id: str, context: CommandContext) -> int:
    """Resume the run and show it. Raises `RunStateError`, `StorageError` and `ConfigurationError`."""
    run = await find_run(context, run_id)
    root = await find_run(context, run.start.root_id)
    if root.end is not None:
        raise RunEndedError(f"run {root.start.run_id} has ended: {root.end.status}")
    async with _open_runtime(root, context) as runtime:
        return await _continue(root, runtime, context)


async def retry_run(run_id: str, context: CommandContext) -> int:
    """Make a dead letter resumable. Raises `RunStateError` if the run is not a dead letter."""
    run = await find_run(context, run_id)
    await Runtime((), Resources(store=context.store)).retry(OPERATOR, run_id)
    if context.console.as_json:
        context.console.json({"run_id": run.start.root_id, "retried": True})
    else:
        context.console.print(Text(f"{run.start.root_id} can be resumed"))
    command = resume_command(run.start.root_id, run.start.agent_path.partition("/")[0], context)
    context.console.notice(f"to continue: {command}")
    return 0


async def fork_run(run_id: str, step: int, context: CommandContext) -> int:
    """Start a copy of *run_id* as it was before *step*, and show it. Raises as `resume_run` does."""
    run = await find_run(context, run_id)
    journal = await context.store.load(OPERATOR, run_id)
    assert journal is not None
    replay(journal, before_step=step)  # a fork that is impossible is refused before documents are indexed for it
    async with _open_runtime(run, context) as runtime:
        new_id = await runtime.create_fork(OPERATOR, run_id, step)
        context.console.notice(f"forked as {new_id}")
        return await _continue(await find_run(context, new_id), runtime, context)


async def _continue(root: StoredRun, runtime: Runtime, context: CommandContext) -> int:
    sources = CitedSources()
    for one in await tree_of(context.store, root):
        for stored in await context.store.messages(OPERATOR, one.start.run_id):
            if isinstance(stored.message, ToolMessage):
                sources.add_result(stored.message)
    start = root.start
    document = await watch(
        await runtime.resume(OPERATOR, start.run_id),
        context,
        sources,
        question=start.task,
        conversation_id=start.conversation_id,
        delegates=(RESEARCHER,),
        streams_answer=start.agent == "main_thread",
    )
    return print_result(document, context)


def resume_command(run_id: str, agent: str, context: CommandContext) -> str:
    """Return the command that resumes a run, with what it lacks if *agent* is not one of this program."""
    own = context.options.app is None and agent not in BUILT_IN_AGENTS
    return context.options.resume_command(run_id) + " --app MODULE:NAME" * own


def check_agent(run: StoredRun, context: CommandContext) -> None:
    """Raise `ConfigurationError` if neither this program nor `--app` has the run's agent."""
    if context.options.app is None and run.start.agent not in BUILT_IN_AGENTS:
        raise ConfigurationError(
            f"run {run.start.run_id} belongs to agent {run.start.agent!r}, which this program does not have: "
            "name the function that builds your Runtime with --app MODULE:NAME"
        )


@asynccontextmanager
async def _open_runtime(run: StoredRun, context: CommandContext) -> AsyncIterator[Runtime]:
    """Open a runtime with the run's agent."""
    if context.options.app is None:
        check_agent(run, context)
    async with open_agents(context) as runtime:
        yield runtime


@asynccontextmanager
async def open_agents(context: CommandContext) -> AsyncIterator[Runtime]:
    """Open the runtime of `--app`, else that of the built-in agents. It has no watchdog: it resumes no run."""
    async with AsyncExitStack() as stack:
        if context.options.app is not None:
            runtime = await call_app(context.options.app, context)
        else:
            models = await stack.enter_async_context(wiring.Models())
            library = await open_library(context.options, context.console)
            stack.push_async_callback(library.close)
            runtime = wiring.open_runtime(context.store, library, models=models, lease=LEASE)
        stack.push_async_callback(runtime.close)
        yield runtime


async def runtime_of(context: CommandContext) -> Runtime:
    """Return the runtime of `--app`, else that of the built-in agents. Raises `ConfigurationError` without agents."""
    if context.options.app is not None:
        runtime = await call_app(context.options.app, context)
        if not runtime.agents:
            raise ConfigurationError("the runtime has no agents to serve: pass them to Runtime([...])")
        return runtime
    assert isinstance(context, NewRunContext)
    resources = context.resources
    assert resources.models is not None
    return wiring.open_runtime(
        context.store, context.library, models=resources.models, model=resources.model, lease=LEASE, approvals=True
    )
