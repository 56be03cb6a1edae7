"""Goals with a judge: an agent continues until a checked condition is met or its limits end the run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..errors import ConfigurationError, LimitReason
from ..messages import SystemMessage
from ..number_checks import check_whole
from ..orchestrator.agent import AgentConfig, Part
from ..orchestrator.outcome import Continue, Finish, NextStep
from ..orchestrator.run import RunContext
from ..records import record
from ..tools.base import Tool

_VERDICT = {
    "title": "verdict",
    "type": "object",
    "properties": {"met": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["met", "reason"],
    "additionalProperties": False,
}
_SYSTEM = "You judge whether a goal is reached, by what the conversation shows and not by what the agent claims."
GoalCheck = Callable[[RunContext[Any]], bool | Awaitable[bool]]
"""A function of the run that states whether the goal is reached."""


@record(frozen=False)
class GoalState:
    """The answers that were judged, and the result."""

    rounds: int = 0
    reached: bool = False
    reason: str = ""
    """The reason why the last answer did not count."""


class GoalAgent(AgentConfig[GoalState]):
    """An agent whose answer counts only if its goal is reached.

    *check* decides, for example by running the tests; without one, a judge model reads the conversation. After *rounds*
    refused answers, or at a limit or budget, the run ends, and its answer states that the goal is not reached. Raises
    `ConfigurationError` if a setting is invalid.
    """

    def __init__(
        self,
        name: str,
        goal: str,
        *,
        prompt: str = "",
        tools: Sequence[Tool] = (),
        parts: Sequence[Part] = (),
        check: GoalCheck | None = None,
        judge_model: str | None = None,
        rounds: int = 10,
    ) -> None:
        if not goal.strip():
            raise ConfigurationError(f"GoalAgent(goal={goal!r}): state the condition of the goal")
        check_whole("GoalAgent", "rounds", rounds)
        self.name, self.goal, self.rounds = name, goal, rounds
        self.prompt = f"{prompt}\n\n# Goal\n{goal}".strip()
        self.tools, self.parts = tuple(tools), tuple(parts)
        self._check, self._judge_model = check, judge_model

    def initialize_agent_state(self, run: RunContext[GoalState]) -> GoalState:
        """Return a state without answers."""
        return GoalState()

    async def on_no_tool_calls(self, run: RunContext[GoalState]) -> NextStep:
        """Judge the answer: finish, or continue with the reason why the goal is not reached."""
        state = run.agent_state
        state.rounds += 1
        state.reached, state.reason = await self._judged(run)
        run.emit("goal.judged", {"round": state.rounds, "reached": state.reached, "reason": state.reason[:2_000]})
        if state.reached:
            return Finish()
        if state.rounds >= self.rounds:
            return Finish(self._missed(run, f"after {state.rounds} rounds"))
        return Continue(messages=(SystemMessage(f"The goal is not reached: {state.reason} Continue."),))

    def on_limit(self, run: RunContext[GoalState], reason: LimitReason) -> NextStep:
        """End with the statement that the goal is not reached."""
        return Finish(self._missed(run, f"a limit was reached: {reason}"))

    async def _judged(self, run: RunContext[GoalState]) -> tuple[bool, str]:
        if self._check is not None:
            met = self._check(run)
            met = await met if inspect.isawaitable(met) else met
            return bool(met), "" if met else f"the check of {self.goal!r} fails."
        question = (*run.messages, SystemMessage(f"Goal: {self.goal}\nIs it reached?"))
        verdict = await run.ask(question, system=_SYSTEM, output_type=_VERDICT, model=self._judge_model or run.model_id)
        return verdict["met"], verdict["reason"]

    def _missed(self, run: RunContext[GoalState], why: str) -> str:
        return f"The goal is not reached ({why}). {run.agent_state.reason} {run.state.text}".strip()
