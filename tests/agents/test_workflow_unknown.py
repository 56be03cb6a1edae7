"""A `once` call of the engine that a process left behind: a person states what has happened, and it is not repeated."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from concertino import RunResult, tool
from concertino.agents import PlannedStep, ScriptedStep, Workflow, WorkflowAgent

from .workflow_kit import ANN, NOTES, FlowFailed, Office

PLAN = json.dumps(
    {
        "items": [
            {"tool": "ship", "params": {"version": "2"}, "expected_outcome": "it is shipped"},
            {"tool": "complete_step", "params": {}, "expected_outcome": ""},
        ]
    }
)
SUMMARY = json.dumps({"notes": NOTES, "context": {}, "unmet": []})
STEPS: dict[str, PlannedStep | ScriptedStep] = {
    "planned": PlannedStep(id="step", prompt="Ship it.", tools=("ship",), output="done"),
    "scripted": ScriptedStep(id="step", tool="ship", arguments={"version": "2"}, output="done"),
    "asking": ScriptedStep(id="step", tool="ship", arguments={"version": "2"}, output="done", on_error="ask"),
    "continuing": ScriptedStep(id="step", tool="ship", arguments={"version": "2"}, output="done", on_error="continue"),
}


class Interrupted(Office):
    """An office whose process ends while the first `ship` runs."""

    def __init__(self, kind: str, *script: Any) -> None:
        self.shipped: list[str] = []
        begun, never = asyncio.Event(), asyncio.Event()

        @tool(effect="once")
        async def ship(version: str) -> str:
            """Ship a version."""
            self.shipped.append(version)
            if len(self.shipped) == 1:
                begun.set()
                await never.wait()
            return f"shipped {version}"

        self.begun = begun
        flow = Workflow(name="flow", steps=[STEPS[kind]], answer="$done")
        super().__init__(flow, *script, agent=WorkflowAgent(flow, [ship]))

    async def interrupt(self) -> RunResult:
        """End the process while the call runs; return the result of the next process."""
        starting = asyncio.create_task(self.start())
        await self.begun.wait()
        await self.restart()
        run_id = (await starting).run_id
        self.result = await (await self.runtime.resume(ANN, run_id)).result()
        return self.result


@pytest.mark.parametrize("kind", ["planned", "scripted", "asking"])
async def test_a_person_states_the_result_and_the_call_does_not_run_again(kind: str) -> None:
    script = [PLAN, SUMMARY] if kind == "planned" else []
    async with Interrupted(kind, *script) as office:
        waiting = (await office.interrupt()).waiting[0]
        assert "Has this call happened" in waiting.note
        assert 'ship {"version": "2"}' in waiting.note
        result = await office.answer(answer="version 2 is out")
        assert result.text == (NOTES if kind == "planned" else "version 2 is out")
        assert office.shipped == ["2"]
        if kind == "planned":
            assert "Result: version 2 is out" in office.model.requests[1].messages[-1].text


async def test_a_plain_approval_means_that_it_has_happened() -> None:
    async with Interrupted("scripted") as office:
        await office.interrupt()
        assert (await office.answer()).text == "it has happened, as a person states"


async def test_what_has_not_happened_is_planned_or_tried_again_or_fails() -> None:
    async with Interrupted("planned", PLAN, PLAN, SUMMARY) as office:
        await office.interrupt()
        assert (await office.deny("nothing is out")).status == "completed"
        assert "nothing is out" in office.model.requests[1].messages[-1].text
        assert office.shipped == ["2", "2"]
    async with Interrupted("asking") as office:
        await office.interrupt()
        assert (await office.deny("nothing is out")).text == "shipped 2"
    async with Interrupted("scripted") as office:
        await office.interrupt()
        with pytest.raises(FlowFailed, match="nothing is out"):
            await office.deny("nothing is out")
        assert office.shipped == ["2"]


async def test_a_step_that_continues_after_errors_asks_nobody() -> None:
    async with Interrupted("continuing") as office:
        assert (await office.interrupt()).status == "completed"
        assert office.shipped == ["2"]
