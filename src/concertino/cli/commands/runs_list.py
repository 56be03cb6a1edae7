"""`concertino runs list`: stored runs, newest first."""

from __future__ import annotations

from rich.text import Text

from ...errors import ConfigurationError
from ...records import record
from ...storage.types import StoredRun
from ...usage import UsageRecord, total
from ..command_context import CommandContext
from ..render.console import table
from ..render.format import moment, money, one_line
from .run_state import ALL, STATES, ResumableTrees, own_usage, resumable_trees, run_object, step_count, tree_usage

_WIDE = 110
"""Columns from which the task is on the same line; a narrower terminal shows it on the next line."""


@record(kw_only=True)
class RunFilter:
    """The runs to list."""

    user: str | None = None
    conversation: str | None = None
    state: str | None = None
    sub_agents: bool = False
    limit: int = 20


async def list_runs(selected: RunFilter, context: CommandContext) -> int:
    """Print the runs. Raises `ConfigurationError` for an unknown state."""
    if selected.state is not None and selected.state not in STATES:
        raise ConfigurationError(f"invalid --state {selected.state!r}: choose from {', '.join(STATES)}")
    trees = await resumable_trees(context.store)
    runs = await _select(selected, trees, context)
    usage = {run.start.run_id: tree_usage(await context.store.usage(run.start.root_id), run) for run in runs}
    if context.console.as_json:
        for run in runs:
            context.console.json(run_object(run, trees.state_of(run), usage[run.start.run_id]))
    elif runs:
        _print_table(runs, usage, trees, context)
    else:
        context.console.notice(f"no matching runs in {context.database}")
    return 0


def _print_table(
    runs: list[StoredRun], usage: dict[str, list[UsageRecord]], trees: ResumableTrees, context: CommandContext
) -> None:
    wide = context.console.width >= _WIDE
    rows: list[tuple[str, ...]] = []
    tasks: list[tuple[str, str]] = []
    for run in runs:
        start, used = run.start, usage[run.start.run_id]
        started = moment(start.started) if wide else moment(start.started)[5:16]
        figures = (str(step_count(own_usage(used, run))), money(total(used).cost))
        rows.append((start.run_id, started, trees.state_of(run), *figures))
        tasks.append((start.agent_path, start.task))
    heads = ("RUN", "STARTED (UTC)" if wide else "STARTED", "STATE", "STEPS", "COST")
    if wide:
        rows = [(*row, *task) for row, task in zip(rows, tasks, strict=True)]
        context.console.print(table((*heads, "AGENT", "TASK"), rows, right=("STEPS", "COST"), flexible=("TASK",)))
        return
    head, *lines = context.console.lines(table(heads, rows, right=("STEPS", "COST")))
    context.console.print(head)
    for line, (agent, task) in zip(lines, tasks, strict=True):
        below = Text(f"  {one_line(agent)}: {one_line(task)}", "dim")
        below.truncate(context.console.width, overflow="ellipsis")
        context.console.print(line, below)


async def _select(selected: RunFilter, trees: ResumableTrees, context: CommandContext) -> list[StoredRun]:
    active = selected.state in ("running", "interrupted")  # the store does not tell them apart
    runs = await context.store.runs(
        user_id=selected.user,
        conversation_id=selected.conversation,
        state="running" if active else selected.state,
        roots=not selected.sub_agents,
        limit=ALL if active else selected.limit,
    )
    return [run for run in runs if not active or trees.state_of(run) == selected.state][: selected.limit]
