"""Workflows in YAML and TOML files: the example of the documentation runs, and errors name the part and the remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from concertino import tool
from concertino.agents import AgentStep, HumanStep, Loop, PlannedStep, ScriptedStep, WorkflowAgent, load_workflow
from concertino.errors import ConfigurationError
from concertino.testing import call

from .workflow_kit import NOTES, complete, play

pytest.importorskip("yaml")
PAGE = Path(__file__).parents[2] / "docs" / "workflows.md"
PASS = json.dumps({"assessment": "pass", "reasoning": "", "instruction": ""})


@tool(effect="read")
async def changed_files(change: str) -> list[str]:
    """The files of a change."""
    return [f"{change}.py", "app.css"]


@tool(effect="read")
async def read_file(file: str) -> str:
    """Read a file."""
    return f"{file}: TODO"


async def test_the_file_in_the_documentation_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(name: review.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    path = tmp_path / "review.yaml"
    path.write_text(example, "utf-8")
    workflow = load_workflow(path)
    agent = WorkflowAgent(workflow, [changed_files, read_file])
    script = call("read_file", file="x.py"), PASS, complete(risk="high"), PASS
    played = await play(workflow, *script, agent=agent)
    assert (played.steps, played.result.text) == (["list", "read"], "The risk is high.")
    assert "# Step read\nReview the release.py." in played.last(0)
    assert played.custom("workflow.step")[1]["kind"] == "verified"


EVERY_KIND = """
name = "all"
mode = "structured"
tool_calls = 9
on_stuck = "stop"
variables = { names = ["a"] }
routing = { levels = { small = "one file", large = "many" }, models = { large = "scripted:main" } }
stuck = { identical = 4 }

[[steps]]
kind = "scripted"
id = "list"
tool = "files"
arguments = { folder = "$goal" }
on_error = "continue"

[[steps]]
kind = "loop"
each = "names"
item = "name"
most = 3
steps = [{ kind = "agent", id = "look", prompt = "Look at $name.", when = "complexity == 'large'" }]

[[steps]]
kind = "planned"
id = "plan"
prompt = "Plan."
tools = ["look"]
when = "goal == 'other'"

[[steps]]
kind = "human"
id = "ask"
question = "Go?"
who = ["ann"]
seconds = 60
when = "goal == 'other'"
"""


async def test_every_kind_of_step_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(EVERY_KIND, "utf-8")
    workflow = load_workflow(path)
    scripted, loop, planned, human = workflow.steps
    assert isinstance(scripted, ScriptedStep)
    assert isinstance(loop, Loop)
    assert isinstance(loop.steps[0], AgentStep)
    assert isinstance(planned, PlannedStep)
    assert isinstance(human, HumanStep)
    assert (human.who, human.seconds, workflow.stuck.identical) == (("ann",), 60, 4)
    structured = {"thought": "", "tool_calls": [], "notes": NOTES, "context": {}, "is_complete": True}
    played = await play(workflow, '{"result": "large"}', json.dumps(structured))
    assert played.steps == ["list", "look"]


HEAD = "name: r\nvariables: {x: [1]}\nsteps:\n  - "
AGENT = HEAD + "{kind: agent, id: a, prompt: Do it"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the workflow: invalid value None: use fields by name"),
        ("- a", "the workflow: invalid value"),
        ("name: [", "is not valid YAML"),
        ("name: !!python/object/apply:os.system [x]", "is not valid YAML"),
        ("name: r", "the workflow: 'steps' is missing"),
        ("name: r\nsteps: {a: 1}", "steps: invalid list {'a': 1}: use '- ' for each item"),
        (HEAD + "look", "step 'look': invalid kind None: choose from agent, verified"),
        (HEAD + "{kind: [agent], id: a}", "invalid kind \\['agent'\\]: choose from"),
        (HEAD + "{kind: agent, id: a}", "step 'a': 'prompt' is missing"),
        (HEAD + "{kind: agent, id: 1, prompt: Do it}", "step 1: invalid id 1: Input should be a valid string"),
        (AGENT + ", prmpt: x}", "step 'a': unknown field 'prmpt': choose from id, prompt"),
        (AGENT + ", tools: look}", "step 'a': tools: invalid list 'look': use '- '"),
        (AGENT + ", sets: [risk]}", "step 'a': invalid sets \\['risk'\\]: Input should be a valid dictionary"),
        (AGENT + ", sets: }", "step 'a': invalid sets None"),
        (AGENT + ", sets: {goal: x}}", "step 'a': sets: invalid variable 'goal': use a name"),
        (AGENT + ", output: a b}", "step 'a': output: invalid variable 'a b': use a name"),
        (AGENT + ", outside: maybe}", "step 'a': invalid outside 'maybe': Input should be a valid boolean"),
        (AGENT + ", when: import os}", "step 'a': condition 'import os' is not an expression: use one such as"),
        (AGENT + ", when: x.pop()}", "step 'a': condition 'x.pop\\(\\)' has a part that is not supported: use"),
        (AGENT + ", verifier: strict}", "step 'a': verifier: invalid value 'strict': use fields by name"),
        (
            AGENT + ", verifier: {strictness: mad}}",
            "verifier: invalid strictness 'mad': Input should be 'low', 'medium'",
        ),
        (
            HEAD + "{kind: human, id: a, question: Go, seconds: -3}",
            r"HumanStep\(seconds=-3\): use seconds above 0",
        ),
        (HEAD + "{kind: loop, each: x, item: 3, steps: []}", "step 'loop': invalid item 3"),
        (HEAD + "{kind: loop, each: x, item: a b, steps: [{kind: agent, id: a, prompt: x}]}", "invalid variable 'a b'"),
        (HEAD + "{kind: loop, each: x, steps: }", "steps: invalid list None: use '- ' for each item"),
        (AGENT + "}\nrouting: cheap", "routing: invalid value 'cheap': use fields by name"),
        (AGENT + "}\nstuck: {identical: many}", "stuck: invalid identical 'many': Input should be a valid integer"),
        (AGENT + "}\nmode: chat", "the workflow: invalid mode 'chat': Input should be 'tools' or 'structured'"),
        (AGENT + "}\nanswer: $nope", "answer: unknown \\$nope: choose from"),
        (
            "name: r\nvariables: {goal: x}\nsteps:\n  - {kind: human, id: a, question: Go}",
            "variables: invalid variable",
        ),
        ("name: r\nsteps: " + "[" * 3_000 + "]" * 3_000, "nested too deeply"),
        (HEAD + "&s {kind: loop, each: x, steps: [*s]}", "contain themselves"),
    ],
)
def test_an_error_names_the_file_the_part_and_the_remedy(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match=why) as caught:
        load_workflow(path)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize(
    ("name", "text"), [("none.yaml", None), ("flow.json", "{}"), ("flow.toml", "name ="), ("x.yaml", "\x00")]
)
def test_a_file_that_cannot_be_read(name: str, text: Any, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match=r"cannot be read|unknown format '.json': use|is not valid"):
        load_workflow(tmp_path / name)
