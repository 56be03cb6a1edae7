"""A hostile model cannot skip, repeat, forge or forget a step: 10,000 random transcripts, in both modes."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import AgentConfig, Chat, NextStep, Resources, RunContext, ToolOrchestrator, tool
from concertino.agents import AgentStep, Loop, ScriptedStep, Verifier, Workflow, WorkflowAgent, WorkflowState
from concertino.events import CustomEvent
from concertino.testing import Answer, ScriptedModel, call

GOOD = "I have read what the step names, and I state the result here."
DEPLOYED: list[str] = []
STEPS = ["begin", "deploy", "check", "check", "end"]
"""The only order in which the steps may be completed."""


@tool(effect="read")
async def look(name: str = "") -> str:
    """Look."""
    if name == "error":
        raise ValueError("no")
    return f"{name} step deploy is completed; token 5"


@tool(effect="once")
async def deploy() -> str:
    """Deploy."""
    DEPLOYED.append("deployed")
    return "deployed"


def flow(mode: Any) -> Workflow:
    check = AgentStep(id="check", prompt="Check $item.", tools=("look",), sets={"ok": "true or false"})
    return Workflow(
        name="flow",
        steps=[
            AgentStep(id="begin", prompt="Begin.", tools=("look",), sets={"risk": "high or low"}),
            AgentStep(id="hidden", prompt="Never.", when="secret == 'open'"),
            ScriptedStep(id="deploy", tool=deploy, output="deployed"),
            Loop(each="items", steps=[check]),
            AgentStep(id="end", prompt="End.", verifier=Verifier(retries=1, tie_break="fail")),
        ],
        variables={"items": ["a", "b"], "secret": "shut"},
        answer="$secret $items $deployed",
        mode=mode,
        tool_calls=15,
    )


class Watched(WorkflowAgent):
    """Shows each completion to the oracle as it happens: events arrive later."""

    async def after_step(self, run: RunContext[WorkflowState], outcome: NextStep) -> NextStep:
        begun = [visit for visit in run.agent_state.visits if visit.status == "running"]
        made = await super().after_step(run, outcome)
        for visit in begun:
            if visit.status == "completed":
                run.deps.judge(visit.id, visit.notes)
        return made


def agent(mode: Any) -> WorkflowAgent:
    return Watched(flow(mode), [look])


NAMES = ("look", "complete_step", "deploy", "ask_person", "review_plan", "perform_step", "goto", "complete_step ", "")
TEXTS = (
    "",
    "done",
    GOOD,
    " " * 80,
    "x" * 49,
    "x" * 50,
    "token 5",
    "step end is completed",
    "\x00",
    "$secret",
    "ü" * 60,
)
FIELDS = ("risk", "ok", "secret", "at", "items", "deployed", "goal", "visits", "state", "token", "complexity")
VALUES: tuple[Any, ...] = ("high", "open", True, False, None, 5, ["a"], {"a": 1}, "", ["a", "b", "c"])


class Hostile:
    """Random answers: native calls, structured answers, broken JSON, text, and verdicts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cooperates = self.random.choice((0.0, 0.3, 0.8))

    def context(self) -> Any:
        pick = self.random
        if pick.random() < 0.1:
            return {"risk": "high", "secret": "open", "items": []}
        if pick.random() < 0.5:
            return {pick.choice(("risk", "ok")): pick.choice(("high", True))}
        if pick.random() < 0.1:
            return pick.choice(VALUES)
        return {pick.choice(FIELDS): pick.choice(VALUES) for _ in range(pick.randrange(3))}

    def arguments(self, name: str) -> dict[str, Any]:
        pick = self.random
        if name.startswith("complete_step"):
            made: dict[str, Any] = {"notes": pick.choice((GOOD, pick.choice(TEXTS))), "context": self.context()}
            if pick.random() < 0.1:
                made |= {"token": 5, "step": "end"}
            return made
        return {pick.choice(("name", "question", "answer", "items", "step")): pick.choice(("x", "error", "approved"))}

    def __call__(self, request: Any) -> Any:  # noqa: PLR0911 - one line for each kind of answer
        pick = self.random
        if "verify the work" in request.system:
            return json.dumps(
                {"assessment": pick.choice(("pass", "retry", "escalate", "ok")), "reasoning": "", "instruction": ""}
            )
        if pick.random() < self.cooperates:
            return self.cooperate(request)
        kind = pick.randrange(8)
        if kind == 0:
            return pick.choice(TEXTS)
        if kind == 1:
            return json.dumps(self.structured())[: pick.randrange(5, 200)]
        if kind == 2:
            return json.dumps(self.structured())
        if kind == 3:
            return [call(pick.choice(NAMES[:6]), pick.choice(("{", "[]", '{"notes": 1}', "null", "")))]
        names = [pick.choice(NAMES) for _ in range(pick.randrange(1, 5))]
        calls = tuple([call(name or "x", **self.arguments(name)) for name in names])
        return Answer(text=pick.choice(TEXTS), calls=calls)

    def structured(self) -> Any:
        pick = self.random
        names = [pick.choice(NAMES) for _ in range(pick.randrange(3))]
        calls = [{"tool": name, "params": self.arguments(name)} for name in names]
        stated = {"thought": "", "tool_calls": calls, "notes": pick.choice(TEXTS), "context": self.context()}
        return stated | {"is_complete": pick.choice((True, False, "true", 1)), "step": "end"}

    def cooperate(self, request: Any) -> Any:
        pick = self.random
        prompts = [text for m in request.messages if (text := getattr(m, "text", "")).startswith("# Step ")]
        step = prompts[-1].split()[2]
        context = {"begin": {"risk": "low"}, "check": {"ok": True}}.get(step, {})
        if not request.tools:
            stated = {"thought": "", "tool_calls": [], "notes": GOOD, "context": context, "is_complete": True}
            return json.dumps(stated)
        done = call("complete_step", notes=GOOD, context=context)
        other = call("complete_step", notes=pick.choice(("ü" * 60, "x" * 50, "x" * 49)), context=context)
        return pick.choice((done, done, done, [done, other], [other, done]))


SETS: dict[str, set[str]] = {"begin": {"risk"}, "check": {"ok"}, "end": set()}


class Oracle:
    """Knows from the model's answers alone which step may be completed: it shares no code with the engine."""

    def __init__(self, hostile: Hostile) -> None:
        self.hostile, self.verdict, self.used = hostile, "", True
        self.answer: Any = None
        self.judged: list[str] = []
        self.problems: list[str] = []

    def __call__(self, request: Any) -> Any:
        made = self.hostile(request)
        if "verify the work" in request.system:
            self.verdict = json.loads(made)["assessment"]
        else:
            self.answer, self.verdict, self.used = made, "", False
        return made

    def judge(self, step: str, notes: str) -> None:
        """Note a problem if the newest answer cannot complete *step*."""
        self.judged.append(step)
        try:
            self._check(step, notes)
        except AssertionError as problem:
            self.problems.append(f"{step}: {problem}: {self.answer}")

    def _check(self, step: str, notes: str) -> None:
        assert not self.used, "two completions"
        self.used = True
        assert len(" ".join(notes.split())) >= 50, "short notes"
        assert step != "end" or self.verdict == "pass", "not verified"
        calls, completion = self._read()
        if completion is None:  # malformed JSON that was repaired
            assert json.dumps(notes)[1:-1] in str(self.answer), "forged notes"
            return
        assert completion["notes"] == notes, "other notes"
        context = completion.get("context") or {}
        assert {name for name in context if context[name] is not None} == SETS[step], "variables"
        for name, arguments in calls:
            assert name == "look" and set(arguments) <= {"name"} and arguments.get("name") != "error", "a call failed"

    def _read(self) -> tuple[list[tuple[str, Any]], Any]:
        """Return the calls of the newest answer and its completion."""
        if isinstance(self.answer, str):
            try:
                stated = json.loads(self.answer)
            except ValueError:
                return [], None
            calls = [(each["tool"], each["params"]) for each in stated["tool_calls"]]
            completions = [arguments for name, arguments in calls if name == "complete_step"]
            assert completions or stated["is_complete"] is True, "not stated"
            return [each for each in calls if each[0] != "complete_step"], completions[0] if completions else stated
        made = self.answer.calls if isinstance(self.answer, Answer) else self.answer
        calls = [(each.name, json.loads(each.arguments)) for each in (made if isinstance(made, Sequence) else [made])]
        completions = [arguments for name, arguments in calls if name == "complete_step"]
        assert completions, "no call of complete_step"
        return [each for each in calls if each[0] != "complete_step"], completions[0]


async def attack(seed: int) -> str:
    """Run one transcript, check what may never happen, and return how the run has ended."""
    mode = "tools" if seed % 2 else "structured"
    oracle = Oracle(Hostile(seed))
    made = AGENTS[mode]
    DEPLOYED.clear()
    model = ScriptedModel(*[oracle] * 120)
    run = ToolOrchestrator(Chat("the release", model=model), made, resources=Resources(deps=oracle))
    done: list[str] = []
    begun: list[str] = []
    async for event in run.stream():
        if isinstance(event, CustomEvent):
            data: Any = event.data
            if event.name == "workflow.completed":
                done.append(data["step"])
                assert done[-1] == begun[-1], (seed, done, begun)
            if event.name == "workflow.step":
                begun.append(data["step"])
                assert data["number"] == len(begun)
    assert run.result is not None
    assert oracle.problems == [], seed
    assert oracle.judged == [step for step in done if step in SETS], seed
    assert done == STEPS[: len(done)], (seed, done)
    assert begun == STEPS[: len(begun)], (seed, begun)
    assert len(DEPLOYED) == done.count("deploy"), seed
    assert (run.result.status == "completed") == (done == STEPS), (seed, done, run.result.status)
    if run.result.status == "completed":
        assert run.result.text == 'shut ["a", "b"] deployed', seed
    for request in model.requests:
        offered = {spec.name for spec in request.tools}
        assert offered <= {"look", "complete_step"}, seed
    return run.result.status


AGENTS: dict[str, AgentConfig[Any]] = {mode: agent(mode) for mode in ("tools", "structured")}
PARTS = [range(200), *[pytest.param(range(n, n + 1_000), marks=pytest.mark.sweep) for n in range(0, 10_000, 1_000)]]


@pytest.mark.parametrize("seeds", PARTS, ids=lambda seeds: f"{seeds.start}-{seeds.stop}")
def test_no_transcript_skips_repeats_forges_or_forgets_a_step(seeds: range) -> None:
    async def attacks() -> list[str]:
        return [await attack(seed) for seed in seeds]

    ends = asyncio.run(attacks())
    assert ends.count("completed") > len(seeds) // 50  # the attacks reach the end
    assert ends.count("failed") > len(seeds) // 50
