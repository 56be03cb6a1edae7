"""The timeline of a research over all its runs, by the machine that did the work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from concertino import OPERATOR
from concertino.runtime.timeline import TimelineAttempt, TimelineStep, read_timeline
from concertino.storage import PostgresStore, StoredRun

Row = tuple[float, str, str, str]
"""The time, the process, the agent's path, and what happened."""


async def machine_lines(url: str, run_id: str, names: Mapping[str, str], others: Sequence[Row]) -> list[str]:
    """Return the lines of the timeline of a root run and of the runs that work for it, with *others* in between.

    A machine of the demonstration is a process; *names* are the names of processes.
    """
    async with await PostgresStore.open(url) as store:
        runs = [
            run for run in await store.runs(OPERATOR, roots=True) if run_id in (run.start.run_id, run.start.parent_id)
        ]
        rows = sorted([*others, *[row for run in runs for row in await _rows(store, run)]])
    first = rows[0][0]
    width = max(len(path) for _, _, path, _ in rows)
    return [
        f"{at - first:6.1f} s  {names.get(process, process):9} {f'{path:{width}}  ' if path else ''}{text}"
        for at, process, path, text in rows
    ]


async def _rows(store: PostgresStore, run: StoredRun) -> list[Row]:
    run_id, path, end = run.start.run_id, run.start.agent_path, run.end
    journal = await store.load(OPERATOR, run_id)
    assert journal is not None
    timeline = read_timeline(journal, await store.usage(OPERATOR, run_id), (), ())
    rows = [(run.start.started, timeline.process, path, "starts")]
    last = timeline.process
    for step in timeline.steps:
        for at, process, text in _events(step):
            rows.append((at, process, path, text))
            last = process
    return rows if end is None else [*rows, (end.ended, last, path, end.status)]


def _events(step: TimelineStep) -> Iterator[tuple[float, str, str]]:
    for attempt in step.attempts:
        yield attempt.at, attempt.process, _fate(step, attempt)
    for note in step.notes:
        yield note.at, note.process, {"suspended": "waits, in no process", "resumed": "continues"}[note.label]


def _fate(step: TimelineStep, attempt: TimelineAttempt) -> str:
    if attempt.lost:
        return f"step {step.number}: no answer of the model"
    names = [call.name for call in step.calls]
    calls = [f"{name} ({names.count(name)})" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    return f"step {step.number}: {', '.join(calls) or 'answer'}"
