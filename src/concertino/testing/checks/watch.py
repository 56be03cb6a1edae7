"""The hooks and the tools of a run under observation: what goes in, what comes out, and what changes meanwhile."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from decimal import Decimal
from typing import Any, Protocol

from ...errors import ConfigurationError, HookError, LimitError, ProviderError, StorageError, ToolError
from ...messages import ToolCall
from ...orchestrator.agent import DECISIONS, AgentConfig
from ...orchestrator.hooks import ComposedHook, Hook, Hooks
from ...orchestrator.outcome import Allow, Ask, Fail
from ...orchestrator.plain import dump_state, load_state
from ...orchestrator.run import RunContext
from ...tools.base import Tool, ToolContext
from ...usage import UsageRecord
from .case import Trace

INSIDE: ContextVar[str] = ContextVar("inside", default="")
"""The hook or tool that works in this context: its questions to a model are not turns of the run."""
_PURE = (
    "build_system_prompt",
    "review_input",
    "interpret_response",
    "preprocess_tool_arguments",
    "authorize_tool_call",
    "get_data_policy",
)
"""The hooks whose decision depends on their arguments and the agent's state alone."""
_BLOCKING = ("time.sleep", "socket.getaddrinfo", "urllib.Request", "http.client.connect", "os.system")
"""Names of audit events of calls that block the event loop."""
_UNTIL_CANCELLED = 50
"""Turns of the event loop in which a cancellation reaches every task of a run."""


class Watched(Protocol):
    """The play that the hooks and tools belong to."""

    trace: Trace
    twice: bool
    stopped: bool
    gone: bool

    async def point(self, name: str) -> None:
        """Pass a point."""


class WatchedHooks(Hooks):
    """The hooks of an agent, each of which is observed."""

    def __init__(self, config: AgentConfig[Any], play: Watched) -> None:
        super().__init__(config)
        self.watch = HookWatch(play)
        for name in DECISIONS:
            hook: Hook[Any] = getattr(self, name)
            if hook.own:
                hook.default = functools.partial(self.watch.call, name, hook, hook.default)
                if isinstance(hook, ComposedHook):
                    hook._composed = hook.default


class HookWatch:
    """Calls hooks, and reports the contracts that they break."""

    def __init__(self, play: Watched) -> None:
        self._play = play
        self._asked: dict[tuple[str, str], str] = {}
        """The calls that needed a person, and what the person said."""
        self.state = ""
        """The agent's state as the journal would have it now."""
        self.reviewed: dict[str, str | None] = {}
        """By message of the user: the text that the agent admitted; None for a decision."""

    async def call(self, name: str, hook: Hook[Any], function: Callable[..., Any], *args: Any) -> Any:
        """Call the hook *name* and return its value."""
        play = self._play
        stopped_before = play.stopped
        if name != "get_data_policy":
            await play.point(f"hook {name}")
        run = args[0] if args else None
        given, state = _content(args), _run_state(run)
        earlier = copy.deepcopy(run.agent_state) if play.twice and run is not None else None
        try:
            value = await _observed(name, function, args)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if play.stopped and not stopped_before:
                self._report("stop", f"{name} answers a stop with {type(error).__name__}")
            elif not (isinstance(error, ToolError) and name == "preprocess_tool_arguments") and not _provoked(error):
                self._report("hook", str(error) if isinstance(error, HookError) else f"{name} raises {_shown(error)}")
            raise
        if play.stopped and not stopped_before:
            await self._expect_cancellation(name)
        if calls := _BLOCKED.pop(threading.get_ident(), None):
            self._report("blocking", f"{name} blocks the event loop with {calls}")
        try:
            hook._check(value)
        except HookError as error:
            self._report("hook", str(error))
            return value
        if _content(args) != given:
            self._report("input", f"{name} changes its arguments")
        if _run_state(run) != state:
            self._report("input", f"{name} changes run.state")
        if play.twice and name in _PURE:
            self._repeat(name, function, args, value, earlier)
        self._judge(name, run, args, value)
        return value

    def _report(self, kind: str, problem: str) -> None:
        if not self._play.gone:
            self._play.trace.report(kind, problem)

    async def _expect_cancellation(self, name: str) -> None:
        """Report a hook that returns from a cancellation as if there was none."""
        for _ in range(_UNTIL_CANCELLED):
            await asyncio.sleep(0)
        self._report("stop", f"{name} swallows the cancellation, and the run continues")

    def _repeat(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], value: Any, earlier: Any) -> None:
        """Make the decision again with the same input, and an authorization also with the call spelled differently."""
        run = args[0] if args else None
        again = _at_once(function, run, earlier, args)
        if again is not _LATER and again != value:
            self._report("unstable", f"{name} decides differently about the same input: {value!r:.60}, {again!r:.60}")
        if name == "authorize_tool_call" and isinstance(args[1], ToolCall):
            spelled = json.dumps(args[2], indent=1, default=str)
            other = _at_once(function, run, earlier, (run, replace(args[1], arguments=spelled), dict(args[2])))
            if other is not _LATER and type(other) is not type(value):
                problem = f"authorize_tool_call decides by the spelling of the arguments: {value!r:.60}, {other!r:.60}"
                self._report("approval", problem)

    def _judge(self, name: str, run: Any, args: tuple[Any, ...], value: Any) -> None:
        if isinstance(value, Fail):
            self._play.trace.error = value.error
        if isinstance(run, RunContext) and name != "initialize_agent_state":
            self._check_state(run.agent_state)
        elif name == "initialize_agent_state":
            self._check_state(value)
        match name:
            case "review_input":
                self.reviewed[args[1]] = value if isinstance(value, str) else None
            case "calculate_usage":
                self._check_usage(args[1], value)
            case "authorize_tool_call":
                self._check_approval((args[1].name, json.dumps(args[2], sort_keys=True, default=str)), value)

    def _check_state(self, state: Any) -> None:
        """Report a state that the journal does not bring back as it was."""
        try:
            text = dump_state(state)
            if text is None or text == self.state:
                return
            restored = load_state(state, text)
        except ConfigurationError as error:
            self._report("state", str(error))
            return
        if (lost := _difference(state, restored, "agent_state")) is not None:
            self._report("state", f"{lost} comes back from the journal differently")
        self.state = text

    def _check_usage(self, measured: UsageRecord, booked: UsageRecord) -> None:
        for field in ("id", "run_id", "agent_path"):
            if getattr(measured, field) != getattr(booked, field):
                self._report("usage", f"calculate_usage changes {field} to {getattr(booked, field)!r:.60}")
        if booked.tokens != measured.tokens:
            self._report("usage", f"calculate_usage changes the measured tokens to {booked.tokens}")
        cost = booked.cost
        if cost is not None and not (isinstance(cost, Decimal) and cost.is_finite() and cost >= 0):
            self._report("usage", f"calculate_usage sets the cost to {cost!r:.60}; use a Decimal of at least 0")

    def _check_approval(self, call: tuple[str, str], decision: Any) -> None:
        said = self._asked.get(call)
        if isinstance(decision, Ask):
            self._asked[call] = "asked"
        elif isinstance(decision, Allow) and said in ("asked", "denied"):
            why = "was denied by a person" if said == "denied" else "still waits for a person"
            self._report("approval", f"authorize_tool_call allows the same call of {call[0]} that {why}")

    def said(self, tool: str, arguments: str, verdict: str) -> None:
        """Note what a person answered."""
        self._asked[(tool, json.dumps(json.loads(arguments), sort_keys=True, default=str))] = verdict


def watched_tool(tool: Tool, play: Watched, mark: str = "") -> Tool:
    """Return a copy of *tool* with a point before and after each call; *mark* is added to its text results."""
    twin, execute = copy.copy(tool), tool.execute

    async def awaited(value: Awaitable[Any]) -> Any:
        token = INSIDE.set("tool")
        try:
            await play.point(f"tool {tool.name} starts")
            result = await value
            await play.point(f"tool {tool.name} ends")
        finally:
            INSIDE.reset(token)
            if inspect.iscoroutine(value):
                value.close()  # it has not begun if the process crashed before
        return f"{result} {mark}" if mark and isinstance(result, str) else result

    def run(arguments: dict[str, Any], context: ToolContext) -> Any:
        value = execute(arguments, context)
        return awaited(value) if inspect.isawaitable(value) else value

    object.__setattr__(twin, "execute", run)
    return twin


# -- blocking calls -----------------------------------------------------------------------------------------------------

_BLOCKED: dict[int, str] = {}
"""By thread: the blocking call of the hook that runs there."""
_LOOPS: set[int] = set()
"""The threads of event loops that are watched."""


def _audit(event: str, _args: tuple[Any, ...]) -> None:
    if event in _BLOCKING and threading.get_ident() in _LOOPS and INSIDE.get() == "hook":
        _BLOCKED.setdefault(threading.get_ident(), event)


@functools.cache
def _add_audit() -> None:
    sys.addaudithook(_audit)  # it cannot be removed, and costs nothing outside a check


class BlockingWatch:
    """Notices blocking calls of hooks in this thread."""

    def __enter__(self) -> None:
        _add_audit()
        _LOOPS.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        _LOOPS.discard(threading.get_ident())
        _BLOCKED.pop(threading.get_ident(), None)


# -- values -------------------------------------------------------------------------------------------------------------

_LATER = object()
"""A decision that is not available at once."""


async def _observed(name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    token = INSIDE.set("hook")
    try:
        value = function(*args)
        return await value if inspect.isawaitable(value) else value
    finally:
        INSIDE.reset(token)


def _at_once(function: Callable[..., Any], run: Any, state: Any, args: tuple[Any, ...]) -> Any:
    """Call a hook in the state before, and return its value; `_LATER` if it waits for something or fails."""
    if inspect.iscoroutinefunction(function) and set(function.__code__.co_names) & {"ask", "call", "emit", "notify"}:
        return _LATER
    after = None if run is None else run.agent_state
    try:
        if run is not None:
            run.agent_state = copy.deepcopy(state)
        value = function(*args)
        if not inspect.iscoroutine(value):
            return value
        try:
            value.send(None)
        except StopIteration as end:
            return end.value
        value.close()
    except Exception:  # noqa: BLE001 - the first call has shown how it fails
        return _LATER
    finally:
        if run is not None:
            run.agent_state = after
    return _LATER


def _content(args: tuple[Any, ...]) -> str:
    """Return what a hook may read from its arguments and must not change."""
    return repr([each for each in args if isinstance(each, dict | list | tuple | UsageRecord)])


def _run_state(run: Any) -> str:
    if not isinstance(run, RunContext):
        return ""
    state = run.state
    return repr((state.step, state.iteration, state.has_tool_calls, state.last_step, state.text, state.tool_choice))


def _provoked(error: BaseException | None) -> bool:
    """Return whether *error* follows from one that the check caused itself."""
    while error is not None:
        if isinstance(error, ProviderError | LimitError | StorageError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _difference(one: Any, other: Any, path: str) -> str | None:
    """Return the path of the first part of *one* that *other* lacks or has differently; None if there is none."""
    if isinstance(one, dict) and isinstance(other, dict):
        if list(one) != list(other) and set(one) != set(other):
            return path
        return next((found for key in one if (found := _difference(one[key], other[key], f"{path}[{key!r}]"))), None)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return path
        pairs = enumerate(zip(one, other, strict=True))
        return next((found for i, (a, b) in pairs if (found := _difference(a, b, f"{path}[{i}]"))), None)
    if isinstance(one, set | frozenset) and isinstance(other, set | frozenset):
        return None if one == other else path
    if hasattr(one, "__dict__") and type(one) is type(other):
        mine, theirs = _fields(one), _fields(other)
        if mine.keys() != theirs.keys():
            return f"{path}.{min(mine.keys() ^ theirs.keys())}"
        return next((f for name in mine if (f := _difference(mine[name], theirs[name], f"{path}.{name}"))), None)
    return None if one == other else path


def _fields(value: Any) -> dict[str, Any]:
    """Return the attributes of *value*, without cached ones and those that do not count in a comparison."""
    compared = {name: field.compare for name, field in getattr(value, "__dataclass_fields__", {}).items()}
    private = getattr(value, "__pydantic_private__", None) or {}
    return {
        name: each
        for name, each in {**vars(value), **private}.items()
        if compared.get(name, True) and not isinstance(getattr(type(value), name, None), functools.cached_property)
    }

