"""Fault injection: wrappers of a store, a model or a tool that call the test at named points.

The test decides what happens at a point: kill the process, stop it, raise, or wait.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any

from ..providers.base import Model, ModelEvent, ModelRequest, Reply
from ..scope import AnyScope, Operator, Scope
from ..storage.base import Store
from ..storage.call_store import Consumer
from ..storage.conversation_types import DueTurn, QueuedTurn, QueueWhen
from ..storage.types import Claim, ClaimedCall, CommandKind, Due, Entry, Head, RunStart
from ..tools.base import Done, NotDone, Tool, ToolContext
from ..waits import Resolution, Wait

At = Callable[[str, int], Awaitable[None] | None]
"""Called at each point with its name and its number, counted from 1 across all points; may be `async`."""


class Points:
    """The points that were passed. Share one object between all wrappers of a process, so that it counts all points.

    points = Points(lambda name, number: os.kill(os.getpid(), signal.SIGKILL) if number == 7 else None)
    runtime = Runtime(agents, Resources(store=FaultyStore(store, points), model=FaultyModel(model, points)))
    """

    def __init__(self, at: At) -> None:
        self.passed: list[str] = []
        self._at = at

    async def __call__(self, name: str) -> None:
        """Pass the point *name*."""
        self.passed.append(name)
        done = self._at(name, len(self.passed))
        if done is not None:
            await done


def _delegated(name: str) -> Callable[..., Any]:
    def method(self: FaultyStore, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.store, name)(*args, **kwargs)

    return method


class FaultyStore:
    """A `Store` with a point before and after each write, such as `claim:before` and `claim:after`.

    The points of `append` and `begin` contain the kind of the entry: `append:model_requested:before`. Reads have no
    points.
    """

    def __init__(self, store: Store, points: Points) -> None:
        self.store = store
        self._points = points

    async def begin(self, start: RunStart, entry: Entry, claim: Claim) -> bool:
        """See the port; adds points."""
        await self._points("append:started:before")
        limited = await self.store.begin(start, entry, claim)
        await self._points("append:started:after")
        return limited

    async def append(self, entry: Entry) -> Head:
        """See the port; adds points."""
        await self._points(f"append:{entry.kind}:before")
        head = await self.store.append(entry)
        await self._points(f"append:{entry.kind}:after")
        return head

    async def claim(self, scope: AnyScope, run_id: str, owner: str, seconds: float) -> Claim:
        """See the port; adds points."""
        await self._points("claim:before")
        claim = await self.store.claim(scope, run_id, owner, seconds)
        await self._points("claim:after")
        return claim

    async def renew(self, claim: Claim, seconds: float) -> Head:
        """See the port; adds points."""
        await self._points("renew:before")
        head = await self.store.renew(claim, seconds)
        await self._points("renew:after")
        return head

    async def release(self, claim: Claim) -> None:
        """See the port; adds points."""
        await self._points("release:before")
        await self.store.release(claim)
        await self._points("release:after")

    async def resolve(self, scope: AnyScope, key: str, resolution: Resolution, *, run_id: str | None = None) -> Wait:
        """See the port; adds points."""
        await self._points("resolve:before")
        wait = await self.store.resolve(scope, key, resolution, run_id=run_id)
        await self._points("resolve:after")
        return wait

    async def send(self, scope: AnyScope, run_id: str, kind: CommandKind, text: str = "") -> None:
        """See the port; adds points."""
        await self._points("send:before")
        await self.store.send(scope, run_id, kind, text)
        await self._points("send:after")

    async def due(
        self,
        scope: Operator,
        limit: int = 50,
        agents: Collection[str] | None = None,
        *,
        owner: str = "",
        consumer: Consumer | None = None,
    ) -> Due:
        """See the port; adds points."""
        await self._points("due:before")
        due = await self.store.due(scope, limit, agents, owner=owner, consumer=consumer)
        await self._points("due:after")
        return due

    async def claim_due(
        self,
        scope: Operator,
        owner: str,
        seconds: float,
        *,
        limit: int = 50,
        agents: Collection[str] | None = None,
        consumer: Consumer | None = None,
    ) -> Sequence[Claim]:
        """Pass the points `claim_due:before` and `claim_due:after`."""
        await self._points("claim_due:before")
        claims = await self.store.claim_due(scope, owner, seconds, limit=limit, agents=agents, consumer=consumer)
        await self._points("claim_due:after")
        return claims

    async def claim_turns(
        self,
        scope: Operator,
        seconds: float,
        *,
        limit: int = 50,
        agents: Collection[str] | None = None,
        consumer: Consumer | None = None,
    ) -> Sequence[DueTurn]:
        """See the port; adds points."""
        await self._points("claim_turns:before")
        turns = await self.store.claim_turns(scope, seconds, limit=limit, agents=agents, consumer=consumer)
        await self._points("claim_turns:after")
        return turns

    async def claim_calls(
        self,
        scope: Operator,
        seconds: float,
        *,
        limit: int = 50,
        targets: Collection[str] | None = None,
        consumer: Consumer | None = None,
        overdue: float = 0.0,
    ) -> Sequence[ClaimedCall]:
        """See the port; adds points."""
        await self._points("claim_calls:before")
        calls = await self.store.claim_calls(
            scope, seconds, limit=limit, targets=targets, consumer=consumer, overdue=overdue
        )
        await self._points("claim_calls:after")
        return calls

    async def postpone(self, scope: AnyScope, root_id: str, *, reason: str, seconds: float | None) -> None:
        """See the port; adds points."""
        await self._points("postpone:before")
        await self.store.postpone(scope, root_id, reason=reason, seconds=seconds)
        await self._points("postpone:after")

    async def retry(self, scope: AnyScope, root_id: str) -> None:
        """See the port; adds points."""
        await self._points("retry:before")
        await self.store.retry(scope, root_id)
        await self._points("retry:after")

    async def queue_turn(
        self, scope: Scope, conversation_id: str, turn: QueuedTurn, *, when: QueueWhen = "busy"
    ) -> bool:
        """See the port; adds points."""
        await self._points("queue_turn:before")
        queued = await self.store.queue_turn(scope, conversation_id, turn, when=when)
        await self._points("queue_turn:after")
        return queued

    async def move_schedule(
        self, scope: AnyScope, schedule_id: str, due_at: float | None, *, since: float | None
    ) -> bool:
        """See the port; adds points."""
        await self._points("move_schedule:before")
        moved = await self.store.move_schedule(scope, schedule_id, due_at, since=since)
        await self._points("move_schedule:after")
        return moved

    async def put_secret(self, scope: Scope, name: str, sealed: str, *, version: int | None) -> bool:
        """See the port; adds points."""
        await self._points("put_secret:before")
        done = await self.store.put_secret(scope, name, sealed, version=version)
        await self._points("put_secret:after")
        return done

    open_conversation = _delegated("open_conversation")
    conversation = _delegated("conversation")
    conversations = _delegated("conversations")
    turn = _delegated("turn")
    turns = _delegated("turns")
    all_turns = _delegated("all_turns")
    conversation_marks = _delegated("conversation_marks")
    started_turns = _delegated("started_turns")
    history = _delegated("history")
    steer_turn = _delegated("steer_turn")
    withdraw_turn = _delegated("withdraw_turn")
    postpone_turn = _delegated("postpone_turn")
    approvals = _delegated("approvals")
    select_leaf = _delegated("select_leaf")
    set_title = _delegated("set_title")
    rate_turn = _delegated("rate_turn")
    search_turns = _delegated("search_turns")
    delete_conversation = _delegated("delete_conversation")
    postpone_call = _delegated("postpone_call")
    claim_target = _delegated("claim_target")
    leave_target = _delegated("leave_target")
    draw_quota = _delegated("draw_quota")
    add_schedule = _delegated("add_schedule")
    schedule = _delegated("schedule")
    schedules = _delegated("schedules")
    due_schedules = _delegated("due_schedules")
    delete_schedule = _delegated("delete_schedule")
    secret = _delegated("secret")
    claim_secret = _delegated("claim_secret")
    delete_secret = _delegated("delete_secret")
    load = _delegated("load")
    add_events = _delegated("add_events")
    end_events = _delegated("end_events")
    open_tree = _delegated("open_tree")
    events = _delegated("events")
    event_positions = _delegated("event_positions")
    operations = _delegated("operations")
    settle_usage = _delegated("settle_usage")
    run = _delegated("run")
    runs = _delegated("runs")
    messages = _delegated("messages")
    usage = _delegated("usage")
    unsettled_usage = _delegated("unsettled_usage")
    usage_sums = _delegated("usage_sums")
    waits = _delegated("waits")
    wait = _delegated("wait")
    commands = _delegated("commands")
    set_budget = _delegated("set_budget")
    accounts = _delegated("accounts")
    sweep = _delegated("sweep")
    erase = _delegated("erase")
    close = _delegated("close")


class FaultyModel:
    """A `Model` with the points `model:before`, `model:first` and `model:end`.

    `model:first` follows the first piece; `model:end` precedes the delivery of the complete answer.
    """

    def __init__(self, model: Model, points: Points) -> None:
        self.provider = model.provider
        self.name = model.name
        self._model = model
        self._points = points

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port; adds points."""
        await self._points("model:before")
        first = True
        async for event in self._model.stream(request):
            if isinstance(event, Reply):
                await self._points("model:end")
            yield event
            if first:
                first = False
                await self._points("model:first")

    async def close(self) -> None:
        """See the port; adds points."""
        await self._model.close()


class FaultyTool(Tool):
    """A `Tool` with the points `tool:NAME:before` and `tool:NAME:after`, and `tool:NAME:probed` after its probe."""

    def __init__(self, tool: Tool, points: Points) -> None:
        self._tool = tool
        self._points = points
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters
        self.selection_rule, self.counts_as_iteration = tool.selection_rule, tool.counts_as_iteration
        self.timeout, self.retain, self.effect = tool.timeout, tool.retain, tool.effect
        self.max_tokens, self.remote = tool.max_tokens, tool.remote
        self.interruptible, self.shown = tool.interruptible, tool.shown
        self.background, self.target, self.takes_cards = tool.background, tool.target, tool.takes_cards

    async def should_use(self, context: ToolContext) -> bool:
        """See the port; adds points."""
        return await self._tool.should_use(context)

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """See the port; adds points."""
        return self._tool.validate(arguments)

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """See the port; adds points."""
        await self._points(f"tool:{self.name}:before")
        value = self._tool.execute(arguments, context)
        if inspect.isawaitable(value):
            value = await value
        await self._points(f"tool:{self.name}:after")
        return value

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone | None:
        """See the port; adds points."""
        found = await self._tool.probe(key, context)
        await self._points(f"tool:{self.name}:probed")
        return found
