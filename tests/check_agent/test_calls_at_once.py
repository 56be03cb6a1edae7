"""What `check_agent` finds if the model makes the same call twice at once."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import Allow, Ask, AssistantMessage, ToolCall
from concertino.testing import AgentFaultError, check_agent

from .kit import Base


class AsksOncePerTurn(Base):
    """Asks a person about the first of equal calls of a turn, and allows the others meanwhile."""

    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        turn = next(each for each in reversed(run.messages) if isinstance(each, AssistantMessage))
        first = next(each for each in turn.tool_calls if (each.name, each.arguments) == (call.name, call.arguments))
        return Ask(note="pay?") if first.id == call.id else Allow()


@pytest.mark.slow
def test_the_second_of_two_equal_calls_must_not_pass_while_the_first_waits() -> None:
    with pytest.raises(AgentFaultError) as found:
        check_agent(AsksOncePerTurn(), cases=100)
    (fault,) = found.value.faults
    assert (fault.kind, fault.events[0]) == ("approval", "the model makes the same call twice at once of look")
    assert "allows the same call of look that still waits for a person" in fault.problem
