"""The definition of a worker: data and three prompts."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal, InvalidOperation
from string import Template
from typing import Any, Literal

from ...errors import ConfigurationError
from ...number_checks import check_amount, check_whole
from ...records import record

Confidence = Literal["low", "medium", "high"]
CONFIDENCE = "confidence"
"""The section of the living document that is replaced."""


@record(kw_only=True)
class LoopConfig:
    """The limits and models of a worker's loop. Raises `ConfigurationError` if a value is invalid."""

    max_passes: int = 5
    cost_budget: Decimal = Decimal("0.50")
    """US dollars per run. A pass begins only below this amount; unknown costs count as nothing."""
    token_budget: int = 200_000
    """Tokens per run, limited like the cost."""
    auto_approve: bool = False
    """Whether calls that write run without a person's approval."""
    think_model: str | None = None
    """The id (`provider:name`) of the model that makes the decisions; None for the chat's model."""
    synthesize_model: str | None = None
    """The model that writes the answer if the loop ends without one; None for the chat's model."""
    escalation_model: str | None = None
    """The stronger model that takes over when the worker is stuck; None for none."""
    pre_enrichment: bool = True
    """Whether tools run before the first pass."""
    tool_calls: int = 50
    """Tool calls per run."""
    temperature: float | None = None
    """The temperature of the decisions; None for the model's default. Reasoning models refuse any other value."""

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "cost_budget", Decimal(str(self.cost_budget)))
        except InvalidOperation:
            raise _invalid("cost_budget", self.cost_budget, "US dollars above 0") from None
        if not (self.cost_budget.is_finite() and self.cost_budget > 0):
            raise _invalid("cost_budget", self.cost_budget, "US dollars above 0")
        for name in ("max_passes", "token_budget", "tool_calls"):
            check_whole("LoopConfig", name, getattr(self, name))
        check_amount("LoopConfig", "temperature", self.temperature, "a number of at least 0", zero=True, optional=True)
        for name in ("auto_approve", "pre_enrichment"):
            if not isinstance(getattr(self, name), bool):
                raise _invalid(name, getattr(self, name), "true or false")
        for name in ("think_model", "synthesize_model", "escalation_model"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                raise _invalid(name, value, "the id of a model, 'provider:name'")
        if not (self.temperature is None or isinstance(self.temperature, int | float)):
            raise _invalid("temperature", self.temperature, "a number")

    def merged(self, overrides: Mapping[str, Any]) -> LoopConfig:
        """Return this configuration with *overrides*. Raises `ConfigurationError` for an unknown name."""
        check_fields("loop", overrides, LoopConfig)
        return dataclasses.replace(self, **overrides)


@record(kw_only=True)
class WorkerContext:
    """The values that a prompt may name. They stay the same from turn to turn, so that the prompt can be cached."""

    tenant: str
    user: str
    name: str
    title: str
    tools: str
    """The tools with their arguments, one a line."""


@record(kw_only=True)
class EnrichmentContext(WorkerContext):
    """The values that the prompt of the pre-enrichment may name."""

    goal: str
    """The user's message."""


Prompt = str | Callable[[Any], str]
"""A template with `$tenant`, `$user`, `$name`, `$title` and `$tools`, or a function of the `WorkerContext`."""


@record(kw_only=True)
class PreEnrichment:
    """Tools that run before the first pass. A small model chooses them among those with the effect `read`."""

    enabled: bool = True
    max_tools: int = 3
    default_tools: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """Names and arguments of the tools that run if the model chooses none in time."""
    model: str | None = None
    """The model that chooses; None for the model that decides."""
    choice_seconds: float = 8.0
    """The time limit of the choice."""
    tool_seconds: float = 12.0
    """The time limit of each tool."""
    prompt: Prompt = ""
    """The prompt for the choice: a function of the `EnrichmentContext`, or a template, also with `$goal`."""

    def __post_init__(self) -> None:
        check_whole("PreEnrichment", "max_tools", self.max_tools)
        for name in ("choice_seconds", "tool_seconds"):
            check_amount("PreEnrichment", name, getattr(self, name), "seconds above 0")
        for each in self.default_tools:
            if len(each) != 2 or not isinstance(each[0], str) or not isinstance(each[1], Mapping):
                raise _invalid("default_tools", each, "a name and arguments: ('data.stats', {})")
        check_template("pre_enrichment prompt", self.prompt, EnrichmentContext)


_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@record(kw_only=True)
class WorkerDefinition:
    """A worker as data. Raises `ConfigurationError` if a field is invalid.

    The worker adds the rules for decisions to the system prompt and, unless the prompt names `$tools`, the tools.
    """

    id: str
    """The name of the agent in URLs, events and records."""
    name: str
    system_prompt: Prompt
    """The expertise: data model, plan of work, form of the answer, rules."""
    synthesis_prompt: Prompt = ""
    """How to write the answer when the loop ends without one."""
    title: str = ""
    description: str = ""
    long_description: str = ""
    icon: str = ""
    status: Literal["active", "coming_soon"] = "active"
    """`coming_soon`: every run is refused."""
    registry: str = ""
    """The name of the registry of its tools, if there are several."""
    tools: Sequence[str] = ()
    """The names of the tools that it may call; empty for all tools of the registry."""
    loop: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `LoopConfig` that differ from the defaults."""
    sections: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(("plan", "findings", "results"), ""))
    """The sections of the living document, with their initial texts."""
    pre_enrichment: PreEnrichment | None = None
    starter_prompts: Sequence[str] = ()
    approval_label: str = "Approve"
    """The label of the button that approves a call; also the note of the approval."""
    empty_state_description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise _invalid("id", self.id, "1 to 64 small letters, digits, '_' and '-'")
        for name in ("name", "title", "description", "long_description", "icon", "registry", "approval_label"):
            if not isinstance(getattr(self, name), str):
                raise _invalid(name, getattr(self, name), "text")
        if not self.name:
            raise _invalid("name", self.name, "text")
        if self.status not in ("active", "coming_soon"):
            raise _invalid("status", self.status, "'active' or 'coming_soon'")
        for name in ("tools", "starter_prompts"):
            values = getattr(self, name)
            if isinstance(values, str) or not all(isinstance(each, str) for each in values):
                raise _invalid(name, values, "a list of texts")
        if not all(isinstance(each, str) for pair in self.sections.items() for each in pair):
            raise _invalid("sections", self.sections, "texts by name")
        LoopConfig().merged(self.loop)
        if not self.system_prompt:
            raise _invalid("system_prompt", self.system_prompt, "a template or a function")
        check_template("system_prompt", self.system_prompt, WorkerContext)
        check_template("synthesis_prompt", self.synthesis_prompt, WorkerContext)


def check_template(name: str, prompt: Prompt, context: type[WorkerContext]) -> None:
    """Raise `ConfigurationError` if a template is malformed or names a field that *context* lacks."""
    if callable(prompt):
        return
    if not isinstance(prompt, str):
        raise _invalid(name, prompt, "a template or a function")
    template = Template(prompt)
    known = [each.name for each in dataclasses.fields(context)]
    if not template.is_valid():
        raise _invalid(name, prompt, "'$$' for a dollar sign")
    for found in template.get_identifiers():
        if found not in known:
            raise ConfigurationError(f"{name}: unknown ${found}: choose from {', '.join(f'${each}' for each in known)}")


def rendered(prompt: Prompt, context: WorkerContext) -> str:
    """Return the text of *prompt*."""
    if callable(prompt):
        return prompt(context)
    values = {each.name: getattr(context, each.name) for each in dataclasses.fields(context)}
    return Template(prompt).substitute(values)


def check_fields(owner: str, values: Mapping[str, Any], kind: type[Any]) -> None:
    """Raise `ConfigurationError` if *values* has a name that *kind* lacks."""
    names = [each.name for each in dataclasses.fields(kind)]
    for name in values:
        if name not in names:
            raise ConfigurationError(f"{owner}: unknown field {name!r}: choose from {', '.join(names)}")


def _invalid(name: str, value: object, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"invalid {name} {value!r:.80}: use {remedy}")
