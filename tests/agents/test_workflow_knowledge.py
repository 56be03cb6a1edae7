"""Knowledge of workflows: read before a run, written after it, and stale once a file has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from concertino import Scope, ToolContext, ToolResult, tool
from concertino.agents import AgentStep, Fact, FileKnowledge, Loop, PlannedStep, ScriptedStep, Workflow, WorkflowAgent
from concertino.errors import DamagedDataError
from concertino.testing import call

from .test_workflow import plan, summary
from .workflow_kit import ANN, FlowFailed, complete, play

NAMES = ("a.txt", "b.txt", "c.txt", "d.txt")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(f"{name} is a text")
    return folder


def reading(root: Path, knowledge: FileKnowledge, read: list[str]) -> WorkflowAgent:
    @tool(effect="read")
    async def read_file(name: str) -> ToolResult:
        """Read a file, and state what it shows."""
        read.append(name)
        text = (root / name).read_text()
        return ToolResult(text, data={"facts": [{"source": name, "text": text}]})

    step = ScriptedStep(id="read", tool=read_file, arguments={"name": "$name"}, when="name not in known")
    flow = Workflow(
        name="flow",
        steps=[Loop(each="names", item="name", steps=[step]), AgentStep(id="sum", prompt="Sum up $known.")],
        variables={"names": list(NAMES)},
    )
    return WorkflowAgent(flow, knowledge=knowledge, root=root)


async def test_a_second_run_reads_nothing_again_and_a_changed_file_alone(root: Path, tmp_path: Path) -> None:
    knowledge, read = FileKnowledge(tmp_path / "facts"), list[str]()
    agent = reading(root, knowledge, read)
    first = await play(agent.workflow, complete(), agent=agent)
    assert read == list(NAMES)
    found = await knowledge.read(ANN, "flow")
    assert [(fact.source, fact.text) for fact in found] == [(name, f"{name} is a text") for name in NAMES]
    assert all(fact.run_id == first.result.run_id and fact.step == "read" and fact.file_digest for fact in found)

    second = await play(agent.workflow, complete(), agent=agent)
    assert sum(second.result.tool_calls.values()) <= sum(first.result.tool_calls.values()) / 2
    assert all(fact.text in second.requests["main"][0].messages[1].text for fact in found)
    assert await knowledge.read(ANN, "flow") == found

    (root / "b.txt").write_text("b has changed")
    read.clear()
    third = await play(agent.workflow, complete(), agent=agent)
    assert read == ["b.txt"]
    assert "These have changed since: b.txt." in third.requests["main"][0].messages[1].text
    texts = {fact.source: fact.text for fact in await knowledge.read(ANN, "flow")}
    assert texts == {**{name: f"{name} is a text" for name in NAMES}, "b.txt": "b has changed"}


async def test_another_tenant_knows_nothing_and_erasing_forgets(root: Path, tmp_path: Path) -> None:
    knowledge, read = FileKnowledge(tmp_path / "facts"), list[str]()
    agent = reading(root, knowledge, read)
    await play(agent.workflow, complete(), agent=agent)
    rival = Scope("rival", "ann")
    assert not await knowledge.read(rival, "flow")
    await knowledge.erase(rival)
    assert await knowledge.read(ANN, "flow")
    await knowledge.erase(ANN)
    assert not await knowledge.read(ANN, "flow")


async def test_an_agent_records_facts_itself(root: Path, tmp_path: Path) -> None:
    knowledge = FileKnowledge(tmp_path / "facts")
    flow = Workflow(name="flow", steps=[AgentStep(id="read", prompt="Read.")])
    agent = WorkflowAgent(flow, knowledge=knowledge, root=root)
    fact = call("record_fact", source="a.txt", text="a is red")
    played = await play(flow, fact, complete(), agent=agent)
    assert "record_fact" in {spec.name for spec in played.requests["main"][0].tools}
    (kept,) = await knowledge.read(ANN, "flow")
    assert (kept.source, kept.text, kept.step) == ("a.txt", "a is red", "read")
    outside = call("record_fact", source="../x", text="secret")
    played = await play(flow, outside, complete(), agent=agent)
    assert "is outside the folder" in played.last(1)
    assert len(await knowledge.read(ANN, "flow")) == 1


async def test_a_plan_leaves_out_the_sources_that_are_known(root: Path, tmp_path: Path) -> None:
    knowledge, seen = FileKnowledge(tmp_path / "facts"), list[str]()

    @tool(effect="read", name="look")
    async def look(name: str, context: ToolContext) -> ToolResult:
        """Look at a file."""
        seen.append(name)
        return ToolResult("red", data={"facts": [{"source": name, "text": f"{name} is red"}]})

    flow = Workflow(name="flow", steps=[PlannedStep(id="plan", prompt="Look.", tools=("look",))])
    agent = WorkflowAgent(flow, [look], knowledge=knowledge, root=root)
    await play(flow, plan("a.txt", "b.txt"), summary(), agent=agent)
    (root / "b.txt").write_text("changed")
    played = await play(flow, plan("a.txt", "b.txt"), summary(), agent=agent)
    assert seen == ["a.txt", "b.txt", "b.txt"]
    assert "known: a.txt is red" in played.last(1)


def damage(folder: Path) -> None:
    next(folder.glob("*.json")).write_text("{")


async def test_damaged_facts_are_reported(tmp_path: Path) -> None:
    knowledge = FileKnowledge(tmp_path)
    await knowledge.write(ANN, "x", [Fact("a", "b")], [])
    damage(tmp_path)
    with pytest.raises(DamagedDataError, match="remove the file"):
        await knowledge.read(ANN, "x")


async def test_a_run_that_fails_or_is_stopped_has_taught_its_completed_steps(root: Path, tmp_path: Path) -> None:
    knowledge, read = FileKnowledge(tmp_path / "facts"), list[str]()
    agent = reading(root, knowledge, read)
    with pytest.raises(FlowFailed, match="stops without completing"):
        await play(agent.workflow, *["No."] * 4, agent=agent)
    assert [fact.source for fact in await knowledge.read(ANN, "flow")] == list(NAMES)
    read.clear()
    await play(agent.workflow, complete(), agent=agent)
    assert read == []

    (root / "b.txt").write_text("b has changed")
    (root / "c.txt").unlink()
    failing = reading(root, knowledge, read)
    with pytest.raises(FlowFailed, match="No such file"):
        await play(failing.workflow, agent=failing)
    texts = {fact.source: fact.text for fact in await knowledge.read(ANN, "flow")}
    assert texts["b.txt"] == "b has changed"
    assert texts["c.txt"] == "c.txt is a text"  # stale, and not read again: the next run must know


async def test_facts_of_a_step_in_progress_are_not_written(root: Path, tmp_path: Path) -> None:
    knowledge = FileKnowledge(tmp_path / "facts")
    flow = Workflow(name="flow", steps=[AgentStep(id="read", prompt="Read.")])
    agent = WorkflowAgent(flow, knowledge=knowledge, root=root)
    with pytest.raises(FlowFailed):
        await play(flow, call("record_fact", source="a.txt", text="is short"), *["No."] * 4, agent=agent)
    assert await knowledge.read(ANN, "flow") == []
