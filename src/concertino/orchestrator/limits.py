"""Limits: how much a run may take, from the user's plan, the model and the agent, through one function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from ..errors import ConfigurationError
from ..providers.base import Model
from ..providers.catalog import context_window, max_output_tokens
from ..tools.base import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run. Raises `ConfigurationError` if one of them leaves no room to work."""

    context: int = 128_000
    """Tokens that a request may have, the room for the answer included."""
    output: int = 4_096
    """Tokens that an answer may have."""
    tool_calls: int = 25
    """Tool calls that count as iterations, of the agent itself; a sub-agent has its own limit."""
    parallel_tools: int = 64
    """Tools that run at the same time; 1: one after another."""

    def __post_init__(self) -> None:
        for name in ("context", "output", "tool_calls", "parallel_tools"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"limit {name} is {value!r}; it must be a whole number of at least 1")
        if self.output >= self.context:
            raise ConfigurationError(
                f"limit output ({self.output:,} tokens) leaves no room in a context of {self.context:,}: give a "
                f"smaller output as well, or Chat(limits=limits_within({self.context}))"
            )


class HasLimits(Protocol):
    """What a limits function may ask of an agent."""

    name: str
    tool_call_limit: int


class LimitsFunction(Protocol):
    """Gives the limits of a run. Replace it with `Chat(limits=...)` to make them depend on the user's plan."""

    def __call__(self, session: Session, model: Model, agent: HasLimits) -> Limits: ...


def default_limits(session: Session, model: Model, agent: HasLimits) -> Limits:  # noqa: ARG001 - as the port says
    """The model's own window and the agent's limit, for every user alike.

    A model says its window itself (`context_window`), or the catalogue knows it.
    """
    context = getattr(model, "context_window", None)
    output = 4_096
    if context is None and model.provider in _IN_CATALOGUE:
        context = context_window(model.provider, model.name)
        output = min(max_output_tokens(model.provider, model.name), _LONGEST_ANSWER)
    context = context or 128_000
    return Limits(context=context, output=min(output, max(context // 4, 1)), tool_calls=agent.tool_call_limit)


def limits_within(context: int | None) -> LimitsFunction:
    """The default limits, with at most *context* tokens in a request, the room for its answer included; None: with as
    many as the model takes."""

    def limits(session: Session, model: Model, agent: HasLimits) -> Limits:
        found = default_limits(session, model, agent)
        if context is None or context >= found.context:
            return found
        return replace(found, context=context, output=min(found.output, max(context // 4, 1)))

    return limits


_IN_CATALOGUE = ("anthropic", "openai", "google")
_LONGEST_ANSWER = 32_000
"""Tokens. Reasoning is part of the answer, so this is more than a report has."""
