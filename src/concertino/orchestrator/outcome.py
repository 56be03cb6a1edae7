"""Values that hooks and turns return: small, typed, and acted on by the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ..errors import ConfigurationError
from ..events import Audience
from ..ids import token
from ..messages import AssistantMessage, Media, Message, Retain, ToolCall, ToolChoice, ToolMessage, UserMessage
from ..number_checks import check_amount
from ..records import record
from ..waits import Resolution


@record
class Continue:
    """Take another step."""

    messages: tuple[Message, ...] = ()
    """Messages to append to the conversation first."""
    tool_choice: ToolChoice | None = None
    """The tool choice of the next step only."""
    prompt: str = ""
    """Text for the model at the end of the next request, as a system message. It does not become part of the
    conversation: later requests and later runs do not contain it."""

    def __post_init__(self) -> None:
        if self.messages:
            _require_messages(self, self.messages)
        if not isinstance(self.prompt, str):
            raise ConfigurationError(f"Continue(prompt={self.prompt!r:.80}): use text")


@record
class Finish:
    """End the run as completed."""

    text: str | None = None
    """The answer; None for the model's last text."""

    def __post_init__(self) -> None:
        if self.text is not None and not isinstance(self.text, str):
            raise ConfigurationError(f"Finish(text={self.text!r:.80}): use text, or None")


@record
class Fail:
    """End the run as failed."""

    error: str

    def __post_init__(self) -> None:
        if not isinstance(self.error, str):
            raise ConfigurationError(f"Fail(error={self.error!r:.80}): use text")


def agent_answer(agent: str, status: str, text: str, error: str | None) -> tuple[str, bool]:
    """Return what the caller of a sub-agent reads of its end, and whether that is an error."""
    if status in ("failed", "cancelled"):
        return f"{agent} failed: {error or 'the sub-agent failed'}", True
    if status == "limited" and not text:
        return f"{agent} could give no answer within the limits", True
    return text or "(no answer)", False


def reply_of(agent: str, status: str, text: str, error: str | None) -> Resolution:
    """Return the answer to the call that a root run works for, when the run has ended."""
    content, is_error = agent_answer(agent, status, text, error)
    return Resolution(verdict="failed" if is_error else "result", id=token(), content=content, by=agent)


@record
class Suspend:
    """Leave the run until the calls with these keys have been answered."""

    keys: tuple[str, ...]


@record
class Limited:
    """End the run as `limited`, with the text so far: an answer is not possible within the limits."""

    why: str


NextStep = Continue | Finish | Fail
"""What happens next, wherever a hook decides it."""
StepOutcome = NextStep | Suspend | Limited
"""How a turn ends. The engine matches on it."""
CONTINUE = Continue()
"""Another step with nothing to add."""


@record
class Turn:
    """A model's answer as the agent interprets it."""

    message: AssistantMessage
    """The message for the conversation."""
    calls: tuple[ToolCall, ...]
    """The calls to run. The result of a call that is not in `message` becomes a user message instead of a tool message,
    so that all providers accept the conversation."""
    audience: Audience | None = None
    """Intended readers of `message`; None for the agent's `audience`. A message for other readers than its pieces is
    sent to them as a whole. An `internal` one is never the answer of the run."""


@record
class Allow:
    """The call may run."""


@record
class Deny:
    """The call may not run; the model reads the reason."""

    reason: str


@record
class Ask:
    """The call needs a person's approval. The call waits, and the run is suspended when it has nothing else to do.

    Needs a store.
    """

    who: tuple[str, ...] = ()
    """Ids of the users who may answer; empty for every scope that reaches the run."""
    seconds: float | None = None
    """Seconds after which the call counts as denied; None for no deadline."""
    note: str = ""
    """The reason why the call needs an approval, for the approver."""

    def __post_init__(self) -> None:
        if not _are(str, self.who):
            raise ConfigurationError(f"Ask(who={self.who!r:.80}): use a tuple of names")
        check_amount("Ask", "seconds", self.seconds, "seconds above 0", optional=True)


@record
class Special:
    """Changes that a tool's result causes."""

    result: str | None = None
    """Text for the model in place of the result."""
    tool_choice: ToolChoice | None = None
    """The tool choice of the next step only."""
    messages: tuple[Message, ...] | None = None
    """The conversation from now on. The current turn's message and results follow it."""
    withhold: bool = False
    """Whether the original result, with its media, is not kept: the model cannot recall it, and no message has it.
    Consumers and observers have already seen it in a `ToolDone` event. A second one has the `result`, and the log of a
    `Runtime` removes the first. Needs a `result`."""

    def __post_init__(self) -> None:
        if self.result is not None and not isinstance(self.result, str):
            raise ConfigurationError(f"Special(result={self.result!r:.80}): use text, or None")
        if self.withhold and self.result is None:
            raise ConfigurationError("Special(withhold=True): give the result that the model reads instead")
        if self.messages is not None:
            _require_messages(self, self.messages)


@record(frozen=False)
class Outcome:
    """The outcome of one tool call."""

    call: ToolCall
    content: str
    """Text for the model."""
    is_error: bool = False
    data: Any = None
    """The tool's structured result, for the product."""
    whole: str | None = None
    """The uncut result, if `content` is shortened."""
    summary: str | None = None
    """Text that replaces the content once it is no longer sent."""
    media: tuple[Media, ...] = ()
    """Images and documents next to `content`."""
    stored: bool = True
    """Whether the result may be kept after the run; see `ToolResult.stored`."""
    retain: Retain = "window"
    handle: str = ""
    """The handle under which the model can recall the whole result; the id of its card."""
    unknown: bool = False
    """Whether the effect is unknown: the process ended while the call ran, and the call does not run twice."""
    not_enabled: bool = False
    """Whether the tool is not enabled for this user."""
    ends_run: bool = False
    """Whether the run ends after this step; see `ToolResult.ends_run`. A failed call never ends it."""
    replaced: bool = False
    """Whether a hook has changed `content`."""
    progress: list[dict[str, Any]] = field(default_factory=list)


def end_by_result(outcomes: Sequence[Outcome]) -> Finish | None:
    """Return how the first result that ends the run ends it; None if no result does.

    The answer is the whole result, unless a hook has replaced it. An answer is stored, so a result that must not be
    stored leaves the model's last text.
    """
    for outcome in outcomes:
        if outcome.ends_run and not outcome.is_error:
            if not outcome.stored:
                return Finish()
            return Finish(outcome.content if outcome.replaced or outcome.whole is None else outcome.whole)
    return None


def result_message(outcome: Outcome, *, native: bool, cards: bool = False) -> Message:
    """Return an outcome as a message: a user message if the model's message does not contain the call.

    With *cards*, the model reads the id of a result's card at its end.
    """
    call, content, whole = outcome.call, outcome.content, outcome.whole
    if cards and (line := card_line(outcome)):
        content, whole = content + line, content if whole is None else whole
    if not native:
        return UserMessage(f"[result of {call.name}]\n{content}", outcome.media, call.name, outcome.stored)
    return ToolMessage(
        call.id,
        call.name,
        content,
        outcome.is_error,
        whole,
        outcome.summary,
        outcome.media,
        stored=outcome.stored,
        retain=outcome.retain,
        handle=outcome.handle,
    )


def card_line(result: Outcome | ToolMessage) -> str:
    """Return the line with the id of a result's card; "" for an error, and without a card."""
    return f"\n[card {result.handle}]" if result.handle and not result.is_error else ""


def _require_messages(owner: object, messages: object) -> None:
    """Raise `ConfigurationError` where the value is made, so that the traceback names the hook that made it."""
    if not _are(Message, messages):
        shown = f"{type(owner).__name__}(messages={messages!r:.80})"
        raise ConfigurationError(f"{shown}: use a tuple of messages, such as UserMessage('...')")


def _are(kind: Any, items: object) -> bool:
    """Return whether *items* is a sequence of *kind*; a string is not one."""
    return isinstance(items, Sequence) and not isinstance(items, str) and all(isinstance(item, kind) for item in items)
