"""Runs of one agent of a runtime at a terminal, with a card for each call that waits for approval."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ... import wiring
from ...errors import ConfigurationError
from ...orchestrator.agent import AgentConfig
from ...orchestrator.chat import Chat
from ...runtime import LiveRun, Runtime
from ...scope import OPERATOR, Operator, Scope
from ...waits import Wait
from ..app_function import call_app
from ..command_context import CommandContext, NewRunContext, user_name
from ..render.console import is_terminal, read_line
from ..render.format import one_line, readable
from ..render.result_document import CitedSources, ResultDocument
from .chat import new_conversation_id
from .watch import LEASE, print_result, watch

_QUESTION = "y(es), n(o), other arguments as JSON, or Enter to decide later> "


async def run_agent(
    what: str, kind: type[AgentConfig[Any]], name: str, tenant: str, goal: str | None, context: CommandContext
) -> int:
    """Give the agent *name*, a *kind*, a task of a user of *tenant*, and show it. Raises `ConfigurationError`."""
    assert goal is not None
    async with open_runtime(context) as runtime:
        known = [agent.name for agent in runtime.agents if isinstance(agent, kind)]
        if name not in known:
            raise ConfigurationError(f"there is no {what} {name!r}: choose from {', '.join(known) or 'none'}")
        conversation, sources = new_conversation_id(), CitedSources()
        model = context.resources.model if isinstance(context, NewRunContext) else None
        chat = Chat(goal, model=model, scope=Scope(tenant, user_name()), conversation_id=conversation)

        async def shown(run: LiveRun) -> ResultDocument:
            settings = {"question": goal, "conversation_id": conversation}
            return await watch(run, context, sources, streams_answer=True, **settings)

        document = await shown(await runtime.start(chat, name))
        while await answer_cards(document.result.waiting, runtime, context):
            document = await shown(await runtime.resume(OPERATOR, document.result.run_id))
        return print_result(document, context)


@asynccontextmanager
async def open_runtime(context: CommandContext) -> AsyncIterator[Runtime]:
    """Open the runtime of `--app`, or the built-in one."""
    if isinstance(context, NewRunContext):
        models = context.resources.models
        assert models is not None
        runtime = wiring.open_runtime(context.store, context.library, models=models, lease=LEASE)
    else:
        if context.options.app is None:
            raise ConfigurationError("name the function that builds your Runtime with --app MODULE:NAME")
        runtime = await call_app(context.options.app, context)
    try:
        yield runtime
    finally:
        await runtime.close()


async def answer_cards(waiting: Sequence[Wait], runtime: Runtime, context: CommandContext) -> bool:
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
