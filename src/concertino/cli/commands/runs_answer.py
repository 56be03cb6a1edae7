"""`concertino runs approve`, `deny` and `resolve`: answers to waiting calls."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from rich.text import Text

from ...errors import ConfigurationError, UnknownWaitError
from ...orchestrator.resources import Resources
from ...runtime import AnswerOutcome, Runtime
from ...scope import OPERATOR, Operator
from ..command_context import CommandContext, user_name
from ..render.console import read_all, replace_invalid
from ..render.format import counted, moment, one_line
from .run_state import ALL, find_run, wait_object
from .runs_resume import check_agent, resume_command, resume_run


async def approve(key: str, by: str | None, resume: bool, arguments: str | None, context: CommandContext) -> int:
    """Approve the call, with other *arguments* if given. Raises `RunStateError`, and `ConfigurationError` for those."""
    edited = None if arguments is None else _arguments(arguments)
    return await _give(key, resume, context, lambda runtime: runtime.approve(_person(by), key, arguments=edited))


async def deny(key: str, by: str | None, resume: bool, reason: str, context: CommandContext) -> int:
    """Deny the call. Raises `RunStateError`."""
    reason = replace_invalid(reason)
    return await _give(key, resume, context, lambda runtime: runtime.deny(_person(by), key, reason))


async def resolve(key: str, by: str | None, resume: bool, result: str, failed: bool, context: CommandContext) -> int:
    """Supply the result of the call. Raises `RunStateError`."""
    content = replace_invalid(read_all() if result == "-" else result)
    return await _give(key, resume, context, lambda runtime: runtime.resolve(_person(by), key, content, failed=failed))


def _person(by: str | None) -> Operator:
    """Return the operator who answers under the name *by*."""
    return Operator(user_name() if by is None else replace_invalid(by))


async def _give(
    key: str, resume: bool, context: CommandContext, give: Callable[[Runtime], Awaitable[AnswerOutcome]]
) -> int:
    """Return 0 for the first answer, 1 for a later one, or the status of the resumed run."""
    await context.store.due(OPERATOR)  # an overdue wait expires first
    if resume and (wait := await context.store.wait(OPERATOR, key)) is not None:
        check_agent(await find_run(context, wait.root_id), context)  # before the answer is recorded
    try:
        answered = await give(Runtime((), Resources(store=context.store)))
    except UnknownWaitError as error:
        command = context.options.command("list", "--state", "suspended")
        raise UnknownWaitError(f"{error}; the runs with waiting calls: {command}") from error
    wait, won = answered.wait, answered.won
    assert wait.resolution is not None
    if context.console.as_json:
        context.console.json({"first": won, **wait_object(wait)})
    by = f" by {wait.resolution.by}" if wait.resolution.by else ""
    recorded = f"{wait.resolution.verdict}{by} at {moment(wait.resolution.at)} UTC"
    if not won:
        context.console.notice(f"concertino: {wait.key} was already answered: {recorded}; this answer changes nothing")
        return 1
    if not context.console.as_json:
        call = f"{wait.tool} of {wait.agent_path}"
        context.console.print(Text(one_line(f"{wait.key}: {recorded} ({call})")))
    if resume:
        return await resume_run(wait.root_id, context)
    open_count = len(await context.store.waits(OPERATOR, root_id=wait.root_id, limit=ALL))
    others = f"{counted(open_count, 'other call')} of the run still waiting; " if open_count else ""
    command = resume_command(wait.root_id, wait.agent_path.partition("/")[0], context)
    context.console.notice(f"{others}to continue: {command}")
    return 0


def _arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(replace_invalid(text))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--arguments is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise ConfigurationError('--arguments must be a JSON object, such as {"amount": 5}')
    return read
