"""The ports of storage. Adapters: `memory` and `sqlite`; one conformance suite holds for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..events import RunStatus
from ..messages import Message
from ..usage import UsageRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """What is known of a run when it begins."""

    run_id: str
    root_id: str
    """The run at the top of the tree; a first agent's run is its own root."""
    parent_id: str | None
    parent_call: str | None
    """The tool call of the parent that this run belongs to."""
    agent: str
    agent_path: str
    conversation_id: str
    user_id: str
    organization_id: str
    task: str
    """The user's message, or what the parent asked for; "" where the data policy forbids it."""
    started: float
    """Seconds since the epoch, UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    status: RunStatus
    answer: str
    error: str | None
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as the store knows it; `end` is None while it runs, or if its process was killed."""

    start: RunStart
    end: RunEnd | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message with what is kept beside it."""

    message: Message
    tokens: int | None = None
    """By the run's counter, where it was counted."""
    progress: Sequence[dict[str, Any]] = ()
    """For a tool's result: the steps that the tool showed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one append writes: all of it or nothing."""

    run_id: str
    messages: Sequence[StoredMessage] = ()
    usage: Sequence[UsageRecord] = ()
    end: RunEnd | None = None


class Store(Protocol):
    """Keeps runs. Every method may raise `StorageError`; a failed write leaves nothing half-written."""

    async def begin(self, start: RunStart) -> None:
        """Note that a run has begun. Beginning the same run again changes nothing."""
        ...

    async def append(self, batch: Batch) -> None:
        """Add to the end of a run, atomically. A usage record whose id is there already is not added again."""
        ...

    async def run(self, run_id: str) -> StoredRun | None:
        """One run."""
        ...

    async def runs(
        self, *, conversation_id: str | None = None, root_id: str | None = None, limit: int = 50
    ) -> Sequence[StoredRun]:
        """Runs, newest first; those of one conversation or of one tree, if asked."""
        ...

    async def messages(self, run_id: str) -> Sequence[StoredMessage]:
        """The messages of a run, in the order of their appending."""
        ...

    async def usage(self, root_id: str) -> Sequence[UsageRecord]:
        """All usage records of a run and its sub-agents, in the order of their booking."""
        ...

    async def close(self) -> None:
        """Release files and connections. May be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Something a user wants remembered."""

    id: str
    text: str
    created: float
    metadata: dict[str, Any] = field(default_factory=dict)


class Memories(Protocol):
    """Keeps what users want remembered. Nobody sees another user's."""

    async def remember(self, owner: str, text: str) -> Memory:
        """Keep *text* for *owner*; the same text again is the same memory."""
        ...

    async def recall(self, owner: str, query: str, limit: int = 5) -> Sequence[Memory]:
        """The memories of *owner* that match *query* best; for an empty query, the newest."""
        ...
