"""The resources of runs: models, store, retry, rate limits, dependencies, limits and counter."""

from __future__ import annotations

import functools
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, fields, replace
from decimal import Decimal
from typing import Any, Protocol

from ..context_state import ContextState
from ..errors import ConfigurationError, UnknownModelError
from ..number_checks import check_amount, check_whole
from ..providers.base import Model, model_id
from ..providers.catalog import context_window, max_output_tokens
from ..providers.pricing import preload, price
from ..providers.rate_limit import RateLimit
from ..records import record
from ..scope import Scope
from ..storage.base import Store
from ..token_engine.counting.base import EstimatingCounter, TokenCounter
from ..token_engine.retention import Retention
from ..token_engine.token_engine import TokenEngine
from ..usage import Receipt, Tokens
from .lifecycle.repair import CheckedHistory
from .model_call.retry import Retry

log = logging.getLogger("concertino")
_CONVERSATIONS = 64
"""The number of conversations that a process keeps, so that their next run costs only what is new."""
_IN_CATALOG = ("anthropic", "openai", "google")
_LONGEST_ANSWER = 32_000
"""Tokens. Reasoning is part of the answer, so this is more than a report needs."""


@record(kw_only=True)
class Limits:
    """The limits of a run and of its tree. Raises `ConfigurationError` if one of them is too small to be useful.

    At a limit, the hook `on_limit` decides, and the run may take one last step. Limits of the tree count the run with
    all its sub-agents; those of the root run apply.
    """

    context: int = 128_000
    """Tokens of a request, including those reserved for the answer."""
    output: int = 4_096
    """Tokens of an answer."""
    tool_calls: int = 25
    """Tool calls that count as iterations, of the agent itself; a sub-agent has its own limit."""
    parallel_tools: int = 64
    """Tools that run at the same time; 1 for one after another."""
    media_bytes: int = 20_000_000
    """Bytes of all media of one message or one tool result."""
    steps: int | None = None
    """Steps of the agent itself; None for 100, or twice `tool_calls` if that is more."""
    hook_seconds: float = 300.0
    """Seconds that one call of a hook may wait. A hook that blocks its thread cannot be interrupted."""
    model_calls: int | None = None
    """Attempts at a model in the tree; None for 500, or twice `tool_calls` if that is more."""
    all_tool_calls: int | None = None
    """All tool calls in the tree, whether or not they count as iterations; None for 1,000, or twice `tool_calls` if
    that is more."""
    depth: int = 5
    """Levels of sub-agents below the root."""
    seconds: float = 3_600.0
    """Seconds of work in the tree, in all processes, without the time that a suspended run waits."""
    received: int = 50_000_000
    """Characters of all answers in the tree."""
    tokens: int | None = None
    """Tokens of the tree after which no further step begins; None for no limit. Needs no store. Nothing is reserved, so
    the last step may exceed the limit; a `Budget` is never exceeded."""
    cost: Decimal | None = None
    """US dollars of the tree, limited like `tokens`."""

    def __post_init__(self) -> None:
        for name in _WHOLE:
            check_whole("Limits", name, getattr(self, name), optional=name in _OPTIONAL)
        for name in ("hook_seconds", "seconds", "cost"):
            check_amount("Limits", name, getattr(self, name), optional=name == "cost")
        if self.output >= self.context:
            raise ConfigurationError(
                f"Limits(output={self.output:,}) fills a context of {self.context:,} tokens: choose a smaller output, "
                f"or use Resources(limits=limits_within({self.context}))"
            )


_OPTIONAL = ("steps", "model_calls", "all_tool_calls", "tokens")
_USUAL = {item.name: item.default for item in fields(Limits)}
_NAMES = tuple(_USUAL)
_WHOLE = ("context", "output", "tool_calls", "parallel_tools", "media_bytes", "depth", "received", *_OPTIONAL)


def limits_form(limits: Limits) -> dict[str, Any]:
    """Return the values of *limits* that differ from the defaults, for the journal."""
    found: dict[str, Any] = {}
    for name in _NAMES:
        if (value := getattr(limits, name)) != _USUAL[name]:
            found[name] = str(value) if name == "cost" else value
    return found


def limits_from(form: Mapping[str, Any]) -> Limits:
    """Return the limits that `limits_form` wrote."""
    found = dict(form)
    if "cost" in found:
        found["cost"] = Decimal(found["cost"])
    return Limits(**found)


def limits_below(limits: Limits, left: Mapping[str, Any]) -> Limits:
    """Return *limits* of a tree that works for a call of another tree, of whose limits so much is *left*."""
    least: dict[str, Any] = {}
    for name, amount in left.items():
        most = Decimal(amount) if name == "cost" else amount
        own = getattr(limits, name)
        least[name] = most if own is None else min(own, most)
    return replace(limits, **least)


class HasLimits(Protocol):
    """The part of an agent that a limits function may read."""

    name: str
    tool_call_limit: int
    output_retries: int


class LimitsFunction(Protocol):
    """A function that returns the limits of a run. Set `Resources(limits=...)` to make them depend on the scope."""

    def __call__(self, scope: Scope, model: Model, agent: HasLimits) -> Limits:
        """Return the limits of a run of *agent* with *model* for *scope*."""


def default_limits(scope: Scope, model: Model, agent: HasLimits) -> Limits:  # noqa: ARG001 - the port's signature
    """Return limits with the model's context window and the agent's tool call limit, for every user.

    The context window is the model's attribute `context_window`, or that of the catalog.
    """
    context = getattr(model, "context_window", None)
    output = 4_096
    if context is None and model.provider in _IN_CATALOG:
        context = context_window(model.provider, model.name)
        output = min(max_output_tokens(model.provider, model.name), _LONGEST_ANSWER)
    context = context or 128_000
    return _limits(context, min(output, max(context // 4, 1)), agent.tool_call_limit)


@functools.lru_cache(256)
def _limits(context: int, output: int, tool_calls: int) -> Limits:
    """Return the same object for the same limits: most runs share a few."""
    return Limits(context=context, output=output, tool_calls=tool_calls)


def limits_within(context: int | None) -> LimitsFunction:
    """Cap the default limits at *context* tokens per request, answer included; None for no cap.

    Use the returned function as `Resources(limits=...)`. Raises `ConfigurationError` if *context* is anything else.
    """
    check_whole("limits_within", "context", context, optional=True)

    def limits(scope: Scope, model: Model, agent: HasLimits) -> Limits:
        found = default_limits(scope, model, agent)
        if context is None or context >= found.context:
            return found
        return replace(found, context=context, output=min(found.output, max(context // 4, 1)))

    return limits


@record
class KeptConversation:
    """The conversation of a finished run: what its next run in this process need not do again."""

    context: ContextState
    window: TokenEngine
    checked: CheckedHistory


@record(kw_only=True)
class Resources:
    """The resources of runs. A product shares one object between runs, or creates one per tenant."""

    model: Model | None = None
    """The model for chats that name no model."""
    models: Callable[[str], Model] | None = None
    """Opens a model by its id, once per id: for chats and agents that name a model, and for `fallback`. Who supplies
    the function closes the models; `concertino.wiring.Models` does both."""
    store: Store | None = None
    """The store that records runs; None to record nothing."""
    retry: Retry = Retry()
    """How often a failed model call is repeated."""
    fallback: Sequence[str] = ()
    """Ids of models to call, in this order, after the chosen model has failed."""
    rate_limits: Mapping[str, RateLimit] = field(default_factory=dict)
    """The requests and tokens per minute that a key allows, by provider. Share one object between all runs."""
    allowed_tools: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names of the tools that the runs of an agent get, by agent. An agent that is not listed gets all its
    tools."""
    deps: Any = field(default=None, repr=False)
    """The product's own object for its tools (`ToolContext.deps`)."""
    limits: LimitsFunction = default_limits
    counter: TokenCounter = field(default_factory=EstimatingCounter)
    retention: Retention = Retention()
    """How much of a conversation stays unchanged while it grows."""
    price: Callable[[str, str, Tokens, Receipt | None], tuple[Decimal | None, str]] = price
    """Returns the cost of an attempt in US dollars, or None if it is unknown, and the version of the price list. The
    receipt is None if the provider reported nothing; for a reservation, it has only the service tier."""
    # Not `init`: resources that `dataclasses.replace` makes are other ones, and must not share opened models.
    _opened: dict[str, Model | None] = field(init=False, default_factory=dict, repr=False, compare=False)
    _kept: OrderedDict[int, KeptConversation] = field(
        init=False, default_factory=OrderedDict, repr=False, compare=False
    )

    def within(
        self, store: Store, rate_limits: Mapping[str, RateLimit], allowed_tools: Mapping[str, Collection[str]]
    ) -> Resources:
        """Return these resources with *store*, and with these limits and tools where they have none.

        Both objects share the opened models and the kept conversations.
        """
        found = replace(
            self,
            store=store,
            rate_limits={**rate_limits, **self.rate_limits},
            allowed_tools={**allowed_tools, **self.allowed_tools},
        )
        object.__setattr__(found, "_opened", self._opened)
        object.__setattr__(found, "_kept", self._kept)
        return found

    def is_valid(self) -> bool:
        """Return whether these resources were checked already; they are frozen, so once is enough."""
        return "" in self._opened

    def mark_valid(self) -> None:
        """Remember that these resources were checked."""
        self._opened[""] = None

    def find_model(self, wanted: str) -> Model:
        """Return the model with the id *wanted*. Raises `UnknownModelError`, and what `models` raises."""
        if self.model is not None and wanted == model_id(self.model):
            return self.model
        if (found := self._opened.get(wanted)) is not None:
            return found
        if self.models is None:
            raise UnknownModelError(
                f"model {wanted!r} cannot be opened: give the run Resources(models=concertino.wiring.Models())"
            )
        found = self.models(wanted)
        if not hasattr(found, "stream"):
            raise ConfigurationError(
                f"Resources(models=...) returned {found!r:.80} for {wanted!r}; it must return a model"
            )
        self._opened[wanted] = found
        return found

    def keep(self, conversation: KeptConversation) -> None:
        """Keep a conversation for its next run in this process."""
        self._kept[id(conversation.context)] = conversation
        if len(self._kept) > _CONVERSATIONS:
            self._kept.popitem(last=False)

    def kept(self, context: ContextState | None) -> KeptConversation | None:
        """Return the conversation of the run that returned *context*; None if this process does not keep it."""
        found = self._kept.get(id(context))
        return found if found is not None and found.context is context else None

    def preload_prices(self, model: Model, model_id: str) -> None:
        """Load the prices of *model* in a thread, once, so that its first attempt does not block the event loop."""
        key = f"prices of {model_id}"
        if self.price is price and key not in self._opened:
            self._opened[key] = None
            preload(model.provider, model.name)

    def cost_of(
        self, provider: str, model: str, tokens: Tokens, receipt: Receipt | None
    ) -> tuple[Decimal | None, str, str]:
        """Return cost and price list of *tokens* as `price`, and how the product's function failed; "" if it did not.

        The cost is unknown then: an attempt is booked whatever happens.
        """
        try:
            cost, version = self.price(provider, model, tokens, receipt)
        except Exception as error:  # noqa: BLE001 - it is the product's function
            problem = f"raised {type(error).__name__}: {error}"[:200]
        else:
            if (cost is None or isinstance(cost, Decimal)) and isinstance(version, str):
                return cost, version, ""
            problem = f"returned {(cost, version)!r:.80}"
        remedy = "return a Decimal, or None if the price is unknown, and the name of the price list"
        problem = f"the cost of {provider}:{model} is unknown, since Resources(price=...) {problem}; {remedy}"
        log.error("%s", problem)
        return None, "", problem

    def limits_of(self, scope: Scope, model: Model, agent: HasLimits) -> Limits:
        """Return the limits of *agent* with *model*. Raises `ConfigurationError` if the function returns none."""
        found = self.limits(scope, model, agent)
        if not isinstance(found, Limits):
            raise ConfigurationError(f"Resources(limits=...) returned {found!r:.80}; it must return Limits")
        return found
