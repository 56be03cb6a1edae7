"""A turn as the page shows it, built from the events of its log: texts, calls, approvals and sub-agents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Literal

from ...events import (
    AttemptFailed,
    CallWaiting,
    Event,
    RunEnded,
    RunEvent,
    RunProgress,
    RunStarted,
    StepStarted,
    ToolDone,
    ToolFailed,
    ToolProgress,
    ToolStarted,
    ToolStreamed,
    UsageRecorded,
)
from ...runtime.question import DECLINED
from ...tools.builtin.research import SEARCH_TOOLS
from ...waits import is_denial
from ..protocols.log_pieces import ERASED, NOT_FINISHED, LogPieces, Piece
from ..protocols.values import sources_of
from .markup import Citations, MarkdownBlocks, without_sources
from .turn_items import (
    AgentItem,
    AgentState,
    CallItem,
    ChangedItems,
    LineItem,
    MediaItem,
    ReportItem,
    TextItem,
    draft,
    line_of,
)


class TurnView(ChangedItems):
    """The state of one turn at one moment."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(turn_id)
        self.agents: dict[str, AgentItem] = {}
        """By run id; the first is the root."""
        self.citations = Citations(f"source-{turn_id}")
        self._draft_citations = Citations(known=self.citations.known)
        self.over = False
        self._pieces = LogPieces(turn_id)
        self._calls: dict[tuple[str, str], CallItem] = {}
        self._paths: dict[str, str] = {}
        """Run ids by agent path."""
        self._number = 0

    @property
    def root(self) -> AgentItem | None:
        """The turn's own agent."""
        return self.agents.get(self.turn_id)

    @property
    def waiting(self) -> Iterator[CallItem]:
        """The calls that wait for an approval."""
        return (call for call in self._calls.values() if call.waits is not None and call.state == "waiting")

    @property
    def has_answer(self) -> bool:
        """True if there is a text for the user."""
        return any(isinstance(item, TextItem | ReportItem) and not draft(item) for item in self.items.values())

    def take(self, number: int, event: RunEvent) -> None:
        """Apply the event with this number in the log."""
        self._number = number
        if isinstance(event, AttemptFailed):  # the pieces of its answer become void, and nothing else remains of it
            self._line(event, "notice", f"The model call failed and is tried again: {event.error}")
        for change in self._pieces.take(number, event):
            if isinstance(change, Piece):
                self._piece(change)
            else:
                self._event(change)

    def show_answer(self, text: str) -> None:
        """Show an answer that no event has."""
        self._text_piece(Piece(self.turn_id, "text", "answer", "end", text))

    def settle(self, states: Mapping[str, AgentState]) -> None:
        """Take the ends of sub-agents from the store: the data policy may erase their events before they are read."""
        for agent in self.agents.values():
            if agent.state == "ended":
                agent.state = states.get(agent.run_id, "ended")
        for call in self._calls.values():
            if call.state == "ended" and call.agent is not None and call.agent.state in ("completed", "failed"):
                call.state = "completed" if call.agent.state == "completed" else "failed"
                self._touch(call.id)
        self._touch("agents")

    # -- pieces --------------------------------------------------------------------------------------------------

    def _piece(self, piece: Piece) -> None:
        if piece.kind == "call":
            self._call_piece(piece)
        elif piece.kind == "media":
            if piece.media is not None:
                self._add(MediaItem(self._id("media", piece.id), self._flow(piece.run_id), piece.media))
        elif piece.audience != "internal":
            self._text_piece(piece)

    def _text_piece(self, piece: Piece) -> None:
        id = self._id(piece.kind, piece.id)
        if piece.phase == "void":
            self._drop(id)
            return
        item = self.items.get(id)
        if item is None:
            kind: Literal["text", "reasoning"] = "text" if piece.kind == "text" else "reasoning"
            is_draft = piece.audience != "answer"
            citations = self._draft_citations if is_draft else self.citations
            item = TextItem(id, self._flow(piece.run_id), kind, is_draft, MarkdownBlocks(citations))
            self._add(item)
        assert isinstance(item, TextItem)
        if piece.phase == "delta":
            item.text += piece.text
        elif piece.phase == "end":
            item.text, item.ended = piece.text or item.text, True
            if not draft(item):  # a report that a tool has handed in before is the same text
                for report in [each for each in self.items.values() if isinstance(each, ReportItem)]:
                    if report.whole.strip() == item.text.strip():
                        self._drop(report.id)
                item.text = without_sources(item.text, self.citations)
        self._touch(id)
        self._activity(piece.run_id, "writing" if piece.kind == "text" else "thinking")

    def _call_piece(self, piece: Piece) -> None:
        key = (piece.run_id, piece.id)
        if piece.phase == "void":
            if (void := self._calls.pop(key, None)) is not None:
                self._drop(void.id)
            return
        call = self._call(piece.run_id, piece.id, piece.name)
        if piece.phase == "delta" and call.state == "writing":
            call.arguments += piece.text
        elif piece.phase == "end":
            call.arguments = piece.text or call.arguments
        self._touch(call.id)

    def _call(self, run_id: str, call_id: str, name: str) -> CallItem:
        if (run_id, call_id) not in self._calls:
            id = self._id("call", f"{run_id}-{call_id}")
            made = CallItem(id, self._flow(run_id), run_id, name, call_id)
            self._calls[run_id, call_id] = made
            self._add(made)
        return self._calls[run_id, call_id]

    # -- events --------------------------------------------------------------------------------------------------

    def _event(self, event: RunEvent) -> None:
        match event:
            case RunStarted():
                self._start(event)
            case RunEnded():
                self._end(event)
            case StepStarted():
                self._activity(event.run_id, "thinking" if event.model else "working")
            case ToolStarted() | ToolProgress() | ToolStreamed() | ToolDone() | ToolFailed() | CallWaiting():
                self._call_event(event)
            case UsageRecorded():
                if (agent := self.agents.get(event.record.run_id)) is not None:
                    agent.usage[event.record.id] = event.record
                    self._touch("agents")
            case RunProgress():
                self._activity(event.run_id, str(event.step.get("name", ""))[:200])
            case _ if (line := line_of(event)) is not None:
                self._line(event, *line)

    def _start(self, event: RunStarted) -> None:
        known = self.agents.get(event.run_id)
        if known is not None:
            known.state, known.activity = "running", "continuing"
        else:
            above, _, name = event.agent_path.rpartition("/")
            made = AgentItem(event.run_id, name, event.task, self._id("agent", event.run_id))
            self.agents[event.run_id] = made
            self._paths[event.agent_path] = event.run_id
            parent_id = self._paths.get(above)
            if parent_id is not None:
                self.agents[parent_id].children.append(made)
                call = self._calls.get((parent_id, event.parent_call or ""))
                if call is not None:
                    call.agent = made
                    self._touch(call.id)
        self._touch("agents")

    def _end(self, event: RunEnded) -> None:
        result, agent = event.result, self.agents.get(event.run_id)
        if agent is not None:
            agent.state, agent.activity, agent.error = result.status, "", result.error or ""
            for each in result.usage:
                owner = self.agents.get(each.run_id)
                if owner is not None:
                    owner.usage.setdefault(each.id, each)
        if event.run_id == self.turn_id and result.status != "suspended":
            self.over = True
            for call in self._calls.values():
                if call.state in ("writing", "running", "waiting"):
                    call.state = "ended"
                    self._touch(call.id)
            for below in self.agents.values():
                if below.state in ("running", "suspended"):
                    below.state, below.activity = "ended", ""
        self._touch("agents")

    def _call_event(
        self, event: ToolStarted | ToolProgress | ToolStreamed | ToolDone | ToolFailed | CallWaiting
    ) -> None:
        call = self._call(event.run_id, event.call_id, event.name)
        match event:
            case ToolStarted():
                call.state, call.content, call.arguments = "running", "", event.arguments
                self._activity(event.run_id, f"calling {event.name}")
            case ToolProgress():
                call.steps[str(event.step.get("id", ""))] = event.step
                call.state = "running" if call.state == "writing" else call.state
            case ToolStreamed():
                call.content += event.content
            case CallWaiting():
                call.state, call.waits, call.arguments = "waiting", event, event.arguments
                self._activity(event.run_id, "waiting for you")
            case ToolDone() if event.content == ERASED:
                call.state, call.content = "ended", event.content
            case ToolDone():
                call.state, call.content, call.media = "completed", event.content, event.media
                self._sources(event)
            case ToolFailed() if event.error == NOT_FINISHED:
                call.state = "ended"
            case ToolFailed():
                refused = call.waits is not None and (is_denial(event.error) or event.error == DECLINED)
                call.state, call.error = "denied" if refused else "failed", event.error
        self._touch(call.id)

    def _sources(self, event: ToolDone) -> None:
        found = sources_of(event.data)
        report = event.data.get("report") if isinstance(event.data, dict) else None
        if isinstance(report, str) and event.run_id == self.turn_id:
            citations = Citations(f"report-{self.turn_id}-{self._number}")
            for source in found:
                citations.add(source.id, source.title, source.location)
            markdown = without_sources(report, citations)
            id = self._id("report", event.call_id)
            self._add(ReportItem(id, self._flow(event.run_id), report, markdown, citations))
            return
        for source in found:
            self.citations.add(source.id, source.title, source.location)
        if event.name in SEARCH_TOOLS:
            for id, title, location in _results(event.content):
                self.citations.add(id, title, location)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _line(self, event: Event, kind: Literal["notice", "steered", "note"], text: str) -> None:
        self._add(LineItem(self._id(kind, str(self._number)), self._flow(event.run_id), kind, text))

    def _activity(self, run_id: str, text: str) -> None:
        agent = self.agents.get(run_id)
        if agent is not None and agent.activity != text and agent.state == "running":
            agent.activity = text
            self._touch("agents")

    def _flow(self, run_id: str) -> str:
        """Return the id of the element in which a run's items are: of a sub-agent, below its call."""
        if run_id == self.turn_id:
            return f"{self.turn_id}-flow"
        agent = self.agents.get(run_id)
        call = next((each for each in self._calls.values() if agent is not None and each.agent is agent), None)
        return f"{self.turn_id}-other" if call is None else f"{call.id}-inner"


def _results(content: str) -> Iterator[tuple[str, str, str]]:
    """Yield id, title and location of the results of a search, as far as they can be read."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):  # cut, or of another tool with the same name
        return
    results = found.get("results") if isinstance(found, dict) else None
    for each in results if isinstance(results, list) else ():
        if isinstance(each, dict) and all(isinstance(each.get(name), str) for name in ("id", "title", "location")):
            yield each["id"], each["title"], each["location"]
