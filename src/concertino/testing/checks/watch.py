"""The hooks and the tools of a run under observation: what goes in, what comes out, and what changes meanwhile."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import itertools
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from decimal import Decimal
from typing import Any, Protocol

from ...errors import ConfigurationError, HookError, LimitError, ProviderError, StorageError, ToolError
from ...messages import AssistantMessage, ToolCall, ToolMessage
from ...orchestrator.agent import DECISIONS, AgentConfig
from ...orchestrator.hooks import ComposedHook, Hook, Hooks
from ...orchestrator.outcome import Allow, Ask, Fail, Outcome
from ...orchestrator.plain import dump_state, load_state
from ...orchestrator.run import RunContext
from ...providers.base import ModelRequest
from ...tools.base import Tool, ToolContext
from ...usage import UsageRecord
from .blocking import BlockingWatch
from .scenario import Trace

INSIDE: ContextVar[str] = ContextVar("inside", default="")
"""The hook or tool that works in this context: its questions to a model are not turns of the run."""
_WATCH: ContextVar[HookWatch] = ContextVar("watch")
_PURE = (
    "build_system_prompt",
    "review_input",
    "interpret_response",
    "preprocess_tool_arguments",
    "authorize_tool_call",
    "get_data_policy",
)
"""The hooks whose decision depends on their arguments and the agent's state alone."""
_OURS = (ProviderError, LimitError, StorageError)
"""Errors that the check itself causes."""
_ADDRESSES = 200
"""Objects that exist only while a decision is made again, so that what it creates has other addresses."""
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

    def waits(self, hook: str) -> None:
        """Pass a point at which *hook* waits for something."""


class WatchedHooks(Hooks):
    """The hooks of an agent, each of which is observed by the play that is open in its context."""

    def __init__(self, config: AgentConfig[Any], play: Watched) -> None:
        super().__init__(config)
        self.watch = HookWatch(play)
        _WATCH.set(self.watch)
        for name in DECISIONS:
            hook: Hook[Any] = getattr(self, name)
            if hook.own:
                hook.default = functools.partial(_watched, name, hook, hook.default)
                if isinstance(hook, ComposedHook):
                    hook._composed = hook.default


def _watched(*call: Any) -> Awaitable[Any]:
    """Call a hook for the play of this context: two of them may share an agent."""
    return _WATCH.get().call(*call)


class HookWatch:
    """Calls hooks, and reports the contracts that they break."""

    def __init__(self, play: Watched) -> None:
        self.play = play
        self._asked: dict[tuple[str, str], str] = {}
        """The calls that needed a person, and what the person said."""
        self.state = ""
        """The agent's state as the journal would have it now."""
        self.reviewed: dict[str, str | None] = {}
        """By message of the user: the text that the agent admitted; None for a decision."""

    async def call(self, name: str, hook: Hook[Any], function: Callable[..., Any], *args: Any) -> Any:
        """Call the hook *name* and return its value."""
        play = self.play
        stopped_before = play.stopped
        if name != "get_data_policy":
            await play.point(f"hook {name}")
        run = args[0] if args else None
        parts = _read_only(args)
        given = repr(parts), _run_state(run)
        newest = _newest_results(args[1]) if name == "build_request" else ()
        watch = BlockingWatch(functools.partial(play.waits, name))
        earlier = copy.deepcopy(run.agent_state) if play.twice and run is not None else None
        try:
            value = await _observed(function, args, watch)
        except Exception as error:
            self._judge_failure(name, error, stopped=play.stopped and not stopped_before)
            raise
        if play.stopped and not stopped_before:
            await self._expect_cancellation(name)
        if watch.blocked:
            self._report("blocking", f"{name} blocks the event loop with {watch.blocked}")
        try:
            hook._check(value)
        except HookError as error:
            self._report("hook", str(error))
            return value  # the engine refuses it as well
        if (repr(parts), _run_state(run)) != given:
            self._report("input", f"{name} changes its arguments or run.state")
        if play.twice and name in _PURE:
            self._repeat(name, function, args, value, earlier)
        if newest:
            self._check_results(newest, value)
        self._judge(name, run, args, value)
        return value

    def _report(self, kind: str, problem: str) -> None:
        if not self.play.gone:
            self.play.trace.report(kind, problem)

    def _judge_failure(self, name: str, error: Exception, *, stopped: bool) -> None:
        if stopped and _follows(error, asyncio.CancelledError):
            self._report("stop", f"{name} answers a stop with {type(error).__name__}")
        elif isinstance(error, HookError):  # of a part
            self._report("hook", str(error))
        elif not (isinstance(error, ToolError) and name == "preprocess_tool_arguments") and not _follows(error, *_OURS):
            self._report("hook", f"{name} raises {type(error).__name__}: {error!s:.200}")

    async def _expect_cancellation(self, name: str) -> None:
        """Report a hook that returns from a cancellation as if there was none."""
        for _ in range(_UNTIL_CANCELLED):
            await asyncio.sleep(0)
        self._report("stop", f"{name} swallows the cancellation, and the run continues")

    def _repeat(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], value: Any, earlier: Any) -> None:
        """Make the decision again with the same input, and an authorization also with the call spelled differently."""
        run = args[0] if args else None
        taken = [object() for _ in range(_ADDRESSES)]
        again = _at_once(function, run, earlier, args)
        del taken
        if again is not _LATER and again != value:
            self._report("unstable", f"{name} decides differently about the same input: {value!r:.60}, {again!r:.60}")
        if name != "authorize_tool_call" or not isinstance(args[1], ToolCall):
            return
        for spelled in (respelled(args[2]), json.dumps(args[2], indent=1, default=str)):
            other = _at_once(function, run, earlier, (run, replace(args[1], arguments=spelled), dict(args[2])))
            if other is not _LATER and type(other) is not type(value):
                problem = f"authorize_tool_call decides by the spelling of the arguments: {value!r:.60}, {other!r:.60}"
                self._report("approval", problem)

    def _judge(self, name: str, run: Any, args: tuple[Any, ...], value: Any) -> None:
        if isinstance(value, Fail):
            self.play.trace.error = value.error
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
            if text is None:
                return
            restored = load_state(state, text)
        except ConfigurationError as error:
            self._report("state", str(error))
            return
        if (lost := _difference(state, restored, "agent_state")) is not None:
            self._report("state", f"{lost} comes back from the journal differently")
        self.state = text

    def _check_results(self, newest: Sequence[ToolMessage], sent: ModelRequest) -> None:
        """Report a request without the *newest* results. Their text may be anywhere in it, also in part."""
        answered = {each.call_id: each for each in sent.messages if isinstance(each, ToolMessage)}
        missing = [each for each in newest if not _is_part(answered.get(each.call_id), each)]
        shown = f"{sent.system} {sent.messages}" if missing else ""
        for each in missing:
            if repr(each.content)[1:-1] not in shown:
                self._report("message", f"a request lacks the result of {each.name}, {each.content!r:.60}")

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
        reply = self._asked.get(call)
        if isinstance(decision, Ask):
            self._asked[call] = "asked"
        elif isinstance(decision, Allow) and reply in ("asked", "denied"):
            why = "was denied by a person" if reply == "denied" else "still waits for a person"
            self._report("approval", f"authorize_tool_call allows the same call of {call[0]} that {why}")

    def note_reply(self, tool: str, arguments: str, verdict: str) -> None:
        """Note what a person answered."""
        self._asked[(tool, json.dumps(json.loads(arguments), sort_keys=True, default=str))] = verdict


def watched_tool(tool: Tool, marked: Callable[[str, str], str] | None = None) -> Tool:
    """Return a copy of *tool* with a point before and after each call; *marked* marks its text results."""
    twin, execute = copy.copy(tool), tool.execute

    async def awaited(value: Awaitable[Any]) -> Any:
        token, play = INSIDE.set("tool"), _WATCH.get().play
        try:
            await play.point(f"tool {tool.name} starts")
            result = await value
            await play.point(f"tool {tool.name} ends")
        finally:
            INSIDE.reset(token)
            if inspect.iscoroutine(value):
                value.close()  # it has not begun if the process crashed before
        return marked(tool.name, result) if marked is not None and isinstance(result, str) else result

    def run(arguments: dict[str, Any], context: ToolContext) -> Any:
        value = execute(arguments, context)
        return awaited(value) if inspect.isawaitable(value) else value

    object.__setattr__(twin, "execute", run)
    return twin


# -- values ------------------------------------------------------------------------------------------------------------

_WORDS = re.compile(r"\w+")
_LATER = object()
"""A decision that is not available at once."""


async def _observed(function: Callable[..., Any], args: tuple[Any, ...], watch: BlockingWatch) -> Any:
    token = INSIDE.set("hook")
    try:
        value = watch.call(function, *args)
        return await watch.steps(value) if inspect.isawaitable(value) else value
    finally:
        INSIDE.reset(token)


def _at_once(function: Callable[..., Any], run: Any, state: Any, args: tuple[Any, ...]) -> Any:
    """Call a hook in the state before, and return its value; `_LATER` if it waits for something or fails."""
    if inspect.iscoroutinefunction(function) and set(function.__code__.co_names) & {"ask", "call", "emit", "notify"}:
        return _LATER
    try:
        if run is not None:
            args = (copy.copy(run), *args[1:])  # a decision must not depend on the object either
            args[0].agent_state = copy.deepcopy(state)
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
    return _LATER


def _read_only(args: tuple[Any, ...]) -> list[Any]:
    """Return what a hook may read from its arguments and must not change. A request is its own, but not the tools."""
    parts = [each.tools if isinstance(each, ModelRequest) else each for each in args]
    return [each for each in parts if isinstance(each, dict | list | tuple | Outcome | UsageRecord)]


def _is_part(sent: ToolMessage | None, result: ToolMessage) -> bool:
    """Return whether *sent* has anything of *result*. An error may be put in other words."""
    if sent is None or sent is result or sent.content == result.content or result.is_error:
        return sent is not None
    words = set(_WORDS.findall(result.content))
    return not words or not words.isdisjoint(_WORDS.findall(sent.content))


def _newest_results(request: ModelRequest) -> tuple[ToolMessage, ...]:
    """Return the results that the model has not seen yet."""
    since = itertools.takewhile(lambda each: not isinstance(each, AssistantMessage), reversed(request.messages))
    return tuple([each for each in since if isinstance(each, ToolMessage)])


def _run_state(run: Any) -> str:
    if not isinstance(run, RunContext):
        return ""
    state = run.state
    return repr((state.step, state.iteration, state.has_tool_calls, state.last_step, state.text, state.tool_choice))


def _follows(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """Return whether *error*, or an earlier error of its chain, is one of *kinds*."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__ or error.__context__
    return error is not None


def respelled(value: Any) -> str:
    """Return *value* as JSON that no other spelling of it resembles: without spaces, and with all letters escaped."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{respelled(str(key))}:{respelled(value[key])}" for key in reversed(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(respelled, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    units = value.encode("utf-16-be", "surrogatepass").hex()
    return '"' + "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)) + '"'


def _difference(one: Any, other: Any, path: str) -> str | None:
    """Return the path of the first part of *one* that *other* lacks or has differently; None if they are equal."""
    mine, theirs = _parts(one), _parts(other)
    if mine is None or theirs is None or isinstance(one, tuple) != isinstance(other, tuple):
        return None if one == other else path
    if mine.keys() != theirs.keys():
        return f"{path}{min(map(str, mine.keys() ^ theirs.keys()))}"
    return next((found for key in mine if (found := _difference(mine[key], theirs[key], f"{path}{key}"))), None)


def _parts(value: Any) -> dict[str, Any] | None:
    """Return the parts of *value* by their position in it; None for a value without parts."""
    if isinstance(value, dict):
        return {f"[{key!r}]": each for key, each in value.items()}
    if isinstance(value, list | tuple):
        return {f"[{index}]": each for index, each in enumerate(value)}
    return {f".{name}": each for name, each in _fields(value).items()} if hasattr(value, "__dict__") else None


def _fields(value: Any) -> dict[str, Any]:
    """Return the attributes of *value*, without cached ones and fields that do not count in a comparison."""
    compared = {name: field.compare for name, field in getattr(value, "__dataclass_fields__", {}).items()}
    private = getattr(value, "__pydantic_private__", None) or {}
    return {
        name: each
        for name, each in {**vars(value), **private}.items()
        if compared.get(name, True) and not isinstance(getattr(type(value), name, None), functools.cached_property)
    }
