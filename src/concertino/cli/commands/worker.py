"""`concertino worker`: the workers, and a run of one, with a card for each call that waits for approval."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from ... import wiring
from ...agents import WorkerAgent, WorkerDefinition
from ...errors import ConfigurationError
from ...orchestrator.chat import Chat
from ...runtime import LiveRun, Runtime
from ...scope import OPERATOR, Operator, Scope
from ...waits import Wait
from ..command_context import CommandContext, NewRunContext, user_name
from ..render.console import is_terminal, read_line, table
from ..render.format import one_line, readable
from ..render.result_document import CitedSources, ResultDocument
from .chat import new_conversation_id
from .runs_resume import call_app
from .watch import LEASE, print_result, watch

_QUESTION = "y(es), n(o), other arguments as JSON, or Enter to decide later> "


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
    assert goal is not None
    async with _open_runtime(context) as runtime:
        known = [agent.name for agent in _workers(runtime)]
        if name not in known:
            raise ConfigurationError(f"there is no worker {name!r}: choose from {', '.join(known) or 'none'}")
        conversation, sources = new_conversation_id(), CitedSources()
        model = context.resources.model if isinstance(context, NewRunContext) else None
        chat = Chat(goal, model=model, scope=Scope(tenant, user_name()), conversation_id=conversation)

        async def shown(run: LiveRun) -> ResultDocument:
            settings = {"question": goal, "conversation_id": conversation}
            return await watch(run, context, sources, streams_answer=True, **settings)

        document = await shown(await runtime.start(chat, name))
        while await _answer_cards(document.result.waiting, runtime, context):
            document = await shown(await runtime.resume(OPERATOR, document.result.run_id))
        return print_result(document, context)


@asynccontextmanager
async def _open_runtime(context: CommandContext) -> AsyncIterator[Runtime]:
    if isinstance(context, NewRunContext):
        models = context.resources.models
        assert models is not None
        runtime = wiring.open_runtime(context.store, context.library, models=models, lease=LEASE)
    else:
        assert context.options.app is not None
        runtime = await call_app(context.options.app, context)
    try:
        yield runtime
    finally:
        await runtime.close()


def _workers(runtime: Runtime) -> list[WorkerAgent]:
    return [agent for agent in runtime.agents if isinstance(agent, WorkerAgent)]


async def _answer_cards(waiting: Sequence[Wait], runtime: Runtime, context: CommandContext) -> bool:
    """Ask the person at the terminal about each call. Return whether all have an answer."""
    if not waiting or context.console.as_json or not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return False
    for wait in waiting:
        context.console.notice(f"{wait.agent_path} asks: {wait.note or 'Approve'}")
        context.console.notice(f"  {wait.tool} {one_line(readable(wait.arguments), 2_000)}")
        if wait.kind != "approval" or not await _answer(wait, runtime, context):
            return False
    return True


async def _answer(wait: Wait, runtime: Runtime, context: CommandContext) -> bool:
    """Approve, edit or deny a call as the person types. Return False if no answer was typed."""
    person = Operator(user_name())
    while True:
        line = read_line(_QUESTION, context.console, context.signals)
        typed = (line or "").strip()
        if not typed:
            return False
        if typed.lower() in ("y", "yes"):
            await runtime.approve(person, wait.key)
            return True
        if typed.lower() in ("n", "no"):
            await runtime.deny(person, wait.key, "the user refused it")
            return True
        try:
            arguments = json.loads(typed)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            await runtime.approve(person, wait.key, arguments=arguments)
            return True
        context.console.notice("not understood: type y, n, or a JSON object")


def _object(definition: WorkerDefinition) -> dict[str, object]:
    names = ("id", "name", "title", "description", "long_description", "icon", "status", "starter_prompts")
    more = ("approval_label", "empty_state_description")
    return {name: getattr(definition, name) for name in (*names, *more)}
