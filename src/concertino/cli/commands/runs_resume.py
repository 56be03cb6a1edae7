"""`concertino runs resume` and `fork`: a run of before goes on, and is shown like any other."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ... import wiring
from ...agents.deep_research import RESEARCHER
from ...errors import ConcertinoError, ConfigurationError, RunEndedError
from ...messages import ToolMessage
from ...orchestrator.journal.replay import fold
from ...runtime import Runtime
from ...storage.types import StoredRun
from ..context import Desk, Models, opened_library
from ..render.result import Sources, outcome_of
from .run_state import find, tree_of
from .watch import LEASE, hand_out, watch

OWN_AGENTS = ("supervisor", "researcher", "main_thread")
"""The agents of `wiring.open_runtime`."""


async def resume_run(run_id: str, desk: Desk) -> int:
    """Take the run up, and show it. Raises `RunStateError`, `StorageError`, `ConfigurationError`."""
    run = await find(desk, run_id)
    root = await find(desk, run.start.root_id)
    if root.end is not None:
        raise RunEndedError(f"run {root.start.run_id} has ended: it is {root.end.status}")
    async with _runtime(root, desk) as runtime:
        return await _go_on(root, runtime, desk)


async def fork_run(run_id: str, step: int, desk: Desk) -> int:
    """A new run from where *run_id* stood before *step*; it goes on, and is shown. Raises as `resume_run`."""
    run = await find(desk, run_id)
    journal = await desk.store.load(run_id)
    assert journal is not None
    fold(journal, before_step=step)  # what cannot be forked is refused before documents are indexed for it
    async with _runtime(run, desk) as runtime:
        new_id = await runtime.fork_only(run_id, step)
        desk.screen.notice(f"forked as {new_id}")
        return await _go_on(await find(desk, new_id), runtime, desk)


async def _go_on(root: StoredRun, runtime: Runtime, desk: Desk) -> int:
    sources = Sources()
    for one in await tree_of(desk.store, root):
        for stored in await desk.store.messages(one.start.run_id):
            if isinstance(stored.message, ToolMessage):
                sources.remember(stored.message)
    live = await runtime.resume(root.start.run_id)
    streams = root.start.agent == "main_thread"
    view = desk.screen.view(frozenset((RESEARCHER,)), streams_answer=streams)
    result = await watch(live, desk.stop, view, sources)
    start = root.start
    outcome = outcome_of(result, question=start.task, conversation_id=start.conversation_id, sources=sources)
    return hand_out(outcome, desk)


def check_agent(run: StoredRun, desk: Desk) -> None:
    """Raise `ConfigurationError` if nobody here has the agent of *run*."""
    if desk.given.app is None and run.start.agent not in OWN_AGENTS:
        raise ConfigurationError(
            f"run {run.start.run_id} is one of agent {run.start.agent!r}, which this program does not have: "
            "give --app MODULE:NAME, a function that makes your Runtime"
        )


@asynccontextmanager
async def _runtime(run: StoredRun, desk: Desk) -> AsyncIterator[Runtime]:
    """The runtime that knows the agent of *run*. No watchdog: it takes up nothing else."""
    async with AsyncExitStack() as stack:
        if desk.given.app is not None:
            runtime = await _of_app(desk.given.app, desk)
        else:
            check_agent(run, desk)
            models = Models(chosen=False)
            stack.push_async_callback(models.close)
            library = await opened_library(desk.given.corpus, desk.screen)
            stack.push_async_callback(library.close)
            runtime = wiring.open_runtime(desk.store, library, models=models.find, lease=LEASE)
        stack.push_async_callback(runtime.close)
        yield runtime


async def _of_app(app: str, desk: Desk) -> Runtime:
    """What the function named *app* makes of the store. Raises `ConfigurationError`."""
    module_name, _, name = app.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"--app {app}: give MODULE:NAME, such as shop.agents:make_runtime")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        made = getattr(importlib.import_module(module_name), name)(desk.store)
        if inspect.isawaitable(made):
            made = await made
    except ConcertinoError:
        raise
    except Exception as error:  # whatever a product's code raises is for whoever wrote it
        raise ConfigurationError(f"--app {app}: {type(error).__name__}: {error}") from error
    if not isinstance(made, Runtime):
        raise ConfigurationError(f"--app {app}: it returned {made!r:.80}, and must return a concertino.runtime.Runtime")
    return made
