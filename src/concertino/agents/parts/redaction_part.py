"""The part that keeps text that matches patterns out of a run."""

from __future__ import annotations

from ...orchestrator.agent import Part
from ...orchestrator.journal.data_policy import DataPolicy
from ...orchestrator.journal.patterns import EMAIL, Pattern


class TextRedaction(Part):
    """Keeps text that matches *patterns* out of a run and its sub-agents: out of requests, stores, events and logs.

    The default is `EMAIL`. Tools get redacted arguments too: a tool that needs an address takes it from `deps`.
    """

    def __init__(self, *patterns: Pattern) -> None:
        self._policy = DataPolicy(patterns=patterns or (EMAIL,))

    def get_data_policy(self) -> DataPolicy:
        """Return a policy with the patterns."""
        return self._policy
