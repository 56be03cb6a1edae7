"""Tables of figures and goals."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.figures import LOAD, Goal, Job, Row, Samples, Suite

Results = Mapping[str, Samples]
Jobs = Sequence[tuple[Job, dict[str, Any]]]
"""The jobs with the parameters that were used."""


class Note(NamedTuple):
    """The reason why a figure is missing."""

    text: str
    wrong: bool = False
    """Whether the system did not do its work; otherwise it is too slow or not installed."""


Notes = Mapping[str, Mapping[str, Note]]
"""By system, then by job; `""` stands for all jobs."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def head(versions: Mapping[str, Mapping[str, str]], repetitions: int, load: float) -> str:
    """Return the machine, the repetitions and the versions."""
    machine = f"{cores()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    # Systems may share a distribution, and then have the same version of it.
    installed = {name: version for found in versions.values() for name, version in found.items()}
    names = ", ".join(f"{name} {version}" for name, version in installed.items())
    return (
        f"{machine}, load {load:.1f} at the start; median of {repetitions} interleaved repetitions, "
        f"a fresh process per figure\n{names}"
    )


def table(suite: Suite, results: Results, notes: Notes, systems: list[str], jobs: Jobs) -> str:
    """Return all figures, one line each. Lower is better."""
    names = [name.replace("_", "-") for name in systems]
    floors = [f"{suite.subject}/{floor}".replace("_", "-") for floor in suite.floors]
    titles = ["figure", *names, *floors, f"best peer/{suite.subject}".replace("_", "-")]
    blank = [""] * (len(floors) + 1)
    parameters: dict[str, dict[str, Any]] = {LOAD.name: {}} | {job.name: found for job, found in jobs}
    lines = [titles]
    for row in suite.rows:
        label = row.label.format(**parameters[row.job])
        lines.append([label, *_line(suite, row, results, notes, systems)])
    lines.append(["work checked", *(_checked(name, results, notes) for name in systems), *blank])
    lines.append(["usage of the runs", *(_usage(results.get(name, {})) for name in systems), *blank])
    return aligned(lines)


def aligned(lines: list[list[str]]) -> str:
    """Return *lines* of cells as a Markdown table; the first is its head."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    lines.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(_padded(line, widths) for line in lines)


def _padded(line: list[str], widths: list[int]) -> str:
    first, *rest = line
    cells = [first.ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
    return f"| {' | '.join(cells)} |"


def _line(suite: Suite, row: Row, results: Results, notes: Notes, systems: list[str]) -> list[str]:
    values = {name: row.of(results.get(name, {})) for name in systems}
    cells = [_cell(values[name], notes.get(name, {}), row.job) for name in systems]
    ours = values.get(suite.subject)
    peers = [found for name, found in values.items() if name in suite.peers and found is not None]
    floors = [values.get(name) for name in suite.floors]
    to_floors = [_number(ours / floor) if ours and floor else "" for floor in floors]
    to_peer = _number(min(peers) / ours) if ours and peers else ""
    return [*cells, *to_floors, to_peer]


def _number(found: float) -> str:
    return f"{found:,.0f}" if found >= 99.95 else f"{found:.3g}"


def _cell(found: float | None, why: Mapping[str, Note], job: str) -> str:
    if found is not None:
        return _number(found)
    if "" in why:
        return "fails" if why[""].wrong else "not installed"
    note = why.get(job)
    return "-" if note is None else "WRONG" if note.wrong else note.text


def _checked(name: str, results: Results, notes: Notes) -> str:
    wrong = any(note.wrong for note in notes.get(name, {}).values())
    return "NO" if wrong else "yes" if results.get(name) else "-"


def _usage(samples: Samples) -> str:
    found = {sample.get("usage") for of_job in samples.values() for sample in of_job}
    return "LOST" if "LOST" in found else "exact" if "exact" in found else "-"


def footnotes(notes: Notes) -> str:
    """Return one line for each missing figure."""
    lines = [
        f"- {name}: {job + ': ' if job else ''}{note.text}"
        for name, found in notes.items()
        for job, note in found.items()
    ]
    return "\n\n" + "\n".join(lines) if lines else ""


def page(sections: Mapping[str, str]) -> str:
    """Return a Markdown page of *sections* by title."""
    parts = [f"## {title}\n\n{text}\n" for title, text in sections.items()]
    how = 'Written by `make bench ARGS="--write benchmarks/RESULTS.md"`; [README](README.md) explains the figures.'
    return "\n".join([f"# Results of the benchmarks\n\n{how}\n", *parts])


def goal_table(goals: Sequence[Goal]) -> str:
    """Return the goals of concertino with their figures, one line each, and how many are met."""
    lines = [["goal", "limit", "measured", "met"]]
    lines += [[goal.text, goal.limit, goal.found, _VERDICTS[goal.met]] for goal in goals]
    measured = [goal.met for goal in goals if goal.met is not None]
    return f"{aligned(lines)}\n\n{sum(measured)} of {len(measured)} goals are met."


_VERDICTS = {True: "yes", False: "NO", None: "-"}


def as_json(suite: Suite, results: Results, notes: Notes, versions: Mapping[str, Any], repetitions: int) -> Any:
    """Return the raw figures."""
    machine = {
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    return {
        "machine": machine,
        "versions": versions,
        "repetitions": repetitions,
        "figures": results,
        "missing": {name: {job: note.text for job, note in found.items()} for name, found in notes.items()},
        "goals": [dataclasses.asdict(goal) for goal in suite.goals(results)],
    }
