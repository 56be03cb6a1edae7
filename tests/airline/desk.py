"""The airline's desk: its tools, and the agent that has them."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import Any

from concertino import AgentConfig, Done, NotDone, Tool, ToolContext

from .airline import Airline

Json = dict[str, Any]

READS = frozenset(
    {
        "calculate",
        "get_flight_status",
        "get_reservation_details",
        "get_user_details",
        "list_all_airports",
        "search_direct_flight",
        "search_onestop_flight",
        "transfer_to_human_agents",
    }
)
"""The tools that change nothing. A user may be handed over twice as well as once."""


@dataclass
class Desk:
    """Serves calls, and keeps by their keys what came of those that change something: a service that knows what it did.

    *ends_at* is the call at which a process is to end: it gets no answer, and `reached` is set. *after* says whether
    the work of that call was done before.
    """

    airline: Airline
    ends_at: int = 0
    after: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    calls: int = 0
    outcomes: dict[str, Any] = field(default_factory=dict)

    async def serve(self, tool: Tool, arguments: Json, key: str) -> Any:
        """The outcome of a call."""
        self.calls += 1
        ends = self.calls == self.ends_at
        if ends and not self.after:
            await self._end()
        outcome = copy.deepcopy(getattr(self.airline, tool.name)(**copy.deepcopy(arguments)))
        if tool.effect == "once":
            assert key not in self.outcomes, f"{key} was done twice"
            self.outcomes[key] = outcome
        if ends:
            await self._end()
        return outcome

    async def _end(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


class DeskTool(Tool):
    """A tool in its published form; the desk in `Chat(deps=...)` does the work."""

    def __init__(self, published: Json) -> None:
        self.name = published["name"]
        self.description = published["description"]
        self.parameters = published["parameters"]
        self.effect = "read" if self.name in READS else "once"

    async def execute(self, arguments: Json, context: ToolContext) -> Any:
        """See `Tool.execute`."""
        desk: Desk = context.deps
        return await desk.serve(self, arguments, context.key)

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone:
        """See `Tool.probe`: the desk knows what it did."""
        desk: Desk = context.deps
        return Done(desk.outcomes[key]) if key in desk.outcomes else NotDone()


def agent(policy: str, published: list[Json], *, parallel: bool = True) -> AgentConfig[None]:
    """The airline's agent, with all its tools."""
    made: AgentConfig[None] = AgentConfig()
    made.name = "airline"
    made.prompt = policy
    made.tools = [DeskTool(tool["function"]) for tool in published]
    made.use_parallel_tools = parallel
    return made
