"""`run_with_results`: an agent of a Runtime runs with given results of its tools, for the tests of `runs test`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from ..errors import RunError
from ..evaluation.recorded_tools import GivenResults, RecordedTools
from ..events import RunResult
from ..orchestrator.chat import Chat
from ..orchestrator.engine import ToolOrchestrator
from ..orchestrator.hooks import without_approvals
from ..providers.base import Model
from ..runtime import Runtime
from ..storage.sqlite import MemoryStore


async def run_with_results(
    make_runtime: Callable[[Any], Runtime | Awaitable[Runtime]],
    agent: str,
    chat: Chat,
    model: Model,
    results: Iterable[tuple[str, Mapping[str, Any], Any]],
) -> RunResult:
    """Run the agent of a Runtime on *chat* with *model*. Its tools do not run: their calls return *results*.

    A result has the name of its tool, the arguments of its call, and the value; a `ToolError` is raised. Calls that
    would wait for a person's approval are allowed. The result of a failed run is returned, too.
    """
    async with MemoryStore() as store:
        made = make_runtime(store)
        runtime = await made if inspect.isawaitable(made) else made
        try:
            (config, registry), resources = await runtime.setup(chat.scope, agent)
            tools = RecordedTools.of(config, registry, GivenResults(results))
            apart = dataclasses.replace(resources, model=model, models=lambda _: model, store=None, fallback=())
            run = ToolOrchestrator(chat, without_approvals(config), tools, resources=apart)
            return await run.run()
        except RunError as error:
            failed: RunResult = error.result
            return failed
        finally:
            await runtime.close()
