"""The port of all models: one verb, and close. Each vendor's adapter is a folder next to this file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import field
from typing import Any, Protocol

from ..messages import AssistantMessage, Effort, Message, ToolCall, ToolChoice, ToolSpec
from ..records import record
from ..usage import Receipt, Tokens, UsageSource


@record
class OutputSchema:
    """A JSON schema that the answer's text must match."""

    name: str
    """Letters, digits, `_` and `-`."""
    schema: dict[str, Any]
    strict: bool = True
    """Whether the provider enforces the schema. Strict schemas are limited: OpenAI and Anthropic require
    `additionalProperties: false` in each object, and OpenAI requires all properties to be required."""


@record(frozen=False, kw_only=True)
class ModelRequest:
    """A model call, independent of the provider's format."""

    model: str
    """The provider's name of the model, without the provider."""
    system: str
    messages: Sequence[Message]
    """Append-only between steps: each request repeats the messages of the one before, unchanged, as its prefix."""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: int | None = None
    """None: the provider's default, or the model's maximum if the provider requires a number."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Settings of one provider, merged into its request as they are. Before anything is sent, a field that the adapter
    cannot honor, such as one for several answers, raises `UnsupportedError`, and so does each setting below that the
    model or its API does not accept."""
    output_schema: OutputSchema | None = None
    effort: Effort | None = None
    """None: the model's default."""
    temperature: float | None = None
    top_p: float | None = None
    """The share of the probability from which tokens are sampled."""
    seed: int | None = None
    """Repeats an answer as far as the provider can."""
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] = ()
    """Texts that end the answer."""
    service_tier: str = ""
    """The tier that serves the request, by the provider's name: `flex`, `priority`, ... The price depends on it."""
    logprobs: int | None = None
    """The number of likely tokens that `Reply.logprobs` reports for each position; 0: only the chosen one."""
    headers: dict[str, str] = field(default_factory=dict)
    """HTTP headers of this request, such as `anthropic-beta`. They are stored with the run, so give API keys to the
    model instead."""
    breakpoints: tuple[int, ...] | None = None
    """Cache breakpoints: ascending indexes of the messages that end a prefix to cache, four at most, for providers that
    cache only marked prefixes. With fewer than four, tools and system prompt are marked as well. None: no breakpoints.
    Other providers ignore them."""
    cache_key: str = ""
    """A key that requests with a common prefix share, for providers that look up cached prefixes by key."""


@record
class Dropped:
    """Content of the conversation that the request leaves out. Precedes all other events."""

    what: tuple[str, ...]
    """Descriptions such as `reasoning of openai (3)`."""


@record(frozen=False)
class TextChunk:
    """A piece of the answer."""

    text: str


@record(frozen=False)
class ReasoningChunk:
    """A piece of the reasoning."""

    text: str


@record(frozen=False)
class ToolCallChunk:
    """A piece of a call's arguments; the first one of a call may be empty."""

    id: str
    name: str
    arguments: str


@record(frozen=False)
class ToolCallReady:
    """A call whose arguments are complete while the answer continues. The `Reply` contains the same call.

    Each call of a reply is announced once, in the order in which the calls are complete. A call that the output limit
    cut off is never announced. A stream that breaks off may have announced some calls.
    """

    call: ToolCall


@record
class Logprob:
    """A token of the answer with the logarithm of its probability."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()
    """The most likely tokens in its position."""


@record
class Reply:
    """The whole answer; the last event of every stream that did not break off."""

    message: AssistantMessage
    tokens: Tokens | None
    """The provider's usage report, converted to the meaning of `Tokens`; None if it reported nothing."""
    source: UsageSource = "measured"
    how: str = ""
    """Why the counts are estimated or unknown."""
    receipt: Receipt | None = None
    """Further data that the provider reported."""
    logprobs: tuple[Logprob, ...] = ()
    """The probabilities of the tokens of the text, if the request asked for them and the provider sent them."""


ModelEvent = Dropped | TextChunk | ReasoningChunk | ToolCallChunk | ToolCallReady | Reply


class Model(Protocol):
    """A model of a provider, ready for requests.

    Three optional attributes describe it: `summarizes = True` if it can summarize a conversation, `context_window`
    (tokens) if it knows its own, and `takes_schema(schema, tools=)`, which returns whether it accepts an `OutputSchema`
    in a request with or without tools; a model without this method accepts all.
    """

    provider: str
    """`anthropic`, `openai`, `google`, `demo`, ...: part of the model's id and of the price look-up."""
    name: str
    """The provider's name of the model."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the answer to *request*: `Dropped` if content was left out, chunks as they arrive, then one `Reply`.

        Raises a `ProviderError`, whose `partial` and `tokens` describe what had arrived; a stream that ends without a
        reply raises `BrokenStreamError`. Closing the iterator early cancels the request.
        """
        ...

    async def close(self) -> None:
        """Release connections. May be called twice."""
        ...


def model_id(model: Model) -> str:
    """Return `provider:name`, the form in which settings, hooks and records name models."""
    return f"{model.provider}:{model.name}"
