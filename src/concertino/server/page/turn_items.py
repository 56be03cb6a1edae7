"""The items of a turn: texts, calls, reports and agents, and which of them have changed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from typing import Any, Literal

from ...events import CallWaiting, CustomEvent, MediaDigest, Notice, RunEvent, Steered
from ...ids import digest
from ...messages import Media
from ...records import record
from ...usage import UsageRecord, total
from .markup import Citations, MarkdownBlocks
from .site import label

AgentState = Literal["running", "suspended", "completed", "limited", "failed", "cancelled", "ended"]
CallState = Literal["writing", "running", "waiting", "completed", "denied", "failed", "ended"]
"""`denied`: the call was not approved. `ended`: it is unknown how."""


@record(frozen=False, eq=False)
class TextItem:
    """A text of a model, or its reasoning."""

    id: str
    into: str
    kind: Literal["text", "reasoning"]
    draft: bool
    blocks: MarkdownBlocks
    text: str = ""
    ended: bool = False


@record(frozen=False, eq=False)
class LineItem:
    """A line about the run: a notice, a message that steers, a note of a worker."""

    id: str
    into: str
    kind: Literal["notice", "steered", "note"]
    text: str
    """Markdown, if it is a note."""


@record(frozen=False, eq=False)
class MediaItem:
    """An image or a file that the model produced."""

    id: str
    into: str
    media: Media


@record(frozen=False, eq=False)
class CallItem:
    """A tool call."""

    id: str
    into: str
    run_id: str
    name: str
    call_id: str
    arguments: str = ""
    state: CallState = "writing"
    content: str = ""
    error: str = ""
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Its progress steps by id."""
    media: tuple[MediaDigest, ...] = ()
    waits: CallWaiting | None = None
    agent: AgentItem | None = None
    """The sub-agent that works on it."""


@record(frozen=False, eq=False)
class ReportItem:
    """A report that a tool hands to the user."""

    id: str
    into: str
    whole: str
    markdown: str
    """Without the list of sources."""
    citations: Citations


@record(frozen=False, eq=False)
class AgentItem:
    """The run of an agent."""

    run_id: str
    name: str
    task: str
    id: str
    state: AgentState = "running"
    activity: str = "starting"
    usage: dict[str, UsageRecord] = field(default_factory=dict)
    """Its own records, without its sub-agents', by id."""
    children: list[AgentItem] = field(default_factory=list)
    error: str = ""

    @property
    def tokens(self) -> int:
        """The tokens of its own model calls."""
        return total(self.usage.values()).tokens.total


TurnItem = TextItem | LineItem | MediaItem | CallItem | ReportItem


class ChangedItems:
    """The items of one turn. `changed` has the ids of those to draw again."""

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id
        self.items: dict[str, TurnItem] = {}
        """All items by id, in the order of their beginning."""
        self.changed: dict[str, None] = {}
        """Ids in the order of their change."""
        self.removed: list[str] = []

    def _id(self, kind: str, of: str) -> str:
        return f"{self.turn_id}-{kind}-{digest(of)[:16]}"  # ids of calls are texts of a model's

    def _add(self, item: TurnItem) -> None:
        if item.id not in self.items:
            self.items[item.id] = item
        self._touch(item.id)

    def _touch(self, id: str) -> None:
        self.changed[id] = None

    def _drop(self, id: str) -> None:
        self.items.pop(id, None)
        self.changed.pop(id, None)
        self.removed.append(id)


def draft(item: TextItem | ReportItem) -> bool:
    """Return whether a text is not for the user as the answer."""
    return isinstance(item, TextItem) and (item.draft or item.kind == "reasoning")


def line_of(event: RunEvent) -> tuple[Literal["notice", "steered", "note"], str] | None:
    """Return the line that an event adds; None for an event of another kind."""
    match event:
        case Steered():
            return "steered", event.text
        case Notice():
            return "notice", event.text
        case CustomEvent():
            text = _note(event)
            return ("note", text) if text else None
        case _:
            return None


def _note(event: CustomEvent) -> str:
    """Describe a pass of a worker; "" for all other events."""
    data: Any = event.data
    with suppress(KeyError, TypeError):
        match event.name:
            case "worker.pass":
                return f"Pass {data['number']} of {data['of']}"
            case "worker.decision":
                return "\n\n".join(f"**{label(section)}**\n\n{text}" for section, text in data["document"].items())
            case "worker.escalated":
                return f"Escalated to {data['model']}: {data['reason']}"
    return ""
