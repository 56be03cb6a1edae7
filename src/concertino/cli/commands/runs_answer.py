"""`concertino runs approve`, `deny` and `resolve`: the answers that calls wait for."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ... import wiring
from ...errors import ConfigurationError, ErasedError, StorageError, UnknownWaitError
from ...orchestrator.journal.replay import fold
from ...runtime import Answered, Runtime
from ..context import Desk, user_name
from ..render.console import mended, read_all
from ..render.format import counted, moment, one_line
from .run_state import ALL, find
from .runs_resume import check_agent, resume_run
from .runs_show import wait_object

_KEY = re.compile(r".+:[1-9]\d*\.\d+", re.DOTALL)
"""See `ids.call_key`: a result may be given before its call waits, but not under what will never be one's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody says to a call that waits."""

    key: str
    by: str | None = None
    """None: who sits here."""
    resume: bool = False
    """Whether the run is taken up then, if this was the first answer."""

    @property
    def who(self) -> str:
        """Who says it."""
        return user_name() if self.by is None else mended(self.by)


async def approve(answer: Answer, arguments: str | None, desk: Desk) -> int:
    """Allow it, with other *arguments* if they are given. Raises `RunStateError`, or `ConfigurationError` for those."""
    edited = None if arguments is None else _arguments(arguments)
    if edited is not None:
        await _check_arguments(edited, answer.key, desk)
    return await _give(answer, desk, lambda runtime: runtime.approve(answer.key, by=answer.who, arguments=edited))


async def deny(answer: Answer, reason: str, desk: Desk) -> int:
    """Forbid it. Raises `RunStateError`."""
    return await _give(answer, desk, lambda runtime: runtime.deny(answer.key, mended(reason), by=answer.who))


async def resolve(answer: Answer, result: str, failed: bool, desk: Desk) -> int:
    """Give its result. Raises `RunStateError`."""
    if not _KEY.fullmatch(answer.key):
        raise UnknownWaitError(f"no call waits under {answer.key!r}: a call's key is RUN:STEP.PLACE")
    content = mended(read_all() if result == "-" else result)
    return await _give(answer, desk, lambda runtime: runtime.resolve(answer.key, content, failed=failed, by=answer.who))


async def _give(answer: Answer, desk: Desk, give: Callable[[Runtime], Awaitable[Answered]]) -> int:
    """The status: 0 if it was the first, 1 if somebody else was; of the run, if that is resumed."""
    await desk.store.due()  # what nobody answered in time has its answer
    if answer.resume and (wait := await desk.store.wait(answer.key)) is not None:
        check_agent(await find(desk, wait.root_id), desk)  # before anything is said
    answered = await give(Runtime(desk.store, models=wiring.open_model))
    wait, won = answered.wait, answered.won
    assert wait.resolution is not None
    if desk.screen.as_json:
        desk.screen.object({"first": won, **wait_object(wait)})
    by = f" by {wait.resolution.by}" if wait.resolution.by else ""
    said = f"{wait.resolution.verdict}{by} at {moment(wait.resolution.at)} UTC"
    if not won:
        desk.screen.notice(f"concertino: {wait.key} has its answer already: {said}; yours changes nothing")
        return 1
    if not desk.screen.as_json:
        what = f"{wait.tool} of {wait.agent_path}" if wait.tool else "no call waits under it yet: kept until one does"
        desk.screen.lines([(one_line(f"{wait.key}: {said} ({what})"), "")])
    if answer.resume:
        return await resume_run(wait.root_id, desk)
    left = len(await desk.store.waits(root_id=wait.root_id, limit=ALL))
    still = f"{counted(left, 'more call')} of the run still waiting; " if left else ""
    desk.screen.notice(f"{still}to go on: {desk.given.resuming(wait.root_id)}")
    return 0


def _arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(mended(text))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--arguments is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise ConfigurationError('--arguments must be a JSON object, such as {"amount": 5}')
    return read


async def _check_arguments(arguments: dict[str, Any], key: str, desk: Desk) -> None:
    """Raise `ConfigurationError` if the tool would refuse *arguments*: the first answer is the only one, and the call
    would have failed with it. The tool's schema is in the journal, as its model was told of it."""
    wait = await desk.store.wait(key)
    journal = None if wait is None or wait.resolution is not None else await desk.store.load(wait.run_id)
    if wait is None or journal is None:
        return
    try:
        tools = {tool.name: tool for tool in fold(journal).tools}
    except (ErasedError, StorageError):
        return
    if wait.tool in tools:
        import jsonschema  # noqa: PLC0415 - takes as long to import as all of concertino

        schema = tools[wait.tool].parameters
        error = next(jsonschema.validators.validator_for(schema)(schema).iter_errors(arguments), None)
        if error is not None:
            place = ".".join(str(step) for step in error.absolute_path)
            problem = f"{place}: {error.message}" if place else error.message
            raise ConfigurationError(f"--arguments do not fit {wait.tool}: {problem}")
