"""`concertino runs list`: stored runs, newest first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ...errors import ConfigurationError
from ...scope import OPERATOR, AnyScope, Scope, TenantScope
from ...storage.types import StoredRun
from ...usage import UsageRecord, total
from ..command_context import CommandContext
from ..render.console import Console, table
from ..render.format import moment, money, one_line
from .run_state import ALL, STATES, ResumableTrees, own_usage, resumable_trees, run_object, step_count, tree_usage

_WIDE = 110
"""Columns from which the task is on the same line; a narrower terminal shows it on the next line."""


async def list_runs(
    tenant: str | None,
    user: str | None,
    conversation: str | None,
    state: str | None,
    sub_agents: bool,
    limit: int,
    context: CommandContext,
) -> int:
    """Print the runs. Raises `ConfigurationError` for an unknown state."""
    if state is not None and state not in STATES:
        raise ConfigurationError(f"invalid --state {state!r}: choose from {', '.join(STATES)}")
    store, console = context.store, context.console
    trees = await resumable_trees(store)
    active = state in ("running", "interrupted")  # the store does not tell them apart
    found = await store.runs(
        _reader_of(tenant, user),
        conversation_id=conversation,
        state="running" if active else state,
        roots=not sub_agents,
        limit=ALL if active else limit,
    )
    runs = [run for run in found if not active or trees.state_of(run) == state][:limit]
    usage = [tree_usage(await store.usage(OPERATOR, run.start.root_id), run) for run in runs]
    if console.as_json:
        for run, used in zip(runs, usage, strict=True):
            console.json(run_object(run, trees.state_of(run), used))
    elif runs:
        _print_table(runs, [_row(run, trees, used) for run, used in zip(runs, usage, strict=True)], console)
    else:
        console.notice(f"no matching runs in {context.database}")
    return 0


def _reader_of(tenant: str | None, user: str | None) -> AnyScope:
    """Return the scope that `--tenant` and `--user` name."""
    if user is not None:
        return Scope(tenant or "", user)
    return OPERATOR if tenant is None else TenantScope(tenant)


def _row(run: StoredRun, trees: ResumableTrees, used: Sequence[UsageRecord]) -> tuple[str, ...]:
    started, steps = moment(run.start.started), step_count(own_usage(used, run))
    return run.start.run_id, started, trees.state_of(run), str(steps), money(total(used).cost)


def _print_table(runs: Sequence[StoredRun], rows: Sequence[tuple[str, ...]], console: Console) -> None:
    heads, tasks = ("RUN", "STARTED (UTC)", "STATE", "STEPS", "COST"), [run.start for run in runs]
    if console.width >= _WIDE:
        rows = [(*row, task.agent_path, task.task) for row, task in zip(rows, tasks, strict=True)]
        console.print(table((*heads, "AGENT", "TASK"), rows, right=("STEPS", "COST"), flexible=("TASK",)))
        return
    short = [(id, started[5:16], *more) for id, started, *more in rows]
    head, *lines = console.lines(table(("RUN", "STARTED", *heads[2:]), short, right=("STEPS", "COST")))
    console.print(head)
    for line, task in zip(lines, tasks, strict=True):
        console.print(line, Text(f"  {one_line(task.agent_path)}: {one_line(task.task)}", "dim", overflow="ellipsis"))
