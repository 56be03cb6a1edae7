"""The state of a run and its sub-agents at one moment, built from events alone. `live` draws it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
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
from ...records import record
from ...usage import Totals, UsageRecord, total
from .format import event_note, one_line, subject, waits_for

NodeState = Literal["running", "waiting"] | RunStatus


@record(frozen=False, eq=False)
class CallNode:
    """A tool call."""

    name: str
    subject: str
    state: NodeState = "running"
    news: str = ""
    """The latest progress; the error of a failed call."""


@record(frozen=False, eq=False)
class AgentNode:
    """The run of one agent."""

    run_id: str
    name: str
    """The last element of the agent's path."""
    task: str
    started: float
    state: NodeState = "running"
    ended: float | None = None
    activity: str = "starting"
    model: str = ""
    text: list[str] = field(default_factory=list)
    """The pieces of the current step's answer."""
    usage: list[UsageRecord] = field(default_factory=list)
    """The run's own records, without its sub-agents'."""
    children: list[CallNode | AgentNode] = field(default_factory=list)
    """Tool calls and sub-agents, in the order of their start."""
    notes: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def used(self) -> Totals:
        """The run's own tokens and cost."""
        return total(self.usage)


class RunTree:
    """Agents below their parents, each with its tool calls. A sub-agent replaces the call that started it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.root: AgentNode | None = None
        self._clock = clock
        self._agents: dict[str, AgentNode] = {}
        self._paths: dict[str, AgentNode] = {}
        self._calls: dict[tuple[str, str], CallNode] = {}
        self._usage: dict[str, UsageRecord] = {}

    @property
    def totals(self) -> Totals:
        """Tokens and cost of all agents together."""
        return total(self._usage.values())

    def elapsed(self, agent: AgentNode) -> float:
        """Return the seconds from *agent*'s start to its end, or until now."""
        return (self._clock() if agent.ended is None else agent.ended) - agent.started

    def update(self, event: RunEvent) -> None:
        """Apply *event*."""
        match event:
            case RunStarted():
                self._start(event)
            case RunEnded():
                self._end(event)
            case UsageRecorded():
                self._book(event.record)
            case ToolStarted() | ToolProgress() | ToolStreamed() | CallWaiting() | ToolDone() | ToolFailed():
                self._update_call(event)
            case AttemptFailed() | CacheMiss() | ContextEdited() | Notice() | Steered():
                self._agents[event.run_id].notes.append(event_note(event))
            case StepStarted() | TextDelta() | ReasoningDelta() | ToolCallDelta() | TurnCompleted() | ToolsSelected():
                _update_activity(self._agents[event.run_id], event)
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
        if call in parent.children:
            parent.children.remove(call)
        parent.children.append(agent)

    def _end(self, event: RunEnded) -> None:
        agent = self._agents[event.run_id]
        agent.error = one_line(event.result.error or "")
        for usage_record in event.result.usage:  # a cancelled run books its last attempt without an event
            self._book(usage_record)
        self._close(agent, event.result.status)

    def _close(self, agent: AgentNode, status: RunStatus) -> None:
        """End *agent*; everything open below it is suspended with it, or cancelled."""
        agent.state, agent.ended = status, self._clock()
        left: RunStatus = "suspended" if status == "suspended" else "cancelled"
        for child in agent.children:
            if child.state == "running" and isinstance(child, AgentNode):
                self._close(child, left)
            elif child.state == "running" or (child.state == "waiting" and left == "cancelled"):
                child.state = left

    def _book(self, record: UsageRecord) -> None:
        if record.id not in self._usage:
            self._usage[record.id] = record
            if record.run_id in self._agents:
                self._agents[record.run_id].usage.append(record)

    def _update_call(
        self, event: ToolStarted | ToolProgress | ToolStreamed | CallWaiting | ToolDone | ToolFailed
    ) -> None:
        key = (event.run_id, event.call_id)
        if isinstance(event, ToolStarted):
            self._calls[key] = CallNode(event.name, subject(event.arguments))
            self._agents[event.run_id].children.append(self._calls[key])
            return
        call = self._calls.get(key)
        if call is None:  # rejected before it started
            call = self._calls[key] = CallNode(event.name, "")
            self._agents[event.run_id].children.append(call)
        match event:
            case ToolProgress():
                call.news = _newest(event.step, call.subject)
            case ToolStreamed():
                call.news = "streaming"
            case CallWaiting():
                call.state, call.news = "waiting", waits_for(event.kind)
            case ToolDone():
                call.state = "completed"
            case ToolFailed():
                call.state, call.news = "failed", one_line(event.error)


def _update_activity(
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


def _newest(step: dict[str, Any], subject: str) -> str:
    parts = [one_line(str(part)) for part in step.get("parts", ())]
    if parts and parts[-1] != subject:
        return parts[-1]
    return "" if step.get("ended") or parts else one_line(str(step.get("name", "")))
