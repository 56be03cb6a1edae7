"""The driver: makes the environments, runs every figure in a process of its own, and prints the table."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import environments, report
from benchmarks.figures import JOBS, LOAD, OURS, PEERS, Job
from benchmarks.report import Note

LONG = 6.0
"""Seconds; a figure that takes longer is not repeated."""


class Measurement:
    """One run of the benchmark, as far as it has come."""

    def __init__(self, systems: list[str], *, timeout: float) -> None:
        self.systems = systems
        self.timeout = timeout
        self.results: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in systems}
        self.notes: dict[str, dict[str, Note]] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self._long: set[tuple[str, str]] = set()

    def prepare(self, *, install: bool) -> None:
        """Make the environments and ask each system for its version; a system without one stays empty."""
        for name in self.systems:
            _say(f"preparing {name}")
            problem = environments.prepare(name, install=install)
            if problem is not None:
                self.notes[name] = {"": Note(problem)}
                continue
            (found,) = self._ask(name, [("versions", {})])
            if "error" in found:
                self.notes[name] = {"": Note(found["error"], wrong=True)}
            else:
                self.versions[name] = found["versions"]

    def repeat(self, repetitions: int, jobs: list[tuple[Job, dict[str, Any]]]) -> None:
        """Everything once, then everything again: what slows the machine for a while slows all alike."""
        for repetition in range(1, repetitions + 1):
            for job, parameters in jobs:
                if job.once and repetition > 1:
                    continue
                _say(f"repetition {repetition} of {repetitions}: {job.name}")
                for name in self.systems:
                    if self._wanted(name, job):
                        self._measure(name, job, parameters)

    def all_at_once(self, jobs: list[tuple[Job, dict[str, Any]]]) -> None:
        """All jobs of a system in one process: good enough to see whether they work."""
        for name in self.systems:
            jobs = [(LOAD, {}), *jobs]
            answers = self._ask(name, [(job.workload, parameters) for job, parameters in jobs])
            for (job, _), found in zip(jobs, answers, strict=True):
                self._keep(name, job, found)

    def _wanted(self, name: str, job: Job) -> bool:
        missing = self.notes.get(name, {})
        return "" not in missing and job.name not in missing and (name, job.name) not in self._long

    def _measure(self, name: str, job: Job, parameters: dict[str, Any]) -> None:
        begun = time.perf_counter()
        load, found = self._ask(name, [(LOAD.workload, {}), (job.workload, parameters)])
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

    def _ask(self, name: str, jobs: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
        try:
            done = environments.run(name, json.dumps(jobs), timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return [{"error": f"over {self.timeout:.0f} s", "slow": True}] * len(jobs)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return [{"error": f"crash: {last}"}] * len(jobs)
        return [json.loads(line) for line in done.stdout.splitlines()]


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition, less of everything")
    parser.add_argument("--only", metavar="NAMES", help=f"of {','.join((*OURS, *PEERS))}")
    parser.add_argument("--repetitions", type=int, help="3 by default, 1 with --quick")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the raw figures there")
    parser.add_argument("--offline", action="store_true", help="make no environments; use those that stand")
    parser.add_argument("--self-check", action="store_true", help="floor and concertino, tiny: do they work?")
    arguments = parser.parse_args()
    unknown = set((arguments.only or "").split(",")) - {"", *OURS, *PEERS}
    if unknown:
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    return arguments


def _systems(arguments: argparse.Namespace) -> list[str]:
    default = OURS if arguments.self_check else (*OURS, *PEERS)
    chosen = arguments.only.split(",") if arguments.only else default
    return [name for name in (*OURS, *PEERS) if name in chosen]


def _jobs(arguments: argparse.Namespace) -> list[tuple[Job, dict[str, Any]]]:
    if arguments.self_check:
        return [(job, job.parameters | job.tiny) for job in JOBS]
    return [(job, job.parameters | (job.quick if arguments.quick else {})) for job in JOBS]


def main() -> int:
    """Measure and print; 1 if a system that could be started did not do its work."""
    arguments = _arguments()
    load, begun = os.getloadavg()[0], time.perf_counter()
    repetitions = arguments.repetitions or (1 if arguments.quick or arguments.self_check else 3)
    measurement = Measurement(_systems(arguments), timeout=8 if arguments.quick else 180)
    if arguments.self_check:
        measurement.all_at_once(_jobs(arguments))
    else:
        measurement.prepare(install=not arguments.offline)
        measurement.repeat(repetitions, _jobs(arguments))
    results, notes = measurement.results, measurement.notes
    if not arguments.self_check:
        print(report.head(measurement.versions, repetitions, load), end="\n\n")
    print(report.table(results, notes, measurement.systems, _jobs(arguments)))
    print(*report.footnotes(notes), sep="\n", end="\n\n")
    if not arguments.self_check and "concertino" in measurement.systems:
        print("Goals", *report.goal_lines(results), sep="\n")
    if not arguments.self_check:
        _say(f"{time.perf_counter() - begun:.0f} s")
    if arguments.json:
        text = json.dumps(report.as_json(results, notes, measurement.versions, repetitions), indent=1)
        arguments.json.write_text(text + "\n")
    return int(any(note.wrong for found in notes.values() for note in found.values()))


if __name__ == "__main__":
    sys.exit(main())
