"""What hooks and steps return: small typed values that the engine acts on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import ConfigurationError
from ..messages import AssistantMessage, Message, Retain, ToolCall, ToolChoice

NoCallsReason = Literal["NO_CALLS_GENERATED", "LIMIT_REACHED", "TOOLS_DISABLED", "BUDGET_REACHED"]
"""Why `on_no_tool_calls` is asked: the model called nothing; the limit of calls is reached; a called tool is not
enabled for this user; a budget has no room for another step."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """Take another step."""

    messages: tuple[Message, ...] = ()
    """Put at the end of the conversation first."""
    tool_choice: ToolChoice | None = None
    """For the next step only."""

    def __post_init__(self) -> None:
        _require_messages(self, self.messages)


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run well."""

    text: str | None = None
    """The answer; None: what the model said last."""

    def __post_init__(self) -> None:
        if self.text is not None and not isinstance(self.text, str):
            raise ConfigurationError(f"Finish(text={self.text!r:.80}): use text, or None")


@dataclass(frozen=True, slots=True)
class Fail:
    """End the run badly."""

    error: str

    def __post_init__(self) -> None:
        if not isinstance(self.error, str):
            raise ConfigurationError(f"Fail(error={self.error!r:.80}): use text")


@dataclass(frozen=True, slots=True)
class Suspend:
    """Leave the run until the outcomes of these calls, by their keys, have come."""

    keys: tuple[str, ...]


StepEnd = GoOn | Finish | Fail
"""How an agent may have a step end."""
StepOutcome = StepEnd | Suspend
"""How a step ends. The engine matches on it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A model's answer, as the agent reads it."""

    message: AssistantMessage
    """What goes into the conversation."""
    calls: tuple[ToolCall, ...]
    """The tools to run. A call that is not in `message` is answered by a user message instead of a tool message, so
    that the conversation stays one that every provider accepts."""


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the model reads why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The call may run when somebody has approved it. It waits, and so does the run when nothing else is left to do.
    The chat needs a store for that."""

    who: tuple[str, ...] = ()
    """Who may answer, by the names that the product uses; (): anybody whom the product lets."""
    seconds: float | None = None
    """After which it counts as denied; None: never."""
    note: str = ""
    """Why it is asked, for the one who answers."""

    def __post_init__(self) -> None:
        if not _are(str, self.who):
            raise ConfigurationError(f"Ask(who={self.who!r:.80}): use a tuple of names")
        if self.seconds is not None and not (isinstance(self.seconds, int | float) and self.seconds > 0):
            raise ConfigurationError(f"Ask(seconds={self.seconds!r:.80}): use seconds above 0, or None")


@dataclass(frozen=True, slots=True)
class Special:
    """What a tool's result changes beyond itself."""

    result: str | None = None
    """The model reads this instead."""
    tool_choice: ToolChoice | None = None
    """For the next step only."""
    messages: tuple[Message, ...] | None = None
    """The conversation from now on, without this turn's calls and results, which follow it."""

    def __post_init__(self) -> None:
        if self.result is not None and not isinstance(self.result, str):
            raise ConfigurationError(f"Special(result={self.result!r:.80}): use text, or None")
        if self.messages is not None:
            _require_messages(self, self.messages)


@dataclass(slots=True)
class Outcome:
    """How one tool call ended."""

    call: ToolCall
    content: str
    """What the model reads."""
    is_error: bool = False
    data: Any = None
    whole: str | None = None
    summary: str | None = None
    """What stands for the content once it is no longer sent."""
    retain: Retain = "window"
    handle: str = ""
    """To recall the whole by."""
    unknown: bool = False
    """Whether nobody can say how it ended: a crash came between, and it is never run twice."""
    progress: list[dict[str, Any]] = field(default_factory=list)


def _require_messages(owner: object, messages: object) -> None:
    """Said where the value is made, so that the hook which made it is named."""
    if not _are(Message, messages):
        told = f"{type(owner).__name__}(messages={messages!r:.80})"
        raise ConfigurationError(f"{told}: use a tuple of messages, such as UserMessage('...')")


def _are(kind: Any, items: object) -> bool:
    """Whether *items* are several of *kind*; a text is none."""
    return isinstance(items, Sequence) and not isinstance(items, str) and all(isinstance(item, kind) for item in items)
