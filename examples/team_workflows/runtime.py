"""The workflows, and the runtime that has them."""

from __future__ import annotations

from pathlib import Path

from concertino import Model, Resources, Runtime, SqliteStore
from concertino.agents import (
    AgentStep,
    FileKnowledge,
    HumanStep,
    Loop,
    PlannedStep,
    ScriptedStep,
    Verifier,
    Workflow,
    WorkflowAgent,
)

from .rules import RulesModel
from .tools import TOOLS

_SUM = "State the findings of all files, with their lines.\nKnown: $facts"
REVIEW = Workflow(
    name="review-change",
    description="Reads each changed file of a range of commits, and reports findings with their lines.",
    steps=[
        ScriptedStep(id="list", tool="changed_files", arguments={"range": "$goal"}, output="files"),
        Loop(
            each="files",
            item="file",
            most=2_000,
            steps=[
                ScriptedStep(
                    id="read",
                    tool="read_change",
                    arguments={"range": "$goal", "file": "$file"},
                    when="file not in known",
                )
            ],
        ),
        AgentStep(
            id="report",
            prompt=_SUM,
            sets={"risk": "high if a finding may harm, else low", "findings": "a list of file:line: finding"},
            output="report",
            verifier=Verifier(strictness="high", retries=1),
        ),
    ],
    answer="Risk: $risk.\n\n$report",
    tool_calls=4_000,
)
INCIDENT = Workflow(
    name="investigate-incident",
    description="Reads the errors of all logs in a folder, and reports how it began.",
    steps=[
        ScriptedStep(id="list", tool="log_files", arguments={"folder": "$goal"}, output="logs"),
        PlannedStep(
            id="errors",
            prompt="Find the errors in these logs: $logs. Which was first?",
            tools=("errors_of",),
            sets={"first": "the first error of all, with its time"},
            output="errors",
            most_items=100,
        ),
    ],
    answer="It began with: $first\n\n$errors",
)
RELEASE = Workflow(
    name="prepare-release",
    description="Writes release notes from the commits, after a person has approved them.",
    steps=[
        ScriptedStep(id="commits", tool="commits_since_tag", output="commits"),
        AgentStep(
            id="notes",
            prompt="Write the release notes of $goal, grouped by kind, from these commits:\n$commits",
            output="notes",
            verifier=Verifier(),
        ),
        HumanStep(id="approve", question="Release $goal with these notes?\n$notes"),
        ScriptedStep(id="write", tool="write_notes", arguments={"version": "$goal", "notes": "$notes"}, output="file"),
    ],
    answer="$file is written.",
)


def make_team(
    store: SqliteStore, folder: Path, *, facts: Path, model: Model | None = None, lease: float = 30.0
) -> Runtime:
    """Return a runtime with the three workflows over the files in *folder*; *facts* is where knowledge is kept."""
    model = model or RulesModel()
    knowledge = FileKnowledge(facts)
    agents = [
        WorkflowAgent(flow, TOOLS, knowledge=knowledge, root=folder, subject=f"{folder.resolve()} {flow.name}")
        for flow in (REVIEW, INCIDENT, RELEASE)
    ]
    resources = Resources(store=store, model=model, models=lambda _: model, deps=folder)
    return Runtime(agents, resources, lease=lease)


def make_runtime(store: SqliteStore) -> Runtime:
    """Return the runtime over the current folder; for `--app`."""
    return make_team(store, Path.cwd(), facts=Path.cwd() / ".concertino" / "facts")
