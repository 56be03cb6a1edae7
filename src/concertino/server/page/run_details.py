"""The details of a run: its agents, when each of them worked, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from starlette.responses import Response

from ...records import record
from ...runtime.timeline import Timeline
from ...storage.types import StoredRun
from ...usage import Tokens, Totals, UsageRecord, total
from ..endpoint import ApiCall
from ..run_endpoints import stored_run, timeline_of
from .site import Site

_WIDTH = 1000
"""Units of a chart's width."""
_RUNS = 200


@record
class ChartBar:
    """A part of a row of a chart, in units of its width."""

    kind: str
    x: float
    width: float
    title: str


@record(frozen=False)
class AgentRow:
    """An agent of a run."""

    stored: StoredRun
    depth: int
    used: Totals
    timeline: Timeline
    spans: list[ChartBar] = field(default_factory=list)
    """The times of its run and of its model calls."""
    tokens: list[ChartBar] = field(default_factory=list)
    cost: list[ChartBar] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The last element of its path."""
        return self.stored.start.agent_path.rpartition("/")[2]

    @property
    def seconds(self) -> float | None:
        """The time from its start to its end; None before."""
        end = self.stored.end
        return None if end is None else max(end.ended - self.stored.start.started, 0.0)


async def run_panel(site: Site, call: ApiCall) -> Response:
    """Return the panel of a run, with its sub-agents."""
    root = await stored_run(call, call.request.path_params["run"])
    root_id = root.start.root_id
    runs = await call.runtime.store.runs(call.scope, root_id=root_id, limit=_RUNS)
    records = await call.runtime.store.usage(call.scope, root_id)
    rows = [
        AgentRow(
            stored,
            depth,
            total([each for each in records if each.run_id == stored.start.run_id]),
            await timeline_of(call, stored.start.run_id),
        )
        for stored, depth in _in_order(runs, root_id)
    ]
    _add_spans(rows)
    _add_usage(rows)
    used = total(records)
    started = root.start.started
    ended = root.end.ended if root.end is not None else _last(rows, started)
    return site.fragment(
        call.request,
        "panel.html",
        run=root,
        rows=rows,
        used=used,
        seconds=max(ended - started, 0.0),
        models=_models(records),
        width=_WIDTH,
    )


def _in_order(runs: Sequence[StoredRun], root_id: str) -> Iterator[tuple[StoredRun, int]]:
    """Yield the runs of a tree with their depth: each below its parent, the oldest first."""
    below: dict[str | None, list[StoredRun]] = {}
    for stored in reversed(runs):
        parent = stored.start.parent_id if stored.start.run_id != root_id else None
        below.setdefault(parent, []).append(stored)

    def walk(parent: str | None, depth: int) -> Iterator[tuple[StoredRun, int]]:
        for stored in below.get(parent, ()):
            yield stored, depth
            yield from walk(stored.start.run_id, depth + 1)

    return walk(None, 0)


def _last(rows: Sequence[AgentRow], started: float) -> float:
    return max([started, *(step.until for row in rows for step in row.timeline.steps)])


def _add_spans(rows: Sequence[AgentRow]) -> None:
    """Add the bars of the timeline: each run, and within it its model calls."""
    if not rows:
        return
    first = min(row.stored.start.started for row in rows)
    last = max([_last(rows, first), *(row.stored.end.ended for row in rows if row.stored.end is not None)])
    scale = _WIDTH / max(last - first, 0.001)

    def bar(kind: str, begin: float, end: float, title: str) -> ChartBar:
        x = max(begin - first, 0.0) * scale
        width = min(max((end - begin) * scale, 3.0), _WIDTH)
        return ChartBar(kind, round(min(x, _WIDTH - width), 1), round(width, 1), title)

    for row in rows:
        end = row.stored.end.ended if row.stored.end is not None else last
        row.spans.append(bar("run", row.stored.start.started, end, row.name))
        for step in row.timeline.steps:
            if step.requests and step.answered is not None:
                title = f"Step {step.number}: {step.model}"
                row.spans.append(bar("model", step.requests[-1].at, step.answered, title))


def _add_usage(rows: Sequence[AgentRow]) -> None:
    """Add the bars of tokens and cost, all rows on one scale."""
    most = max([1, *(row.used.tokens.total for row in rows)])
    highest = max([0.0, *(float(row.used.cost or 0) for row in rows)])
    for row in rows:
        row.tokens = list(_stacked(row.used.tokens, _WIDTH / most))
        if highest and row.used.cost:
            row.cost = [ChartBar("cost", 0, round(float(row.used.cost) / highest * _WIDTH, 1), "cost")]


def _stacked(used: Tokens, scale: float) -> Iterator[ChartBar]:
    """Yield the bars of one agent's tokens: read from the cache, other input, output."""
    x = 0.0
    counts = {"cached": used.cached, "input": used.prompt - used.cached, "output": used.completion}
    for kind, count in counts.items():
        if count > 0:
            yield ChartBar(kind, round(x, 1), round(count * scale, 1), f"{count:,} {kind}")
            x += count * scale


def _models(records: Sequence[UsageRecord]) -> list[str]:
    return list(dict.fromkeys(f"{each.provider}:{each.model}" for each in records))
