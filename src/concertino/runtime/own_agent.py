"""Agents of the runtime itself."""

from __future__ import annotations

from typing import Any

from ..orchestrator.agent import AgentConfig
from ..orchestrator.journal.data_policy import DataPolicy


class OwnAgent(AgentConfig[Any]):
    """An agent of the runtime itself, under the data *policy* of the agent that it works for."""

    def __init__(self, policy: DataPolicy) -> None:
        self._policy = policy

    def get_data_policy(self) -> DataPolicy:
        """Return the policy of the agent that it works for."""
        return self._policy
