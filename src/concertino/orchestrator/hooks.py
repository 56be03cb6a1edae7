"""The hooks of one agent as typed callables: each may be sync or async, and a failure names the hook."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from ..errors import ConfigurationError, HookError, LimitError, ToolError
from ..events import RunEvent, StoppedWork
from ..messages import AssistantMessage, Message, Text, ToolCall
from ..providers.base import ModelRequest
from ..tools.base import Tool
from ..tools.registry import ToolRegistry
from ..usage import UsageRecord
from .agent import DECISIONS, OBSERVERS, AgentConfig, deciders
from .composition import compose
from .journal.data_policy import DataPolicy
from .outcome import Allow, Ask, Continue, Deny, Fail, Finish, NextStep, Special, Turn
from .run import RunContext, RunSession
from .tool_calls.timeouts import shared_deadlines
from .validation import added_problem

log = logging.getLogger("concertino")

R = TypeVar("R")
_SECONDS = 300.0
"""The time limit of a hook that has no run."""


class Hook(Generic[R]):
    """A hook of an agent. If it is not the agent's `own`, `default` may be called instead: it needs no check.

    Its decider is the agent, or one of its parts: the *label* names it in errors.
    """

    __slots__ = ("_agent", "_item", "_kinds", "_name", "default", "label", "own")

    def __init__(
        self, config: AgentConfig[Any], name: str, label: str, function: Callable[..., R] | None = None
    ) -> None:
        self.own = function is not None
        self.label = label
        self._agent = config.name
        self._name = name
        self.default: Callable[..., R] = function or getattr(config, name)
        self._kinds, self._item = _returns()[name]

    async def __call__(self, *args: Any) -> R:
        """Call the hook. Raises `HookError`, and `LimitError` if it takes too long or its own work reaches a limit.

        A `ToolError` about a call's arguments passes through.
        """
        try:
            value = self.default(*args)
            if inspect.isawaitable(value):
                seconds = args[0].limits.hook_seconds if args else _SECONDS
                value = await self._within(value, seconds)
        except (HookError, LimitError):
            raise
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise self.error("was cancelled from within") from error
        except Exception as error:
            if self._name == "preprocess_tool_arguments" and isinstance(error, ToolError):
                raise
            raise self.error(f"raised {type(error).__name__}: {error}") from error
        self._check(value)
        added: Any = value.messages if isinstance(value, Continue | Special) else self._name == "prepare" and value
        if added and (problem := added_problem(args[0], added)):
            raise self.error(f"returned the invalid message {problem}")
        return value

    def error(self, problem: str) -> HookError:
        """Return the error that names the agent, the part if there is one, and the hook."""
        part = f" ({self.label})" if self.label.startswith("part ") else ""
        return HookError(self._agent, self._name, problem, part)

    async def _within(self, value: Awaitable[R], seconds: float) -> R:
        """Wait at most *seconds* for the hook."""
        task, deadlines, expired = asyncio.current_task(), shared_deadlines(), []
        assert task is not None

        def expire() -> None:
            expired.append(True)
            task.cancel()

        deadlines.add(expire, seconds, expire)
        try:
            return await value
        except asyncio.CancelledError:
            if not expired or task.uncancel():
                raise
            why = f"hook {self._name} of agent {self._agent!r} took longer than its limit of {seconds:g} seconds"
            raise LimitError(why, "hook_seconds") from None
        finally:
            deadlines.remove(expire)

    def _check(self, value: Any) -> None:
        if not isinstance(value, self._kinds) or (isinstance(value, str) and str not in self._kinds):
            names = " or ".join("None" if kind is NoneType else kind.__name__ for kind in self._kinds)
            raise self.error(f"returned {_shown(value)}; it must return {names}")
        if isinstance(value, Turn):
            if not isinstance(value.message, AssistantMessage) or not isinstance(value.calls, Sequence):
                problem = f"returned {_shown(value)}; it takes an AssistantMessage and calls"
                raise self.error(problem)
            self._check_items(value.calls, ToolCall)
        elif self._item is not None and isinstance(value, Sequence):
            self._check_items(value, self._item)

    def _check_items(self, items: Sequence[Any], kind: Any) -> None:
        for item in items:
            if not isinstance(item, kind):
                wanted = {ToolCall: "ToolCalls", Tool: "tools"}.get(kind, "messages")
                problem = f"returned a sequence with {_shown(item)}; it must contain {wanted}"
                raise self.error(problem)


class ComposedHook(Hook[R]):
    """A hook that several deciders decide together."""

    __slots__ = ("_composed",)

    def __init__(self, config: AgentConfig[Any], name: str, hooks: Sequence[Hook[Any]]) -> None:
        composed: Any = compose(name, hooks)
        self._composed: Callable[..., Awaitable[Any]] = composed
        super().__init__(config, name, "all parts", composed)

    async def __call__(self, *args: Any) -> R:
        """Call the hooks of all deciders, each of which checks its own result."""
        return await self._composed(*args)  # type: ignore[no-any-return]


class Hooks:
    """The hooks of an agent and its parts, built once per agent object."""

    initialize_agent_state: Hook[Any]
    load_tools: Hook[Sequence[Tool]]
    build_system_prompt: Hook[str]
    review_input: Hook[str | Finish | Fail]
    prepare: Hook[Sequence[Message]]
    should_continue_loop: Hook[NextStep]
    answer_without_model: Hook[Turn | None]
    get_model_id: Hook[str]
    should_send_tools: Hook[bool]
    build_request: Hook[ModelRequest]
    review_answer: Hook[AssistantMessage | NextStep]
    interpret_response: Hook[Turn]
    process_tool_calls: Hook[Sequence[ToolCall] | NextStep]
    on_no_tool_calls: Hook[NextStep]
    on_limit: Hook[NextStep]
    on_tools_disabled: Hook[NextStep]
    preprocess_tool_arguments: Hook[dict[str, Any]]
    authorize_tool_call: Hook[Allow | Deny | Ask]
    handle_special_tools: Hook[Special | None]
    calculate_usage: Hook[UsageRecord]
    after_step: Hook[NextStep]
    conclude: Hook[str]
    get_data_policy: Hook[DataPolicy]

    def __init__(self, config: AgentConfig[Any]) -> None:
        self.config = config
        found = deciders(config)
        vars(self).update(_DEFAULTS or _make_defaults())
        for name, own in found.items():
            if name not in OBSERVERS:
                each = [Hook(config, name, label, function) for label, function in own]
                setattr(self, name, each[0] if len(each) == 1 else ComposedHook(config, name, each))
        self._observers = {name: found[name] for name in OBSERVERS if name in found}
        self.watches_tools = "on_tool_progress" in found
        self.watches_selection = "on_tools_selected" in found
        self.selects_calls = self.interpret_response.own or self.process_tool_calls.own or self.review_answer.own

    def observe_tool(self, run: RunContext[Any], event: RunEvent) -> None:
        """Show *event* to the agent's observer. A failure is logged."""
        self._observe("on_tool_progress", run, event)

    def observe_selection(self, run: RunContext[Any], calls: Sequence[ToolCall]) -> None:
        """Show the selected calls to the agent's observer. A failure is logged."""
        self._observe("on_tools_selected", run, calls)

    def _observe(self, name: str, *args: Any) -> None:
        for label, observe in self._observers[name]:
            try:
                observe(*args)
            except Exception as error:  # noqa: BLE001 - an observer cannot fail a run
                log.error("%s of %s failed: %s", name, label, type(error).__name__)  # noqa: TRY400 - a traceback may show what the data policy forbids


_DEFAULTS: dict[str, Hook[Any]] = {}
"""The hooks that an agent leaves to `AgentConfig`, which all agents share."""


def _make_defaults() -> dict[str, Hook[Any]]:
    config: AgentConfig[Any] = AgentConfig()
    _DEFAULTS.update({name: Hook(config, name, "") for name in DECISIONS})
    return _DEFAULTS


async def within_patience(run: RunSession, hook: str, work: Coroutine[Any, Any, R]) -> R:
    """Run a *hook* that may take long. A cancelled run does not wait for a hook that ignores its cancellation."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=run.tree.patience)
        if not done:
            run.tree.note_stopped("not_stopped", StoppedWork(agent_path=run.path, what="hook", name=hook))
        raise
    return task.result()


async def load_tools(run: RunSession, hooks: Hooks) -> None:
    """Add the tools that the agent loads for *run* and may have. Raises `HookError` if one is invalid."""
    for tool in await hooks.load_tools(run.context):
        if tool.name not in run.registry:
            try:
                run.registry.register(tool)
            except ConfigurationError as error:
                raise hooks.load_tools.error(f"returned an invalid tool: {error}") from error
    agent = hooks.config.name
    if (allowed := run.resources.allowed_tools.get(agent)) is not None:
        report_unknown(allowed, run.registry, agent)


def report_unknown(allowed: Collection[str], registry: ToolRegistry, agent: str) -> None:
    """Log the names of *allowed* tools that *agent* does not have."""
    if unknown := set(allowed).difference(registry.names()):
        _warn(f"agent {agent!r} has no tool {', '.join(map(repr, sorted(unknown)))}, which allowed_tools names")


@functools.lru_cache(maxsize=256)
def _warn(problem: str) -> None:
    """Log *problem*, which each run of an agent has, once."""
    log.warning("%s", problem)


async def reviewed(run: RunSession, hooks: Hooks, message: AssistantMessage) -> AssistantMessage:
    """Return *message*, which a hook or a tool shows as the answer, as the agent's `review_answer` admits it.

    Raises `HookError` for any other decision: there is no turn that could continue or fail.
    """
    decision = await hooks.review_answer(run.context, message)
    if isinstance(decision, Finish):
        decision = AssistantMessage((Text(decision.text),) if decision.text else ())
    if not isinstance(decision, AssistantMessage):
        name = type(decision).__name__
        raise hooks.review_answer.error(f"returned {name} for a text outside a turn: return a message or a Finish")
    run.admitted = decision.text
    return decision


async def reviewed_text(run: RunSession, hooks: Hooks, text: str) -> str:
    """Return the *text* of a hook as `reviewed` admits it, unless it was admitted before."""
    if not hooks.review_answer.own or not text or text == run.admitted:
        return text
    return (await reviewed(run, hooks, AssistantMessage((Text(text),)))).text


def hooks_of(config: AgentConfig[Any]) -> Hooks:
    """Return the hooks of *config*, built at its first run and shared by all its runs."""
    hooks = vars(config).get("_concertino_hooks")
    if hooks is None or hooks.config is not config:  # a copy of an agent carries the hooks of the original
        hooks = vars(config)["_concertino_hooks"] = Hooks(config)
    return hooks


def without_approvals(config: AgentConfig[Any]) -> AgentConfig[Any]:
    """Return a copy of *config* that allows the calls for which it would ask a person.

    For a replay, in which each call has its recorded result.
    """
    made = copy.copy(config)
    hooks = vars(made)["_concertino_hooks"] = Hooks(made)
    decide = hooks.authorize_tool_call
    if decide.own:

        async def allow(*args: Any) -> Any:
            decision = await decide(*args)
            return Allow() if isinstance(decision, Ask) else decision

        answered: Callable[..., Any] = allow
        hooks.authorize_tool_call = Hook(made, "authorize_tool_call", decide.label, answered)
    return made


@functools.cache
def _returns() -> dict[str, tuple[tuple[type, ...], Any]]:
    """Return, by hook, the classes of its results and the class of the items of a sequence, from the annotations."""
    found: dict[str, tuple[tuple[type, ...], Any]] = {}
    for name in DECISIONS:
        returned = get_type_hints(getattr(AgentConfig, name))["return"]
        kinds: list[type] = []
        item = None
        for kind in get_args(returned):
            origin = get_origin(kind) or kind
            if origin is Awaitable:
                continue
            if origin is Sequence:
                item = get_args(kind)[0]
            kinds.append(origin if isinstance(origin, type) else object)
        found[name] = (tuple(kinds), item)
    return found


def _is_cancelled() -> bool:
    """Return whether this task itself is being cancelled, not only something that it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _shown(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.80}"
