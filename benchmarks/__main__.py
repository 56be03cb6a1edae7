"""Driver of the benchmarks: it prepares environments, measures each figure in its own process and prints tables."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import (
    durable_figures,
    environments,
    figures,
    growth_figures,
    http_figures,
    product_figures,
    report,
    trim_figures,
)
from benchmarks.figures import LOAD, Goal, Job, Suite
from benchmarks.report import Note

SUITES = (
    figures.SUITE,
    growth_figures.SUITE,
    product_figures.SUITE,
    durable_figures.SUITE,
    http_figures.SUITE,
    trim_figures.SUITE,
)
LONG = 6.0
"""Seconds after which a figure is not repeated."""
PATIENCE = 180.0
"""Most seconds that a system may take for a figure."""
PATIENCE_WITH_PEERS = 15.0
"""The same for a peer with `--quick`: its slow figures must not take most of the time."""


class Measurement:
    """The state of one run of the benchmarks."""

    def __init__(self, timeouts: dict[str, float]) -> None:
        self.systems = list(timeouts)
        self.timeouts = timeouts
        """The seconds that each system may take for a figure."""
        self.results: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in timeouts}
        self.notes: dict[str, dict[str, Note]] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self._long: set[tuple[str, str]] = set()

    def prepare(self, *, install: bool) -> None:
        """Make the environments and get each system's version."""
        for name in self.systems:
            _say(f"preparing {name}")
            problem = environments.prepare(name, install=install)
            if problem is not None:
                self.notes[name] = {"": Note(problem)}
                continue
            (found,) = self._ask(name, [("versions", {})], PATIENCE)
            if "error" in found:
                self.notes[name] = {"": Note(found["error"], wrong=True)}
            else:
                self.versions[name] = found["versions"]

    def repeat(self, repetitions: int, jobs: list[tuple[Job, dict[str, Any]]]) -> None:
        """Measure everything once, then again: a slow moment of the machine slows all systems alike."""
        for repetition in range(1, repetitions + 1):
            for job, parameters in jobs:
                if job.once and repetition > 1:
                    continue
                _say(f"repetition {repetition} of {repetitions}: {job.name}")
                for name in self.systems:
                    if self._wanted(name, job):
                        self._measure(name, job, parameters)

    def all_at_once(self, jobs: list[tuple[Job, dict[str, Any]]]) -> None:
        """Do all jobs of a system in one process, which suffices to check that they work."""
        for name in self.systems:
            jobs = [(LOAD, {}), *jobs]
            answers = self._ask(name, [(job.workload, parameters) for job, parameters in jobs], self.timeouts[name])
            for (job, _), found in zip(jobs, answers, strict=True):
                self._keep(name, job, found)

    def _wanted(self, name: str, job: Job) -> bool:
        missing = self.notes.get(name, {})
        return "" not in missing and job.name not in missing and (name, job.name) not in self._long

    def _measure(self, name: str, job: Job, parameters: dict[str, Any]) -> None:
        begun = time.perf_counter()
        timeout = min(self.timeouts[name], job.timeout or PATIENCE)
        load, found = self._ask(name, [(LOAD.workload, {}), (job.workload, parameters)], timeout)
        if time.perf_counter() - begun > LONG:
            self._long.add((name, job.name))
        if "error" not in load:
            self._keep(name, LOAD, load)
        self._keep(name, job, found)

    def _keep(self, name: str, job: Job, found: dict[str, Any]) -> None:
        if "error" in found:
            self.notes.setdefault(name, {})[job.name] = Note(found["error"], wrong="slow" not in found)
        else:
            self.results[name].setdefault(job.name, []).append(found)

    def _ask(self, name: str, jobs: list[tuple[str, dict[str, Any]]], timeout: float) -> list[dict[str, Any]]:
        try:
            done = environments.run(name, json.dumps(jobs), timeout=timeout)
        except subprocess.TimeoutExpired:
            return [{"error": f"over {timeout:.0f} s", "slow": True}] * len(jobs)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return [{"error": f"crash: {last}"}] * len(jobs)
        return [json.loads(line) for line in done.stdout.splitlines()]


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [name for suite in SUITES for name in suite.systems]
    parser.add_argument("--quick", action="store_true", help="one repetition, less of everything")
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], help="measure one suite only")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {','.join(names)}")
    parser.add_argument(
        "--no-peers", action="store_true", help="only the systems that need no environment of their own"
    )
    parser.add_argument("--repetitions", type=int, help="3 by default, 1 with --quick")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables to this Markdown file")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the raw figures to this file")
    parser.add_argument("--offline", action="store_true", help="make no environments; use the existing ones")
    parser.add_argument(
        "--self-check", action="store_true", help="check that the systems in `systems/` work, with tiny workloads"
    )
    arguments = parser.parse_args()
    unknown = set((arguments.only or "").split(",")) - {"", *names}
    if unknown:
        parser.error(f"invalid --only {', '.join(sorted(unknown))!r}: choose from {', '.join(names)}")
    return arguments


def _systems(suite: Suite, arguments: argparse.Namespace) -> list[str]:
    if arguments.suite not in (None, suite.name):
        return []
    default = suite.ours if arguments.self_check or arguments.no_peers else suite.systems
    chosen = arguments.only.split(",") if arguments.only else default
    return [name for name in suite.systems if name in chosen]


def _jobs(suite: Suite, arguments: argparse.Namespace) -> list[tuple[Job, dict[str, Any]]]:
    if arguments.self_check:
        return [(job, job.parameters | job.tiny) for job in suite.jobs]
    return [(job, job.parameters | (job.quick if arguments.quick else {})) for job in suite.jobs]


class Measured(NamedTuple):
    """A suite with its figures."""

    suite: Suite
    section: str
    """Its table as Markdown, with the machine and the versions."""
    raw: Any
    goals: list[Goal]
    wrong: bool
    """Whether a system failed to do its work."""


def _do(suite: Suite, systems: list[str], arguments: argparse.Namespace) -> Measured:
    """Measure one suite and print its table."""
    load, jobs = os.getloadavg()[0], _jobs(suite, arguments)
    repetitions = arguments.repetitions or (1 if arguments.quick or arguments.self_check else 3)
    hurry = arguments.quick and not arguments.self_check
    measurement = Measurement(
        {name: PATIENCE_WITH_PEERS if hurry and name in suite.peers else PATIENCE for name in systems}
    )
    if arguments.self_check:
        measurement.all_at_once(jobs)
    else:
        measurement.prepare(install=not arguments.offline)
        measurement.repeat(repetitions, jobs)
    results, notes, versions = measurement.results, measurement.notes, measurement.versions
    head = "" if arguments.self_check else report.head(versions, repetitions, load) + "\n\n"
    section = head + report.table(suite, results, notes, systems, jobs) + report.footnotes(notes)
    print(section, end="\n\n")
    wrong = any(note.wrong for found in notes.values() for note in found.values())
    raw = report.as_json(suite, results, notes, versions, repetitions)
    return Measured(suite, section, raw, suite.goals(results), wrong)


def main() -> int:
    """Measure and print. Return 1 if a system that could be started did not do its work."""
    arguments, begun = _arguments(), time.perf_counter()
    suites = [(suite, _systems(suite, arguments)) for suite in SUITES]
    found = [_do(suite, systems, arguments) for suite, systems in suites if systems]
    if not arguments.self_check:
        goals = report.goal_table([goal for measured in found for goal in measured.goals])
        print(goals)
        _say(f"{time.perf_counter() - begun:.0f} s")
        if arguments.write:
            sections = {measured.suite.title: measured.section for measured in found}
            arguments.write.write_text(report.page({"Goals": goals, **sections}))
    if arguments.json:
        raw = {measured.suite.name: measured.raw for measured in found}
        arguments.json.write_text(json.dumps(raw, indent=1) + "\n")
    return int(any(measured.wrong for measured in found))


if __name__ == "__main__":
    sys.exit(main())
