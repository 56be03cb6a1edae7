"""`concertino runs show`: what is known of a run."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...storage.types import Account
from ...usage import total
from ...waits import Wait
from ..context import Desk
from ..render.format import exact, iso
from ..render.run import Picture, lines_of, picture_of
from ..render.timeline import Attempt, Call, Step
from .run_state import as_object, figures, own


async def show_run(run_id: str, desk: Desk) -> int:
    """Print it. Raises `UnknownRunError`."""
    picture = await picture_of(run_id, desk)
    if desk.screen.as_json:
        desk.screen.object(_object(picture))
    else:
        desk.screen.lines(lines_of(picture))
    return 0


def _object(picture: Picture) -> dict[str, Any]:
    run, end = picture.run, picture.run.end
    return {
        **as_object(run, picture.stands.of(run), picture.usage),
        "answer": None if end is None else end.answer,
        "erased": picture.timeline.erased,
        "stop_asked": run.stop,
        "ready": run.start.root_id in picture.stands.ready,
        "accounts": [_account(account) for account in picture.accounts],
        "agents": [as_object(one, picture.stands.of(one), own(picture.usage, one)) for one in picture.tree],
        "timeline": [_step(step) for step in picture.timeline.steps],
        "waits": [wait_object(wait) for wait in picture.waits],
        "receipt": None if picture.receipt is None else dataclasses.asdict(picture.receipt),
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "tokens": account.budget.tokens,
        "money": exact(account.budget.money),
        "spent_tokens": account.spent_tokens,
        "spent_money": exact(account.spent_money),
        "reserved_tokens": account.reserved_tokens,
        "reserved_money": exact(account.reserved_money),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "step": step.number,
        "at": iso(step.at),
        "seconds": round(step.seconds, 3),
        "model_seconds": None if step.model_seconds is None else round(step.model_seconds, 3),
        "model": step.model,
        **figures(total(step.usage)),
        "attempts": [_attempt(attempt) for attempt in step.attempts],
        "calls": [_call(call) for call in step.calls],
        "notes": [{"at": iso(at), "note": note} for at, note in step.notes],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    source = None if attempt.record is None else attempt.record.source
    return {"id": attempt.usage_id, "model": attempt.model, "lost": attempt.lost, "source": source}


def _call(call: Call) -> dict[str, Any]:
    resolution = call.wait.resolution if call.wait is not None else None
    return {
        "name": call.name or None,
        "call_id": call.call_id or None,
        "arguments": call.arguments,
        "state": call.state,
        "begun_once": call.begun,
        "error": call.error or None,
        "key": None if call.wait is None else call.wait.key,
        "verdict": None if resolution is None else resolution.verdict,
        "by": None if resolution is None else resolution.by,
    }


def wait_object(wait: Wait) -> dict[str, Any]:
    """A wait as JSON."""
    resolution = wait.resolution
    return {
        "key": wait.key,
        "run_id": wait.run_id,
        "root_id": wait.root_id,
        "agent_path": wait.agent_path,
        "tool": wait.tool,
        "waits_for": wait.kind,
        "arguments": wait.arguments,
        "who": list(wait.who),
        "note": wait.note,
        "opened": iso(wait.opened),
        "expires": iso(wait.expires),
        "verdict": None if resolution is None else resolution.verdict,
        "by": None if resolution is None else resolution.by,
        "at": None if resolution is None else iso(resolution.at),
    }
