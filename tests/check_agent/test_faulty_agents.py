"""Each faulty agent is found, with the class of its fault, the events and the remedy."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from concertino import AgentConfig
from concertino.testing import AgentFaultError, FaultClass, check_agent

from . import faulty_effects, faulty_hidden, faulty_runs, faulty_together, faulty_values
from .kit import FAULTY

assert (
    faulty_effects and faulty_hidden and faulty_runs and faulty_together and faulty_values
)  # they register their agents
AGENTS = [(kind, agent) for kind, agents in FAULTY.items() for agent in agents]
CASES = [
    pytest.param(
        kind, agent, id=f"{kind}-{agent.__name__}", marks=[] if agent in FAULTY[kind][:1] else pytest.mark.slow
    )
    for kind, agent in AGENTS
]
"""The first agent of each class is found in each run of the tests, the others in the slow ones."""


def test_each_class_has_five_faulty_agents() -> None:
    assert set(FAULTY) == set(get_args(FaultClass))
    assert min(map(len, FAULTY.values())) >= 5


@pytest.mark.parametrize(("kind", "agent"), CASES)
def test_a_faulty_agent_is_found(kind: FaultClass, agent: type[AgentConfig[Any]]) -> None:
    with pytest.raises(AgentFaultError) as found:
        check_agent(agent(), cases=100, hook_seconds=0.5 if agent is faulty_runs.WaitsForever else 60.0)
    faults = {fault.kind: fault for fault in found.value.faults}
    assert kind in faults, str(found.value)
    assert f"events: {faults[kind].events[0] if faults[kind].events else 'the run starts'}" in str(found.value)
    assert faults[kind].remedy in str(found.value)
