"""The base of the protocols that show a turn with its sub-agents."""

from __future__ import annotations

from ...events import RunStarted
from .log_pieces import LogPieces


class TurnStream:
    """Maps the log of one turn. Its subclasses make the chunks or events of their protocol."""

    def __init__(self, root_id: str) -> None:
        self._root_id = root_id
        self._pieces = LogPieces(root_id)
        self._paths: dict[str, str] = {}
        """The last run of each path of an agent."""

    def _parent(self, event: RunStarted) -> str:
        """Note that a run starts, and return the run above it."""
        self._paths[event.agent_path] = event.run_id
        return self._paths.get(event.agent_path.rpartition("/")[0], self._root_id)

    def _call_id(self, run_id: str, call_id: str) -> str:
        """Return the id of a call in the stream: two sub-agents may have calls of the same id."""
        return call_id if run_id == self._root_id else f"{run_id}:{call_id}"
