"""Goals with a judge: an answer counts once a check or a judge accepts it, and a missed goal is stated."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import Chat, RunContext, RunResult, ToolOrchestrator, tool
from concertino.agents import GoalAgent, GoalState
from concertino.errors import ConfigurationError
from concertino.testing import ScriptedModel, call

counted: list[int] = []


@tool(effect="read")
async def count() -> int:
    """Count."""
    counted.append(1)
    return len(counted)


async def play(agent: GoalAgent, *script: Any) -> tuple[RunResult, list[Any]]:
    with ScriptedModel(*script) as model:
        result = await ToolOrchestrator(Chat("Go", model=model), agent).run()
    return result, model.requests


def goal(**settings: Any) -> GoalAgent:
    return GoalAgent("goal", "The count is 2.", tools=(count,), **settings)


def met(run: RunContext[GoalState]) -> bool:
    return len(counted) == 2


async def met_later(run: RunContext[GoalState]) -> bool:
    return met(run)


@pytest.mark.parametrize("check", [met, met_later])
async def test_a_check_decides(check: Any) -> None:
    counted.clear()
    result, requests = await play(goal(check=check), call("count"), "It is 2.", call("count"), "Now it is 2.")
    assert result.text == "Now it is 2."
    assert requests[2].messages[-1].text == "The goal is not reached: the check of 'The count is 2.' fails. Continue."


async def test_a_judge_decides_and_a_missed_goal_is_stated() -> None:
    verdict = '{"met": false, "reason": "Nothing was counted."}'
    result, _ = await play(goal(rounds=2), "2", verdict, "2, really", verdict)
    assert result.text == "The goal is not reached (after 2 rounds). Nothing was counted. 2, really"


async def test_a_limit_ends_the_work_on_a_goal() -> None:
    counted.clear()
    agent = goal(check=lambda _: False)
    agent.tool_call_limit = 3
    result, _ = await play(agent, call("count"), call("count"))
    assert result.text.startswith("The goal is not reached (a limit was reached: tool_calls)")


@pytest.mark.parametrize("settings", [{"goal": " "}, {"goal": "x", "rounds": 0}])
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="GoalAgent"):
        GoalAgent("goal", **settings)
