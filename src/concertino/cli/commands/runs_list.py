"""`concertino runs list`: runs, newest first."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ConfigurationError
from ...storage.types import StoredRun
from ...usage import total
from ..context import Desk
from ..render.format import moment, money
from ..render.table import table
from .run_state import ALL, STATES, Standing, as_object, own, standing, steps_of, with_all_below

_HEADS = ("RUN", "STARTED (UTC)", "STATE", "AGENT", "STEPS", "COST", "TASK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs."""

    user: str | None = None
    conversation: str | None = None
    state: str | None = None
    sub_agents: bool = False
    limit: int = 20


async def list_runs(wanted: Wanted, desk: Desk) -> int:
    """Print them. Raises `ConfigurationError` for a state that there is not."""
    if wanted.state is not None and wanted.state not in STATES:
        raise ConfigurationError(f"--state {wanted.state}: there is no such state; there are {', '.join(STATES)}")
    stands = await standing(desk.store)
    runs = await _found(wanted, stands, desk)
    rows = []
    for run in runs:
        usage = with_all_below(await desk.store.usage(run.start.root_id), run)
        if desk.screen.as_json:
            desk.screen.object(as_object(run, stands.of(run), usage))
            continue
        start = run.start
        agent = start.agent_path if wanted.sub_agents else start.agent
        steps = str(steps_of(own(usage, run)))
        cost = money(total(usage).cost)
        rows.append((start.run_id, moment(start.started), stands.of(run), agent, steps, cost, start.task))
    if desk.screen.as_json:
        return 0
    if rows:
        desk.screen.lines(table(_HEADS, rows, right=("STEPS", "COST"), columns=desk.screen.columns))
    else:
        desk.screen.notice(f"no such runs in {desk.database}")
    return 0


async def _found(wanted: Wanted, stands: Standing, desk: Desk) -> list[StoredRun]:
    by_life = wanted.state in ("running", "interrupted")  # for the store they are the same
    runs = await desk.store.runs(
        user_id=wanted.user,
        conversation_id=wanted.conversation,
        state="running" if by_life else wanted.state,
        roots=not wanted.sub_agents,
        limit=ALL if by_life else wanted.limit,
    )
    return [run for run in runs if not by_life or stands.of(run) == wanted.state][: wanted.limit]
