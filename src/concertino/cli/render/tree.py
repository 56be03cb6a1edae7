"""The state of a run and its sub-agents at one moment, built from events alone. `live` draws it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal

from ... import events
from ...records import record
from ...usage import Totals, UsageRecord, total
from .format import event_note, one_line, subject, waits_for
from .worker_events import worker_note
from .workflow_events import workflow_note

NodeState = Literal["running", "waiting"] | events.RunStatus
CallEvent = events.ToolProgress | events.ToolStreamed | events.CallWaiting | events.ToolDone | events.ToolFailed


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

    def update(self, event: events.RunEvent) -> None:
        """Apply *event*."""
        match event:
            case events.RunStarted():
                self._start(event)
            case events.RunEnded():
                self._end(self._agents[event.run_id], event.result)
            case events.UsageRecorded():
                self._book(event.record)
            case events.ToolStarted():
                self._add_call(event, subject(event.arguments))
            case (
                events.ToolProgress()
                | events.ToolStreamed()
                | events.CallWaiting()
                | events.ToolDone()
                | events.ToolFailed()
            ):
                call = self._calls.get((event.run_id, event.call_id))
                _update_call(call or self._add_call(event, ""), event)  # a rejected call has not started
            case _:
                _update_agent(self._agents[event.run_id], event)

    def _start(self, event: events.RunStarted) -> None:
        above, _, name = event.agent_path.rpartition("/")
        agent = AgentNode(event.run_id, name, one_line(event.task), self._clock())
        self._agents[event.run_id] = self._paths[event.agent_path] = agent
        parent = self._paths.get(above)
        if parent is None:
            self.root = agent
            return
        call = self._calls.get((parent.run_id, event.parent_call or ""))
        if call in parent.children:
            parent.children.remove(call)
        parent.children.append(agent)

    def _end(self, agent: AgentNode, result: events.RunResult) -> None:
        agent.error = one_line(result.error or "")
        for usage_record in result.usage:  # a cancelled run books its last attempt without an event
            self._book(usage_record)
        self._close(agent, result.status)

    def _close(self, agent: AgentNode, status: events.RunStatus) -> None:
        """End *agent*; everything open below it is suspended with it, or cancelled."""
        agent.state, agent.ended = status, self._clock()
        left: events.RunStatus = "suspended" if status == "suspended" else "cancelled"
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

    def _add_call(self, event: events.ToolStarted | CallEvent, subject: str) -> CallNode:
        call = self._calls[event.run_id, event.call_id] = CallNode(event.name, subject)
        self._agents[event.run_id].children.append(call)
        return call


def _update_call(call: CallNode, event: CallEvent) -> None:
    match event:
        case events.ToolProgress():
            call.news = _newest(event.step, call.subject)
        case events.ToolStreamed():
            call.news = "streaming"
        case events.CallWaiting():
            call.state, call.news = "waiting", waits_for(event.kind)
        case events.ToolDone():
            call.state = "completed"
        case events.ToolFailed():
            call.state, call.news = "failed", one_line(event.error)


def _update_agent(agent: AgentNode, event: events.RunEvent) -> None:
    match event:
        case events.StepStarted():
            agent.activity = "waiting for the model" if event.model else "calling tools"
            agent.text.clear()
        case events.TextDelta():
            agent.activity = "writing"
            if event.audience == "answer":
                agent.text.append(event.text)
        case events.ReasoningDelta():
            agent.activity = "thinking"
        case events.ToolCallDelta():
            agent.activity = "choosing tools"
        case events.ToolsSelected():
            agent.activity = ""  # its calls are shown
        case events.CustomEvent():
            if note := worker_note(event) or workflow_note(event):
                agent.notes.append(note)
        case events.AttemptFailed() | events.CacheMiss() | events.ContextEdited() | events.Notice() | events.Steered():
            agent.notes.append(event_note(event))


def _newest(step: dict[str, Any], subject: str) -> str:
    parts = [one_line(str(part)) for part in step.get("parts", ())]
    if parts and parts[-1] != subject:
        return parts[-1]
    return "" if step.get("ended") or parts else one_line(str(step.get("name", "")))
