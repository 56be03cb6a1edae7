"""How runs stand, as people want to know it: also which of them lie where their process died."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import UnknownRunError
from ...storage.base import Store
from ...storage.types import RunState, StoredRun
from ...usage import Totals, UsageRecord, total
from ..context import Desk
from ..render.format import exact, iso

State = Literal["interrupted"] | RunState
"""`interrupted`: it goes on by its record, and nobody who may be alive has it: it can be resumed."""
STATES = ("running", "interrupted", "suspended", "completed", "failed", "cancelled")
ALL = 1_000_000
"""More than there are of anything."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Which trees wait for somebody to take them up."""

    orphaned: frozenset[str]
    ready: frozenset[str]
    """Suspended ones that have all their answers."""

    def of(self, run: StoredRun) -> State:
        """How *run* stands."""
        return "interrupted" if run.state == "running" and run.start.root_id in self.orphaned else run.state


async def standing(store: Store) -> Standing:
    """As it is now. What nobody answered in time is expired on the way."""
    due = await store.due(ALL)
    return Standing(frozenset(due.orphaned), frozenset(due.ready))


async def find(desk: Desk, run_id: str) -> StoredRun:
    """The run *run_id*. Raises `UnknownRunError`."""
    run = await desk.store.run(run_id)
    if run is None:
        raise UnknownRunError(f"there is no run {run_id!r} in this database: {desk.given.listing()}")
    return run


async def tree_of(store: Store, run: StoredRun) -> list[StoredRun]:
    """*run* and all below it, parents before their children, in the order of their beginning."""
    path = run.start.agent_path
    runs = await store.runs(root_id=run.start.root_id, limit=ALL)
    mine = [one for one in runs if one.start.run_id == run.start.run_id or one.start.agent_path.startswith(path + "/")]
    children: defaultdict[str | None, list[StoredRun]] = defaultdict(list)
    for one in reversed(mine):
        children[one.start.parent_id].append(one)
    ordered: list[StoredRun] = []
    todo = [run]
    while todo:
        one = todo.pop()
        ordered.append(one)
        todo += reversed(children[one.start.run_id])
    return ordered


def own(usage: Sequence[UsageRecord], run: StoredRun) -> list[UsageRecord]:
    """The records of *run* itself."""
    return [record for record in usage if record.run_id == run.start.run_id]


def with_all_below(usage: Sequence[UsageRecord], run: StoredRun) -> list[UsageRecord]:
    """The records of *run* and its sub-agents."""
    path = run.start.agent_path
    return [r for r in usage if r.agent_path == path or r.agent_path.startswith(path + "/")]


def step_of(record: UsageRecord) -> int:
    """The step that an attempt belongs to; its id tells."""
    step = record.id.removeprefix(record.run_id).lstrip(":").partition(":")[0]
    return int(step) if step.isdecimal() else 0


def steps_of(usage: Sequence[UsageRecord]) -> int:
    """In how many steps something was booked."""
    return max((step_of(record) for record in usage), default=0)


def as_object(run: StoredRun, state: State, usage: Sequence[UsageRecord]) -> dict[str, Any]:
    """A run as JSON; *usage* is what counts as its own."""
    start, end, sums = run.start, run.end, total(usage)
    return {
        "run_id": start.run_id,
        "root_id": start.root_id,
        "parent_id": start.parent_id,
        "forked_from": start.forked_from,
        "state": state,
        "agent": start.agent,
        "agent_path": start.agent_path,
        "user_id": start.user_id,
        "organization_id": start.organization_id,
        "conversation_id": start.conversation_id,
        "started": iso(start.started),
        "ended": None if end is None else iso(end.ended),
        "steps": steps_of(own(usage, run)),
        **figures(sums),
        "task": start.task,
        "error": None if end is None else end.error,
    }


def figures(sums: Totals) -> dict[str, Any]:
    """Tokens and money as JSON."""
    return {"tokens": sums.tokens.total, "cost": exact(sums.cost)}
