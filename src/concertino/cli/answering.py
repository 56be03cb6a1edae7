"""`concertino runs approve`, `deny` and `resolve`: the answers that calls wait for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .. import wiring
from ..errors import ConfigurationError
from ..runtime import Answered, Runtime
from .asking import mended, read_all
from .means import Desk, user_name
from .resuming import TakingUp, check_agent, resume_run
from .showing import wait_object
from .standing import ALL, find
from .wording import counted, moment, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody says to a call that waits."""

    key: str
    by: str | None = None
    """None: who sits here."""
    resume: TakingUp | None = None
    """None: the run stays as it is."""

    @property
    def who(self) -> str:
        """Who says it."""
        return user_name() if self.by is None else mended(self.by)


async def approve(answer: Answer, arguments: str | None, desk: Desk) -> int:
    """Allow it, with other *arguments* if they are given. Raises `RunStateError`, or `ConfigurationError` for those."""
    edited = None if arguments is None else _arguments(arguments)
    return await _give(answer, desk, lambda runtime: runtime.approve(answer.key, by=answer.who, arguments=edited))


async def deny(answer: Answer, reason: str, desk: Desk) -> int:
    """Forbid it. Raises `RunStateError`."""
    return await _give(answer, desk, lambda runtime: runtime.deny(answer.key, mended(reason), by=answer.who))


async def resolve(answer: Answer, result: str, failed: bool, desk: Desk) -> int:
    """Give its result. Raises `RunStateError`."""
    content = mended(read_all() if result == "-" else result)
    return await _give(answer, desk, lambda runtime: runtime.resolve(answer.key, content, failed=failed, by=answer.who))


async def _give(answer: Answer, desk: Desk, give: Callable[[Runtime], Awaitable[Answered]]) -> int:
    """The status: 0 if it was the first, 1 if somebody else was; of the run, if that is resumed."""
    await desk.store.due()  # what nobody answered in time has its answer
    if answer.resume is not None and (wait := await desk.store.wait(answer.key)) is not None:
        check_agent(await find(desk.store, wait.root_id), answer.resume)  # before anything is said
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
    if answer.resume is not None:
        return await resume_run(wait.root_id, answer.resume, desk)
    left = len(await desk.store.waits(root_id=wait.root_id, limit=ALL))
    still = f"{counted(left, 'more call')} of the run still waiting; " if left else ""
    desk.screen.notice(f"{still}to go on: concertino runs resume {wait.root_id}")
    return 0


def _arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(mended(text))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--arguments is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise ConfigurationError('--arguments must be a JSON object, such as {"amount": 5}')
    return read
