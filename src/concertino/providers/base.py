"""The port of all models: one verb, and close. Adapters live beside this file, one folder each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..messages import AssistantMessage, Message, ToolCall, ToolChoice, ToolSpec
from ..usage import Tokens, UsageSource

Effort = Literal["none", "minimal", "low", "medium", "high"]
"""How much a model is to reason before it answers."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The answer's text must be JSON of this schema."""

    name: str
    """Letters, digits, `_` and `-`."""
    schema: dict[str, Any]
    strict: bool = True
    """Whether the provider must hold the model to it. Strict schemas are limited: OpenAI and Anthropic want
    `additionalProperties: false` in each object, OpenAI all properties required."""


@dataclass(slots=True, kw_only=True)
class ModelRequest:
    """One call of a model, in no provider's format."""

    model: str
    """The provider's own name of the model, without the provider before it."""
    system: str
    messages: Sequence[Message]
    """Append-only between steps: what was sent once is sent again, unchanged, as the prefix of the next request."""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: int | None = None
    """None: the provider's default, or the model's maximum where the provider wants a number."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Settings of one provider, merged into its request as they are."""
    output_schema: OutputSchema | None = None
    effort: Effort | None = None
    """None: the model's default."""
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    """Texts at which the model stops."""
    marks: tuple[int, ...] | None = None
    """Places of messages behind which the provider is to remember the prefix, ascending, for providers that cache only
    what is marked, at four places at most; where there are fewer, tools and system are marked, too. None: nothing is.
    Others cache whatever this says."""
    cache_key: str = ""
    """What requests with a common prefix have in common, for providers that look for a cached prefix by a key."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What of the conversation this provider cannot take and was left out of the request. It comes before all else."""

    what: tuple[str, ...]
    """In words, such as `reasoning of openai (3)`."""


@dataclass(slots=True)
class TextChunk:
    """A piece of the answer."""

    text: str


@dataclass(slots=True)
class ReasoningChunk:
    """A piece of the reasoning."""

    text: str


@dataclass(slots=True)
class ToolCallChunk:
    """A piece of a call's arguments; the first one of a call may be empty."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class ToolCallReady:
    """A call whose arguments are complete, before the answer as a whole is. The same call is in the `Reply`.

    Each call of a reply is announced once, in the order in which the calls are complete; one that the answer's limit
    cut off is not. A stream that breaks may have announced some.
    """

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole answer. It is the last item of every stream that did not break."""

    message: AssistantMessage
    tokens: Tokens | None
    """As the provider reported them, brought to the meaning of `Tokens`; None where it reported nothing."""
    source: UsageSource = "measured"
    how: str = ""
    """For counts that the provider did not report itself: how they were made."""


ModelEvent = Dropped | TextChunk | ReasoningChunk | ToolCallChunk | ToolCallReady | Reply


class Model(Protocol):
    """A model of a provider, ready to be asked.

    One that can write a summary of a conversation says so with an attribute `summarises = True`; one that knows how
    much it takes, with `context_window` (tokens).
    """

    provider: str
    """`anthropic`, `openai`, `google`, `demo`, ...: part of the model's id and of the price look-up."""
    name: str
    """The provider's own name of the model."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask. `Dropped` if something was; pieces as they come; then one `Reply`.

        Raises a `ProviderError`, whose `partial` is what had come and whose `tokens` are what the provider had counted;
        a stream that ends without a reply raises `BrokenStreamError`. Closing the iterator early ends the request.
        """
        ...

    async def close(self) -> None:
        """Release connections. May be called twice."""
        ...


def model_id(model: Model) -> str:
    """`provider:name`, the form in which models are named in settings, hooks and records."""
    return f"{model.provider}:{model.name}"
