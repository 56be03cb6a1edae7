"""Each faulty agent is found, with the class of its fault, the events and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig
from concertino.testing import AgentFaultError, check_agent

from . import faulty_effects, faulty_runs, faulty_values
from .kit import FAULTY

assert faulty_effects and faulty_runs and faulty_values  # they register their agents
AGENTS = [(kind, agent) for kind, agents in FAULTY.items() for agent in agents]


@pytest.mark.parametrize(("kind", "agent"), AGENTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_faulty_agent_is_found(kind: str, agent: type[AgentConfig[Any]]) -> None:
    with pytest.raises(AgentFaultError) as found:
        check_agent(agent(), cases=200, hook_seconds=0.5 if agent is faulty_runs.WaitsForever else 60.0)
    faults = {fault.kind: fault for fault in found.value.faults}
    assert kind in faults, str(found.value)
    assert faults[kind].events  # type: ignore[index]
    assert faults[kind].remedy in str(found.value)  # type: ignore[index]
