"""`RunTree`: what a run looks like at this moment, from its events alone. It draws nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from ...events import (
    AttemptFailed,
    CacheMiss,
    CallWaiting,
    ContextEdited,
    Notice,
    ReasoningDelta,
    RunEnded,
    RunEvent,
    RunStarted,
    RunStatus,
    Steered,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    ToolDone,
    ToolFailed,
    ToolProgress,
    ToolsSelected,
    ToolStarted,
    ToolStreamed,
    TurnCompleted,
    UsageRecorded,
)
from ...usage import Totals, UsageRecord, total
from .format import about, one_line, waits_for

State = Literal["running", "waiting"] | RunStatus


@dataclass(slots=True, eq=False)
class CallNode:
    """A call of a tool."""

    name: str
    about: str
    state: State = "running"
    news: str = ""
    """The newest of its progress; for a failed call the error."""


@dataclass(slots=True, eq=False)
class AgentNode:
    """An agent at work."""

    run_id: str
    name: str
    """The last element of its path."""
    task: str
    started: float
    state: State = "running"
    ended: float | None = None
    activity: str = "starting"
    model: str = ""
    text: list[str] = field(default_factory=list)
    """The pieces of what it says in this step."""
    usage: list[UsageRecord] = field(default_factory=list)
    """Its own records, without those of its sub-agents."""
    parts: list[CallNode | AgentNode] = field(default_factory=list)
    """Its calls and its sub-agents, in the order of their beginning."""
    notes: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def used(self) -> Totals:
        """Its own tokens and money."""
        return total(self.usage)


class RunTree:
    """Agents below their parents, each with its calls. A call that a sub-agent works on is shown as that agent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.root: AgentNode | None = None
        self._clock = clock
        self._agents: dict[str, AgentNode] = {}
        self._paths: dict[str, AgentNode] = {}
        self._calls: dict[tuple[str, str], CallNode] = {}
        self._usage: dict[str, UsageRecord] = {}

    @property
    def totals(self) -> Totals:
        """Tokens and money of all agents together."""
        return total(self._usage.values())

    def elapsed(self, agent: AgentNode) -> float:
        """Seconds that *agent* has worked, or had worked when it ended."""
        return (self._clock() if agent.ended is None else agent.ended) - agent.started

    def see(self, event: RunEvent) -> None:  # noqa: C901 - a case each
        """Take *event* in."""
        match event:
            case RunStarted():
                self._start(event)
            case RunEnded():
                self._end(event)
            case UsageRecorded():
                self._book(event.record)
            case ToolStarted() | ToolProgress() | ToolStreamed() | CallWaiting() | ToolDone() | ToolFailed():
                self._see_tool(event)
            case ContextEdited():
                told = f"older parts made shorter: {event.before:,} to {event.after:,} tokens"
                self._agents[event.run_id].notes.append(told)
            case CacheMiss():
                told = f"{event.expected - event.cached:,} tokens were not found in the cache: {event.reason}"
                self._agents[event.run_id].notes.append(told)
            case Notice():
                self._agents[event.run_id].notes.append(one_line(event.text))
            case AttemptFailed():
                self._agents[event.run_id].notes.append(f"asking again: {one_line(event.error)}")
            case Steered():
                self._agents[event.run_id].notes.append(f"told: {one_line(event.text)}")
            case StepStarted() | TextDelta() | ReasoningDelta() | ToolCallDelta() | TurnCompleted() | ToolsSelected():
                _think(self._agents[event.run_id], event)
            case _:
                assert_never(event)

    def _start(self, event: RunStarted) -> None:
        agent = AgentNode(event.run_id, event.agent_path.rpartition("/")[2], one_line(event.task), self._clock())
        self._agents[event.run_id] = agent
        self._paths[event.agent_path] = agent
        parent = self._paths.get(event.agent_path.rpartition("/")[0])
        if parent is None:
            self.root = agent
            return
        call = self._calls.get((parent.run_id, event.parent_call or ""))
        if call in parent.parts:
            parent.parts.remove(call)  # its agent stands for it
        parent.parts.append(agent)

    def _end(self, event: RunEnded) -> None:
        agent = self._agents[event.run_id]
        agent.error = one_line(event.result.error or "")
        for record in event.result.usage:  # what a cancelled run booked at last has no event any more
            self._book(record)
        self._close(agent, event.result.status)

    def _close(self, agent: AgentNode, status: RunStatus) -> None:
        """*agent* and all that it has left behind: suspended as it is, or cancelled."""
        agent.state, agent.ended = status, self._clock()
        left: RunStatus = "suspended" if status == "suspended" else "cancelled"
        for part in agent.parts:
            if part.state == "running" and isinstance(part, AgentNode):
                self._close(part, left)
            elif part.state == "running" or (part.state == "waiting" and left == "cancelled"):
                part.state = left

    def _book(self, record: UsageRecord) -> None:
        if record.id not in self._usage:
            self._usage[record.id] = record
            if record.run_id in self._agents:
                self._agents[record.run_id].usage.append(record)

    def _see_tool(self, event: ToolStarted | ToolProgress | ToolStreamed | CallWaiting | ToolDone | ToolFailed) -> None:
        key = (event.run_id, event.call_id)
        if isinstance(event, ToolStarted):
            self._calls[key] = CallNode(event.name, about(event.arguments))
            self._agents[event.run_id].parts.append(self._calls[key])
            return
        call = self._calls.get(key)
        if call is None:  # refused before it began
            call = self._calls[key] = CallNode(event.name, "")
            self._agents[event.run_id].parts.append(call)
        match event:
            case ToolProgress():
                call.news = _newest(event.step, call.about)
            case ToolStreamed():
                call.news = "streaming"
            case CallWaiting():
                call.state, call.news = "waiting", waits_for(event.kind)
            case ToolDone():
                call.state = "completed"
            case ToolFailed():
                call.state, call.news = "failed", one_line(event.error)


def _think(
    agent: AgentNode,
    event: StepStarted | TextDelta | ReasoningDelta | ToolCallDelta | TurnCompleted | ToolsSelected,
) -> None:
    match event:
        case StepStarted():
            agent.activity, agent.model = "waiting for the model", event.model
            agent.text.clear()
        case TextDelta():
            agent.activity = "writing"
            agent.text.append(event.text)
        case ReasoningDelta():
            agent.activity = "thinking"
        case ToolCallDelta():
            agent.activity = "choosing tools"
        case ToolsSelected():
            agent.activity = ""  # its calls are shown
        case TurnCompleted():
            pass


def _newest(step: dict[str, Any], about: str) -> str:
    parts = [one_line(str(part)) for part in step.get("parts", ())]
    if parts and parts[-1] != about:
        return parts[-1]
    return "" if step.get("ended") or parts else one_line(str(step.get("name", "")))
