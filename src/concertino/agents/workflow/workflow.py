"""The definition of a workflow: typed steps, loops and variables, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from ...errors import ConfigurationError
from ...number_checks import check_amount
from ...records import record
from ...tools.base import Tool
from ..stuck import StuckDetection
from .conditions import Condition, check_condition, check_template

Strictness = Literal["low", "medium", "high"]
OnStuck = Literal["nudge", "escalate", "stop"]
BUILT_IN = ("goal", "known", "stale", "facts", "complexity")
"""Variables of every workflow: the task, the sources with current facts, those with stale facts, the facts of this run
and the current ones of earlier runs, and the result of the routing."""
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@record(kw_only=True)
class Verifier:
    """A model that checks a step before it counts as completed."""

    strictness: Strictness = "medium"
    """`low`: only evident failures are refused; `medium`: the notes must follow from the results; `high`: every
    statement needs evidence, and each turn with tools is checked too."""
    model: str | None = None
    """The id of the model, such as a cheaper one; None for the chat's."""
    retries: int = 2
    """The number of times that the step is tried again with the verifier's instruction."""
    tie_break: Literal["judge", "person", "accept", "fail"] = "person"
    """The decision when agent and verifier still disagree: `accept` is the agent's, `fail` the verifier's."""
    judge_model: str | None = None
    who: tuple[str, ...] = ()
    """Ids of the users who may answer a review; empty for every scope that reaches the run."""

    def __post_init__(self) -> None:
        _one_of("strictness", self.strictness, ("low", "medium", "high"))
        _one_of("tie_break", self.tie_break, ("judge", "person", "accept", "fail"))
        _count("retries", self.retries, 0)


@record(kw_only=True)
class Routing:
    """A question that classifies the task before the first step; the answer is the variable `complexity`.

    An agent step may override it by setting `complexity` when it completes.
    """

    levels: Mapping[str, str] = field(
        default_factory=lambda: {"simple": "a small, predictable task", "complex": "a task that needs investigation"}
    )
    """The answers, with descriptions."""
    model: str | None = None
    """The id of the cheap model that classifies; None for the chat's."""
    models: Mapping[str, str] = field(default_factory=dict)
    """The model of the agent steps, by level; without one, the chat's."""

    def __post_init__(self) -> None:
        if len(self.levels) < 2:
            raise ConfigurationError(f"Routing(levels={self.levels!r:.80}): use at least two levels")
        for name in self.models:
            _one_of("models", name, tuple(self.levels))


@record(kw_only=True)
class AgentStep:
    """A step of a model with tools, until it calls `complete_step`. With a verifier, it is a verified step."""

    id: str
    prompt: str
    """A template: the task of this step."""
    tools: Sequence[str] = ()
    """Names of the tools of the registry that the step may call."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """Variables that the completion must set, with descriptions. It can set no other variables."""
    output: str = ""
    """The variable that gets the notes."""
    when: Condition | None = None
    model: str | None = None
    verifier: Verifier | None = None
    outside: bool = False
    """Whether an outside agent does the step; see `workflow_tools`."""


@record(kw_only=True)
class PlannedStep:
    """A step with a plan: a model writes it, the engine executes it, and a model sums up the results."""

    id: str
    prompt: str
    tools: Sequence[str]
    sets: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    when: Condition | None = None
    model: str | None = None
    review: bool = False
    """Whether a person approves, edits or denies the plan before it is executed."""
    who: tuple[str, ...] = ()
    most_items: int = 20
    replans: int = 1
    """The number of new plans after a failed item, an unmet outcome, or a denied plan."""


@record(kw_only=True)
class ScriptedStep:
    """A step that is a single call of a tool, without a model."""

    id: str
    tool: str | Tool | Callable[..., Any]
    """The name of a tool of the registry, a tool, or a function; `@tool(effect=...)` declares its effect."""
    arguments: Mapping[str, Any] | None = None
    """The arguments; texts are templates, and `$name` alone is the variable's value. None: each parameter gets the
    variable of its name."""
    output: str = ""
    """The variable that gets the result."""
    when: Condition | None = None
    on_error: Literal["fail", "continue", "ask"] = "fail"
    """`ask`: a person decides whether to try again."""


@record(kw_only=True)
class HumanStep:
    """A step that waits for a person's approval or answer."""

    id: str
    question: str
    output: str = ""
    """The variable that gets the answer: a text, true for a plain approval, false for a denial."""
    when: Condition | None = None
    who: tuple[str, ...] = ()
    seconds: float | None = None
    """Time until the step counts as denied; None for no deadline."""
    on_denied: Literal["fail", "continue"] = "fail"


Step: TypeAlias = AgentStep | PlannedStep | ScriptedStep | HumanStep


@record(kw_only=True)
class Loop:
    """Steps that repeat: for each item of a list, or until a condition is met after a round."""

    steps: Sequence[Step | Loop]
    each: str = ""
    """The variable with the list."""
    item: str = "item"
    """The variable that gets the item of the round."""
    until: Condition | None = None
    when: Condition | None = None
    most: int = 50
    """The largest number of rounds."""
    otherwise: Literal["fail", "continue"] = "fail"
    """The treatment of a loop that is not done after `most` rounds."""


@record(kw_only=True)
class Workflow:
    """A workflow as data. Raises `ConfigurationError` if a field is invalid."""

    name: str
    steps: Sequence[Step | Loop]
    description: str = ""
    prompt: str = ""
    """The system prompt of all agent steps; instructions for completing a step are added."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Initial values."""
    mode: Literal["tools", "structured"] = "tools"
    """How the model answers in agent steps: with tool calls, of which `complete_step` is one, or with one JSON object
    that states calls, notes, context and completion."""
    answer: str = ""
    """A template of the final answer; empty for the notes of the last step."""
    routing: Routing | None = None
    tool_calls: int = 200
    """The limit of the tool calls of a run."""
    reminders: int = 3
    """The number of reminders for a model that stops without completing its step."""
    on_stuck: OnStuck | Callable[[Any, Any], OnStuck] = "nudge"
    """The reaction to an agent that is stuck: one for all cases, or a function of the run and the `Stuck`."""
    stuck: StuckDetection = field(default_factory=StuckDetection)
    """The thresholds."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _ID.fullmatch(self.name):
            raise ConfigurationError(f"invalid name {self.name!r:.80}: use 1 to 64 small letters, digits, '_' and '-'")
        _one_of("mode", self.mode, ("tools", "structured"))
        if not callable(self.on_stuck):
            _one_of("on_stuck", self.on_stuck, ("nudge", "escalate", "stop"))
        _count("tool_calls", self.tool_calls, 1)
        _count("reminders", self.reminders, 0)
        steps = list(all_steps(self.steps))
        if not steps:
            raise ConfigurationError(f"workflow {self.name!r} has no steps")
        ids = [step.id for step in steps]
        for step in steps:
            if not isinstance(step.id, str) or not _ID.fullmatch(step.id) or ids.count(step.id) > 1:
                raise ConfigurationError(
                    f"workflow {self.name!r}: invalid step id {step.id!r:.80}: use small letters, digits, '_' and '-', "
                    "and each id once"
                )
        names = self.names
        for name in self.variables:
            _variable("variables", name)
        for step in steps:
            _check_step(f"step {step.id!r}", step, names)
        for loop in all_loops(self.steps):
            _check_loop(loop, names)
        check_template("answer", self.answer, names)

    @property
    def names(self) -> frozenset[str]:
        """The names of all variables."""
        found = {*BUILT_IN, *self.variables, *[loop.item for loop in all_loops(self.steps)]}
        for step in all_steps(self.steps):
            found |= {step.output, *getattr(step, "sets", ())}
        return frozenset(found - {""})


def all_steps(steps: Sequence[Step | Loop]) -> Iterator[Step]:
    """Yield the steps in order, those of loops included."""
    for each in steps:
        if isinstance(each, Loop):
            yield from all_steps(each.steps)
        elif isinstance(each, Step):
            yield each
        else:
            raise ConfigurationError(
                f"{each!r:.80} is not a step: use AgentStep, PlannedStep, ScriptedStep or HumanStep"
            )


def all_loops(steps: Sequence[Step | Loop]) -> Iterator[Loop]:
    """Yield the loops in order, inner ones included."""
    for each in steps:
        if isinstance(each, Loop):
            yield each
            yield from all_loops(each.steps)


def _check_step(owner: str, step: Step, names: frozenset[str]) -> None:
    check_condition(owner, step.when, names)
    if step.output:
        _variable(f"{owner}: output", step.output)
    match step:
        case AgentStep() | PlannedStep():
            check_template(owner, step.prompt, names)
            for name in step.sets:
                _variable(f"{owner}: sets", name)
            if isinstance(step, PlannedStep):
                _count(f"{owner}: most_items", step.most_items, 1)
                _count(f"{owner}: replans", step.replans, 0)
        case ScriptedStep():
            _one_of(f"{owner}: on_error", step.on_error, ("fail", "continue", "ask"))
            for text in _texts(step.arguments or {}):
                check_template(owner, text, names)
        case HumanStep():
            check_amount("HumanStep", "seconds", step.seconds, "seconds above 0", optional=True)
            _one_of(f"{owner}: on_denied", step.on_denied, ("fail", "continue"))
            check_template(owner, step.question, names)


def _check_loop(loop: Loop, names: frozenset[str]) -> None:
    owner = f"the loop over {loop.each!r}" if loop.each else "the loop"
    check_condition(owner, loop.until, names)
    check_condition(owner, loop.when, names)
    _count(f"{owner}: most", loop.most, 1)
    _one_of(f"{owner}: otherwise", loop.otherwise, ("fail", "continue"))
    if bool(loop.each) == (loop.until is not None):
        raise ConfigurationError(f"{owner}: use either each, the name of a list, or until, a condition")
    _variable(f"{owner}: item", loop.item)
    if loop.each and loop.each not in names:
        raise ConfigurationError(f"{owner}: unknown variable: choose from {', '.join(sorted(names))}")


def _variable(owner: str, name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier() or name in BUILT_IN[:-1]:
        raise ConfigurationError(
            f"{owner}: invalid variable {name!r:.80}: use a name of letters, digits and '_' other than "
            f"{', '.join(BUILT_IN[:-1])}"
        )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigurationError(f"invalid {name} {value!r:.80}: choose from {', '.join(known)}")


def _count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(f"invalid {name} {value!r:.80}: use a whole number of at least {least}")
