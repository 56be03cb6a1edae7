"""The state of stored runs, including runs whose process has died."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

from ...errors import UnknownRunError
from ...records import record
from ...scope import OPERATOR
from ...storage.base import Store
from ...storage.types import StoredRun, StoredState
from ...usage import Totals, UsageRecord, total
from ...waits import Wait
from ..command_context import CommandContext
from ..render.format import exact, iso

ShownState = Literal["interrupted"] | StoredState
"""`interrupted`: running by its journal, but without a process that could be alive. It can be resumed."""
STATES = ("running", "interrupted", "suspended", "dead_letter", "completed", "limited", "failed", "cancelled")
ALL = 1_000_000
"""A limit above any number of rows."""


@record
class ResumableTrees:
    """The roots of the trees that can be resumed."""

    orphaned: frozenset[str]
    """Running trees without a process."""
    ready: frozenset[str]
    """Suspended trees that have all their answers."""

    def state_of(self, run: StoredRun) -> ShownState:
        """Return the state to show for *run*."""
        without_process = run.start.root_id in self.orphaned or run.reason != ""  # a reason: it was postponed
        return "interrupted" if run.state == "running" and without_process else run.state


async def resumable_trees(store: Store) -> ResumableTrees:
    """Find the trees that can be resumed now. Overdue waits expire first, unless the database is read-only."""
    due = await store.due(OPERATOR, ALL)
    return ResumableTrees(frozenset(due.orphaned), frozenset(due.ready))


async def find_run(context: CommandContext, run_id: str) -> StoredRun:
    """Return the run *run_id*. Raises `UnknownRunError`."""
    run = await context.store.run(OPERATOR, run_id)
    if run is None:
        raise UnknownRunError(f"no run {run_id!r} in this database: {context.options.command('list', '--all')}")
    return run


async def tree_of(store: Store, run: StoredRun) -> list[StoredRun]:
    """Return *run* and its sub-agents' runs: parents before their children, in the order of their start."""
    path = run.start.agent_path
    runs = await store.runs(OPERATOR, root_id=run.start.root_id, limit=ALL)
    below = [one for one in runs if one.start.run_id == run.start.run_id or one.start.agent_path.startswith(path + "/")]
    children: defaultdict[str | None, list[StoredRun]] = defaultdict(list)
    for one in reversed(below):
        children[one.start.parent_id].append(one)
    ordered: list[StoredRun] = []
    stack = [run]
    while stack:
        one = stack.pop()
        ordered.append(one)
        stack += reversed(children[one.start.run_id])
    return ordered


def own_usage(usage: Sequence[UsageRecord], run: StoredRun) -> list[UsageRecord]:
    """Return the records of *run* without its sub-agents'."""
    return [record for record in usage if record.run_id == run.start.run_id]


def tree_usage(usage: Sequence[UsageRecord], run: StoredRun) -> list[UsageRecord]:
    """Return the records of *run* and its sub-agents."""
    path = run.start.agent_path
    return [r for r in usage if r.agent_path == path or r.agent_path.startswith(path + "/")]


def attempt_of(record: UsageRecord) -> str:
    """Return the step and attempt that a record belongs to, such as `3:1`; see `ids.usage_id`."""
    return record.id.removeprefix(record.run_id).lstrip(":")


def step_of(record: UsageRecord) -> int:
    """Return the step that a record belongs to."""
    step = attempt_of(record).partition(":")[0]
    return int(step) if step.isdecimal() else 0


def step_count(usage: Sequence[UsageRecord]) -> int:
    """Return the number of the last step with a record."""
    return max((step_of(record) for record in usage), default=0)


def run_object(run: StoredRun, state: str, usage: Sequence[UsageRecord]) -> dict[str, Any]:
    """Return a run as JSON with the sums over *usage*."""
    start, end = run.start, run.end
    return {
        "run_id": start.run_id,
        "root_id": start.root_id,
        "parent_id": start.parent_id,
        "forked_from": start.forked_from,
        "state": state,
        "agent": start.agent,
        "agent_path": start.agent_path,
        "tenant": start.scope.tenant,
        "user": start.scope.user,
        "conversation_id": start.conversation_id,
        "reason": run.reason or None,
        "started": iso(start.started),
        "ended": None if end is None else iso(end.ended),
        "steps": step_count(own_usage(usage, run)),
        **sums_object(total(usage)),
        "task": start.task,
        "error": None if end is None else end.error,
    }


def sums_object(sums: Totals) -> dict[str, Any]:
    """Return tokens and cost as JSON."""
    return {"tokens": sums.tokens.total, "unknown_tokens": sums.unknown_tokens.total, "cost": exact(sums.cost)}


def wait_object(wait: Wait) -> dict[str, Any]:
    """Return a wait as JSON."""
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
