"""Values of conversations: trees of turns, each of which is one root run."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from ..events import RunStatus
from ..messages import Message
from ..records import record

TurnState = Literal["queued", "running", "waiting", "dead_letter"] | RunStatus
"""`queued`: it starts after the turns before it. `waiting`: only waits are left, such as an approval. `dead_letter`:
not resumed again until it is retried or stopped. Otherwise the state of its run."""
ENDED_STATES: frozenset[TurnState] = frozenset(("completed", "limited", "failed", "cancelled"))
Rating = Literal["up", "down"]
QueueWhen = Literal["busy", "idle", "always"]
"""The state of the conversation in which a message is queued; `idle`: no turn is in progress or queued."""


@record(kw_only=True)
class Feedback:
    """The user's judgment of an answer."""

    rating: Rating | None = None
    text: str = ""


@record(kw_only=True)
class QueuedTurn:
    """A message that waits until the conversation is idle."""

    run_id: str
    input: dict[str, Any]
    """The chat as JSON; {} if it is damaged. Erased when the turn starts; then its journal has the chat as the data
    policy leaves it."""
    parent: str | None = None
    """The turn that it follows; None for the leaf at its start."""
    key: str = ""
    mode: str = ""
    first: bool = False
    """Whether it starts before the turns that were queued earlier."""


@record(kw_only=True)
class StoredConversation:
    """A conversation as stored."""

    id: str
    tenant: str
    user: str
    agent: str
    created: float
    updated: float
    """The time when its last turn was appended."""
    title: str = ""
    leaf: str = ""
    """Run id of the active leaf; empty without turns."""
    busy: str = ""
    """Run id of the turn in progress, or of the queued turn that is next; empty if the conversation is idle."""
    modes: tuple[str, ...] = ()
    """Modes in which its turns were sent, in the order of their first use."""
    tools: tuple[str, ...] = ()
    """Tools that its turns have called, in the order of their first use."""


@record(kw_only=True)
class StoredTurn:
    """A turn as stored. Texts have the form that the data policy leaves."""

    run_id: str
    conversation_id: str
    parent: str
    """Run id of the turn that it follows; empty for the first turn of a branch."""
    state: TurnState
    message: str
    answer: str = ""
    error: str | None = None
    created: float = 0.0
    mode: str = ""
    feedback: Feedback | None = None
    siblings: tuple[str, ...] = ()
    """Run ids of all turns with the same parent, this one included, in the order of their creation."""
    input: dict[str, Any] | None = field(default=None, repr=False)
    """The chat of a queued turn as JSON; {} if it is damaged."""


@record(kw_only=True)
class StoredHistory:
    """The messages of a branch of a conversation, and the context with which its next run continues."""

    messages: tuple[Message, ...] = ()
    after: str = ""
    """Run id of the turn that the messages follow; empty if they are the whole branch."""
    lasting: bool = True
    """Whether no message is erased before the conversation: then a process may keep them."""
    context: list[Any] | None = None
    """The context state that the last run recorded at its end."""
    texts: dict[str, str] = field(default_factory=dict)
    """Bodies of the texts that *context* names, by id."""


@record(kw_only=True)
class DueTurn:
    """A queued turn whose conversation is idle."""

    conversation_id: str
    tenant: str
    user: str
    agent: str
    turn: QueuedTurn
