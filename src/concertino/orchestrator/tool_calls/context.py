"""`ToolContext` as the engine implements it, and the link from a sub-agent to the call that spawned it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ...events import CustomEvent, RunResult, ToolProgress, ToolStreamed, UsageRecorded
from ...ids import call_key, child_run_id, handle_for, usage_id
from ...messages import ToolCall
from ...records import record
from ...scope import Scope
from ...tools.base import DEFAULT_MAX_BYTES, Tool, ToolContext, ToolResult
from ...tools.progress import Progress
from ...tools.registry import ToolRegistry
from ...usage import Tokens
from ...waits import Wait
from ..hooks import Hooks
from ..plain import custom_data, cut_bytes
from ..recall import recall
from ..run import NEGATIVE, NOT_REPORTED, Prompt, RunSession

if TYPE_CHECKING:
    from ...tools.ask_settings import AskSettings

T = TypeVar("T")

OUTSIDE = -1
"""The index of a call outside a turn. The engine's id of such a call is also its call id."""
_LONG = DEFAULT_MAX_BYTES // 4  # characters: a text of fewer needs no count of its bytes
_ASSUMED_CALLS = 4
"""The number of calls that a turn is assumed to have while the model is still writing it."""


@record
class Parent:
    """The tool call that spawned a run."""

    run: RunSession
    call_id: str
    key: str
    """The engine's id of the call."""
    element: str
    """The sub-agent's element of the agent path."""
    ordinal: int
    """The sub-agent's number within the call, from 1."""
    again: bool = False
    """Whether the call is repeated, so that the sub-agent may have started already."""
    cards: Sequence[str] = ()
    """The ids of the results that the sub-agent is given."""

    def child_id(self) -> str:
        """Return the child's run id, which follows from the call's key."""
        return child_run_id(self.key, self.ordinal)


SubAgentTask = str | Callable[[], Awaitable[str]]
"""The task of a sub-agent, or a function that makes it when the sub-agent starts."""
Spawn = Callable[[Parent, Any, SubAgentTask, ToolRegistry | None, int | None], Awaitable[RunResult]]
"""Runs a sub-agent: the call, the agent, its task, its registry and its limit of tool calls."""


class SubAgentWaits(Exception):  # noqa: N818 - a signal from a call to its dispatcher, not an error
    """The call's sub-agent is suspended, and so is the call, until one of its *waits* has an answer."""

    def __init__(self, waits: Sequence[Wait] = ()) -> None:
        super().__init__()
        self.waits = waits


class CallContext(ToolContext):
    """The context of one call of one run; the results of its *siblings*, if their number is known, share the window."""

    __slots__ = (
        "_again",
        "_booked",
        "_call",
        "_hooks",
        "_index",
        "_ordinal",
        "_progress",
        "_run",
        "_siblings",
        "_spawn",
        "_spawned",
        "_step",
        "durable",
        "unkept",
    )

    def __init__(
        self,
        run: RunSession,
        hooks: Hooks,
        call: ToolCall,
        index: int,
        ordinal: int | str,
        spawn: Spawn,
        *,
        siblings: int,
        again: bool,
    ) -> None:
        self._run = run
        self._hooks = hooks
        self._call = call
        self._index = index
        self._ordinal = ordinal
        self._spawn = spawn
        self._again = again
        self.durable = run.journal.on
        self._step = run.state.step
        self._siblings = siblings or _ASSUMED_CALLS
        self._booked = 0
        self._spawned = 0
        self._progress: Progress | None = None
        self.unkept = False
        """Whether the tool has read a result that must not be kept, so that its own must not either."""

    @property
    def run_id(self) -> str:  # type: ignore[override]  # the port promises no more than reading
        """The run's id."""
        return self._run.id

    @property
    def call_id(self) -> str:  # type: ignore[override]
        """The model's id of the call."""
        return self._call.id

    @property
    def key(self) -> str:  # type: ignore[override]
        """The engine's id of the call."""
        return self._call.id if self._index == OUTSIDE else call_key(self._run.id, self._step, self._index)

    @property
    def tool(self) -> str:  # type: ignore[override]
        """The tool's name."""
        return self._call.name

    @property
    def agent_path(self) -> str:  # type: ignore[override]
        """The path of the agent."""
        return self._run.path

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        """The tenant and the user."""
        return self._run.scope

    @property
    def deps(self) -> Any:
        """The product's dependencies."""
        return self._run.resources.deps

    @property
    def progress(self) -> Progress:  # type: ignore[override]
        """The progress that the user sees."""
        if self._progress is None:
            self._progress = Progress(lambda step: self.report(ToolProgress, step))
        return self._progress

    async def spawn(
        self,
        agent: Any,
        task: SubAgentTask,
        *,
        tools: Iterable[Tool] | None = None,
        tool_call_limit: int | None = None,
        cards: Sequence[str] = (),
    ) -> RunResult:
        """See `ToolContext.spawn`."""
        registry = tools if tools is None or isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        self._spawned += 1
        element = f"{agent.name}-{self._ordinal}" + (f".{self._spawned}" if self._spawned > 1 else "")
        parent = Parent(self._run, self._call.id, self.key, element, self._spawned, self._again, cards)
        result = await self._spawn(parent, agent, task, registry, tool_call_limit)
        if result.status == "suspended":
            raise SubAgentWaits(result.waiting)
        return result

    async def _ask(self, prompt: Prompt, output_type: Any, settings: AskSettings) -> Any:
        return await self._run.work().ask(self, prompt, output_type, settings)

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """See `Work.call`."""
        result = await self._run.work().call(self, tool, arguments or {})
        self.unkept = self.unkept or not result.stored
        return result

    def add_usage(self, *, provider: str, model: str, tokens: Tokens | None) -> None:
        """See `ToolContext.add_usage`."""
        run = self._run
        self._booked += 1
        call = handle_for(self.key) if self._index == OUTSIDE else self._index
        usage = usage_id(run.id, self._step, f"call{call}.{self._booked}")
        booked = (usage, provider, model)
        if tokens is None or tokens.negative:
            how = NOT_REPORTED if tokens is None else NEGATIVE
            record = run.record(*booked, Tokens(), (self._call.name,), source="unknown", how=how)
        else:
            record = run.record(*booked, tokens, (self._call.name,))
        run.book(record)
        run.emit(UsageRecorded, record)

    def shared(self, factory: Callable[[], T]) -> T:
        """See `ToolContext.shared`."""
        shared = self._run.tree.shared
        if factory not in shared:
            shared[factory] = factory()
        made: T = shared[factory]
        return made

    def recall(self, handle: str = "", query: str = "") -> str | None:
        """See `ToolContext.recall`."""
        found = recall(self._run.window, handle, query)
        if found is None:
            return None
        self.unkept = self.unkept or not found.stored
        return found.text

    def truncate(self, text: str, reserve: int = 0) -> str:
        """See `ToolContext.truncate`."""
        run, tool = self._run, self._run.registry.get(self._call.name)
        most = run.window.allowance(self._siblings, None if tool is None else tool.max_tokens) - reserve
        return text if len(text) <= most and text.isascii() else run.resources.counter.cut(text, max(most, 1))

    def stream(self, content: str) -> None:
        """See `ToolContext.stream`."""
        self.report(ToolStreamed, cut_bytes(content, DEFAULT_MAX_BYTES) if len(content) > _LONG else content)

    def emit(self, name: str, data: Any = None) -> None:
        """See `ToolContext.emit`."""
        self._run.emit(CustomEvent, name, custom_data(name, data), self._call.name, self._call.id)

    def report(self, kind: Any, *details: Any) -> None:
        """Emit an event of this call, if anyone sees it."""
        run, call = self._run, self._call
        run.emit(kind, call.id, call.name, *details)
        if self._hooks.watches_tools:
            event = kind(run.id, run.path, run.tree.content_index, call.id, call.name, *details)
            self._hooks.observe_tool(run.context, event)

    def end_progress(self) -> list[dict[str, Any]]:
        """End the open progress steps and return all of them for storage."""
        if self._progress is None:
            return []
        self._progress.end()
        return self._progress.serialize()
