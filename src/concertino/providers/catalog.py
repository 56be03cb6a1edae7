"""Facts about models: context windows, output limits and supported settings.

The tables are plain data, so that a run starts without loading the list of prices. Nothing here decides a bill. Too
small a figure only trims a conversation earlier, and the provider's refusal reveals too large a figure, so unknown
models get small ones. Unknown models are never refused a setting: the provider decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from ..errors import ConfigurationError, UnsupportedError
from ..ids import SINCE_GPT_5_6, in_family
from ..messages import Effort
from .base import ModelRequest

DEFAULT_CONTEXT = 128_000
DEFAULT_OUTPUT = {"anthropic": 32_000, "google": 65_536}
"""By provider; 16,384 for all others."""

# Model pages of the makers as of November 2026: platform.claude.com/docs (models overview),
# developers.openai.com (models), ai.google.dev/gemini-api/docs/models. The first pattern that matches counts.
_CONTEXT: tuple[tuple[str, int], ...] = (
    (r"claude-(fable|mythos|[a-z]+-5|(opus|sonnet)-4-[6-9])", 1_000_000),
    (r"claude", 200_000),
    (r"gpt-4o-(mini-realtime|(mini-)?transcribe)", 16_000),
    (r"gpt-([^/]*-)?realtime(?!-\d)|gpt-4-32k", 32_000),
    (r"gpt-5\.3(?!-codex)", 128_000),
    (r"gpt-(5\.[4-9]|[6-9])(?!.*-(mini|nano))", 1_000_000),
    (r"gpt-5", 400_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4(-\d{4})?$|computer-use", 8_192),
    (r"gpt-3\.5", 16_385),
    (r"o1-(mini|preview)", 128_000),
    (r"o[1-9]|codex-mini", 200_000),
    (r"gemini-.*-tts", 8_192),
    (r"gemini-.*-(image|live)|gemini-(1\.0-)?pro($|-vision)", 32_768),
    (r"gemini", 1_000_000),
)

_OUTPUT: tuple[tuple[str, int], ...] = (
    (r"claude-3-5", 8_192),
    (r"claude-(2|3-(haiku|opus|sonnet)|v1|instant)", 4_096),
    (r"claude-(4-opus|opus-4(-0|-1)?(-2025\d{4})?(@|$))", 32_000),
    (r"claude-(3-7|4-sonnet|sonnet-4|haiku-4|opus-4-5)", 64_000),
    (r"claude-(fable|mythos|[a-z]+-[5-9]|opus-4-[6-9])", 128_000),
    (r"claude", 32_000),
    (r"gpt-[5-9](?!.*-chat)", 128_000),
    (r"gpt-4\.1", 32_768),
    (r"gpt-4(-turbo|-\d{4})?$|gpt-3", 4_096),
    (r"o[1-9](?!-mini)|o[34]", 100_000),
    (r"gemini-(1|2\.0)", 8_192),
    (r"gemini", 65_536),
)

# Reasoning efforts as of November 2026. Anthropic: "Effort", "Adaptive thinking" and "Extended thinking"; Claude
# reasons on request only. OpenAI: the model pages, and the refusals of its API, which list the values
# (openai-agents-python#2089). Google: "Thinking", and the page of each Gemini 3 model.
_BY_EFFORT = r"claude-(fable|mythos|[a-z]+-[5-9]|(opus|sonnet)-4-[6-9])"
_EFFORTS: tuple[tuple[str, tuple[Effort, ...]], ...] = (
    (_BY_EFFORT, ("none", "low", "medium", "high")),
    (r"claude-(3-7|4-|(opus|sonnet|haiku)-4)", ("none", "low", "medium", "high")),
    (r"claude", ("none",)),
    (r"gpt-5[^/]*-chat", ("none",)),
    (r"gpt-5-pro", ("high",)),
    (r"gpt-5[^/]*-pro", ("medium", "high")),
    (r"gpt-5[^/]*-codex", ("low", "medium", "high")),
    (r"gpt-5(?!\.)", ("minimal", "low", "medium", "high")),
    (r"gpt-([5-9]|\d\d)", ("none", "low", "medium", "high")),
    (r"gpt-", ("none",)),
    (r"o[1-9]", ("low", "medium", "high")),
    (r"gemini-3-pro", ("low", "high")),
    (r"gemini-([3-9]|\d\d)[^/]*-pro", ("low", "medium", "high")),
    (r"gemini-([3-9]|\d\d)", ("minimal", "low", "medium", "high")),
    (r"gemini-2\.5-pro", ("minimal", "low", "medium", "high")),
    (r"gemini-2\.5", ("none", "minimal", "low", "medium", "high")),
    (r"gemini-(1|2)", ("none",)),
)

# Anthropic removed the sampling parameters with Opus 4.7; OpenAI's models accept them only without reasoning
# ("Reasoning models", limitations).
_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "logprobs")
_NO_SAMPLING = r"claude-(fable|mythos|[a-z]+-[5-9]|opus-4-[7-9])|o[1-9]|gpt-5(?![^/]*-chat)(?!\.)|gpt-5[^/]*-codex"

# Structured outputs exist since Sonnet 4.5 and Opus 4.1, and since GPT-4o.
_NO_SCHEMA = (
    r"claude-(2|3|v1|instant|4-|(opus|sonnet)-4(-0|-2025\d{4})?(@|$))|gpt-3|gpt-4(-turbo|-32k|-\d{4})?($|-preview)"
    r"|o1-(mini|preview)"
)

_SCHEMA_OR_TOOLS = r"gemini-(1|2)"
"""Gemini accepts both in one request since version 3 ("Structured outputs with tools")."""

_TOOLS_OR_EFFORT = SINCE_GPT_5_6
"""Chat Completions since GPT-5.6: "Function tools with reasoning_effort are not supported"."""


@lru_cache(maxsize=256)  # looked up for every request
def supported_efforts(model: str) -> tuple[Effort, ...] | None:
    """Return the reasoning efforts that *model* accepts, or None for an unknown model."""
    for pattern, levels in _EFFORTS:
        if in_family(pattern, model):
            return levels
    return None


def reasons_by_effort(model: str) -> bool:
    """Return whether Claude takes an effort ("Adaptive thinking"); earlier models take a token budget."""
    return in_family(_BY_EFFORT, model)


def check_settings(request: ModelRequest, provider: str, *, chat: bool = False) -> None:
    """Raise `UnsupportedError` if the model is known not to accept a setting; *chat* selects Chat Completions."""
    if request.extra:
        check_extra(request, provider)
    model, effort = request.model, request.effort
    levels = supported_efforts(model)
    if effort is not None and levels is not None and effort not in levels:
        raise unsupported(provider, model, f"effort={effort!r}", f"choose from {', '.join(map(repr, levels))}")
    reasons = effort not in (None, "none")
    for name in _SAMPLING:
        value = getattr(request, name)
        if value is not None and (in_family(_NO_SAMPLING, model) or (in_family("gpt-", model) and reasons)):
            raise unsupported(provider, model, f"{name}={value:g}", "leave it out")
    if request.output_schema is not None:
        if in_family(_NO_SCHEMA, model):
            raise unsupported(provider, model, "output_schema", "force a tool with this schema, or use a newer model")
        if request.tools and in_family(_SCHEMA_OR_TOOLS, model):
            raise unsupported(provider, model, "output_schema together with tools", "send only one, or use Gemini 3")
    if chat and reasons and request.tools and in_family(_TOOLS_OR_EFFORT, model):
        raise unsupported(
            provider, model, f"effort={effort!r} together with tools", 'use api="responses" or effort="none"'
        )


_SETTINGS = ("top_p", "seed", "frequency_penalty", "presence_penalty", "stop", "service_tier", "logprobs")
_UNSET: tuple[object, ...] = (None, "", ())
_OPTIONS = {
    "stream": "set streams= of the model",
    "extra_headers": "set headers= of the request",
    "headers": "set headers= of the request",
    "betas": 'set headers={"anthropic-beta": ...} of the request',
    "extra_query": "give the model a client with these parameters",
    "extra_body": "put its fields into extra itself",
    "timeout": "set timeout= of the model",
    "max_retries": "set Resources(retry=)",
}
"""Options of the vendors' SDKs that are no fields of a request, and what to use instead."""
_ONE = "an adapter reads one answer; send several requests"
_ONLY = {"n": _ONE, "candidateCount": _ONE, "candidate_count": _ONE}
"""Fields of which only the value 1 is read."""
_UNREAD = {"background": "leave it out: answers are not polled"}


def check_threshold(name: str, tokens: object) -> int:
    """Return *tokens*, from which on the provider compacts. Raises `ConfigurationError` if they are not positive."""
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise ConfigurationError(f"invalid {name} {tokens!r}: use a number of tokens above 0, or None")
    return tokens


def check_extra(request: ModelRequest, provider: str) -> None:
    """Raise `UnsupportedError` for a field in `extra` that no adapter can honor."""
    for part, fields in (("", request.extra), *((name, request.extra.get(name)) for name in _NESTED)):
        for name, value in fields.items() if isinstance(fields, Mapping) else ():
            remedy = _OPTIONS.get(name) or (_ONLY.get(name) if value not in (None, 1) else None)
            remedy = remedy or (_UNREAD.get(name) if value else None)
            if remedy is not None:
                raise unsupported(provider, request.model, f"{part}{name}={value!r} in extra", remedy)


_NESTED = ("generationConfig", "generation_config")


def check_lacking(
    request: ModelRequest, provider: str, lacks: Collection[str], api: str, remedy: str = "leave it out"
) -> None:
    """Raise `UnsupportedError` for a setting of *request* that *api* *lacks*."""
    for name in _SETTINGS:
        if name in lacks and (value := getattr(request, name)) not in _UNSET:
            raise unsupported(provider, request.model, f"{name}={value!r} over {api}", remedy)


def takes_schema(model: str, *, tools: bool) -> bool:
    """Return whether *model* accepts an output schema, in a request with or without *tools*."""
    return not in_family(_NO_SCHEMA, model) and not (tools and in_family(_SCHEMA_OR_TOOLS, model))


def unsupported(provider: str, model: str, field: str, remedy: str) -> UnsupportedError:
    """Return the error for a *field* of a request that *model* does not accept."""
    error = UnsupportedError(f"{provider}: {model} does not take {field}; {remedy}", provider=provider)
    error.part = field.partition("=")[0].partition(" ")[0]
    error.sent = False
    return error


@lru_cache(maxsize=256)  # looked up for every run
def context_window(provider: str, model: str) -> int:  # noqa: ARG001 - the counterpart of `max_output_tokens`
    """Return the size of *model*'s context window in tokens; a cautious guess for an unknown model."""
    return _first(_CONTEXT, model, DEFAULT_CONTEXT)


@lru_cache(maxsize=256)
def max_output_tokens(provider: str, model: str) -> int:
    """Return the most tokens that an answer of *model* may have; a cautious guess for an unknown model."""
    return _first(_OUTPUT, model, DEFAULT_OUTPUT.get(provider, 16_384))


def _first(table: tuple[tuple[str, int], ...], model: str, default: int) -> int:
    return next((figure for pattern, figure in table if in_family(pattern, model)), default)
