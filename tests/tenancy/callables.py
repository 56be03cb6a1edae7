"""Every public callable that may touch stored data, found by reflection, and what it is called with.

A new port, a new method or a new argument fails `test_tenancy.py` until it is known here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from concertino import Budget, Chat, Runtime, Scope
from concertino import runtime as runtime_package
from concertino import storage as storage_package
from concertino.runtime import Conversation, ConversationTurn, EventLog, LiveRun, NatsBell, Schedules, Scheduling
from concertino.storage import (
    ApprovalRules,
    Claim,
    ClaimedCall,
    Entry,
    EventBatch,
    EventRow,
    Feedback,
    Memories,
    MemoryStore,
    PostgresStore,
    QueuedTurn,
    QuotaDemand,
    RunStart,
    Schedule,
    SqliteStore,
    Store,
    Vault,
)
from concertino.usage import Tokens, UsageRecord
from concertino.waits import Resolution, Wait, arguments_hash

FACADES: tuple[type[Any], ...] = (Runtime, Store, Memories, ApprovalRules, Conversation, Schedules)
"""The classes whose public methods are tried. `Conversation` has its scope; the others' methods take one."""
WITHOUT_SCOPE: dict[str, str] = {
    "Runtime.close": "parks what is in progress here, and returns nothing",
    "Runtime.look": "does the watchdog's work for all tenants, and returns nothing",
    "Runtime.join": "sets how processes share the work, and returns nothing",
    "Runtime.knows": "names an agent of this process",
    "Schedules.look": "does the watchdog's work for all tenants, and returns nothing",
    "Store.close": "returns nothing",
}
"""Callables that take no scope, and why they need none."""
HELD: dict[type[Any], str] = {
    LiveRun: "a run that `Runtime` returned to its scope",
    ConversationTurn: "a turn that `Conversation` returned to its scope",
    NatsBell: "sends what it is given, and reads nothing",
    EventLog: "read through `Runtime.events`",
    Scheduling: "a part whose tools use the scope of their call",
    SqliteStore: "implements the ports",
    MemoryStore: "implements the ports",
    PostgresStore: "implements the ports",
    Vault: "encrypts what `Store.secret` returns to its scope, and checks the scope again",
}
"""Public classes with methods that are no facades."""
SCOPES = {"AnyScope", "Scope", "Scope | TenantScope", "Operator"}
CARRIERS: dict[str, tuple[type[Any], str]] = {
    "Chat": (Chat, "scope"),
    "RunStart": (RunStart, "scope"),
    "Claim": (Claim, "scope"),
    "Entry": (Entry, "claim"),
    "Sequence[EventBatch]": (EventBatch, "claim"),
}
"""Values that contain the scope of a call, and their field with it."""


@dataclass(frozen=True)
class PublicCallable:
    """A public method of a facade."""

    facade: type[Any]
    name: str
    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"{self.facade.__name__}.{self.name}"

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return the parameters after `self`, by name."""
        return dict(list(inspect.signature(self.function).parameters.items())[1:])

    @property
    def first(self) -> str:
        """Return the annotation of the first argument."""
        return next((str(parameter.annotation) for parameter in self.parameters.values()), "")


def public_callables() -> list[PublicCallable]:
    """Return the public methods of all facades."""
    return [
        PublicCallable(facade, name, function)
        for facade in FACADES
        for name, function in inspect.getmembers(facade, inspect.isfunction)
        if not name.startswith("_")
    ]


def exported_classes() -> Iterator[type[Any]]:
    """Yield the public classes of the packages that store things, if they have async methods."""
    for package in (runtime_package, storage_package):
        for name in package.__all__:
            member = getattr(package, name)
            methods = inspect.getmembers(member, inspect.isfunction) if inspect.isclass(member) else []
            if any(inspect.iscoroutinefunction(each) for key, each in methods if not key.startswith("_")):
                yield member


@dataclass(frozen=True)
class Guess:
    """What a caller with *scope* says: an id in the place of every id."""

    scope: Any
    id: str
    """In the place of a run, a turn, a conversation or a wait."""

    def owner(self) -> Scope:
        """Return a scope that can own a run."""
        return self.scope if isinstance(self.scope, Scope) else Scope(getattr(self.scope, "tenant", ""))

    def wait(self) -> Wait:
        """Return a wait of the run."""
        return Wait(
            key=self.id,
            run_id=self.id,
            root_id=self.id,
            agent_path="clerk",
            call_id="c1",
            tool="pay",
            kind="result",
            arguments="{}",
            arguments_hash=arguments_hash("{}"),
        )

    def claim(self) -> Claim:
        """Return the claim that the guessed tree has, but for its scope."""
        return Claim(root_id=self.id, scope=self.owner(), epoch=1, owner="victim", seconds=60.0)

    def start(self) -> RunStart:
        """Return the start of a sub-agent's run below the guessed one."""
        return RunStart(
            run_id="mine", root_id=self.id, parent_id=self.id, parent_call="c", agent="clerk", agent_path="clerk/clerk",
            conversation_id="", scope=self.owner(), task="", started=1.0,
        )  # fmt: skip

    def entry(self, run_id: str, kind: Any, seq: int) -> Entry:
        """Return a journal entry."""
        return Entry(run_id=run_id, seq=seq, claim=self.claim(), kind=kind)

    def record(self) -> UsageRecord:
        """Return a bill for the first attempt of the guessed run."""
        return UsageRecord(
            id=f"{self.id}:1:1", run_id=self.id, agent_path="clerk", provider="scripted", model="m",
            tokens=Tokens(9, 9), source="measured", how="bill", cost=Decimal(1),
        )  # fmt: skip


ARGUMENTS: Mapping[str, Callable[[Guess], Any]] = {
    "run_id": lambda guess: guess.id,
    "root_id": lambda guess: guess.id,
    "root_ids": lambda guess: [guess.id],
    "key": lambda guess: guess.id,
    "conversation_id": lambda guess: guess.id,
    "turn_id": lambda guess: guess.id,
    "before": lambda guess: guess.id,
    "record": Guess.record,
    "claim": Guess.claim,
    "start": Guess.start,
    "turn": lambda guess: QueuedTurn(run_id="mine", input={}, parent=guess.id, key=guess.id),
    "batches": lambda guess: [
        EventBatch(claim=guess.claim(), first=1, last=1, rows=[EventRow(run_id=guess.id, entry=1, items=[1])])
    ],
    "call": lambda guess: ClaimedCall(scope=guess.owner(), wait=guess.wait(), task={}, waited=0.0),
    "agent": lambda guess: "clerk",
    "tool": lambda guess: "pay",
    "by": lambda guess: ["run", "agent"],
    "step": lambda guess: 1,
    "target": lambda guess: "svc1_desk",
    "owner": lambda guess: "me",
    "seconds": lambda guess: 60.0,
    "budget": lambda guess: Budget(tokens=5),
    "resolution": lambda guess: Resolution(verdict="approved", by="mallory"),
    "kind": lambda guess: "steer",
    "schedule_id": lambda guess: guess.id,
    "schedule": lambda guess: Schedule(
        id=guess.id, tenant=guess.owner().tenant, user=guess.owner().user, agent="clerk", input={"message": "go"}
    ),
    "name": lambda guess: guess.id,
    "sealed": lambda guess: "forged",
    "due_at": lambda guess: None,
    "since": lambda guess: None,
    "when": lambda guess: datetime(2100, 1, 1, tzinfo=UTC),
    "text": lambda guess: "merger",
    "query": lambda guess: "merger",
    "message": lambda guess: "go",
    "content": lambda guess: "forged",
    "title": lambda guess: "mine",
    "items": lambda guess: ["forged"],
    "reason": lambda guess: "",
    "feedback": lambda guess: Feedback(rating="up"),
    "rating": lambda guess: "up",
    "deadline": lambda guess: 0.0,
    "demand": lambda guess: QuotaDemand(key="key", owner="me", rates=(1.0, None), waiting=(1,)),
}
"""What is passed for a parameter of this name."""
SPECIAL: Mapping[str, Callable[[Guess], Any] | None] = {
    "Runtime.start.chat": lambda guess: Chat("go", scope=guess.owner(), conversation_id=guess.id),
    "Store.begin.entry": lambda guess: guess.entry("mine", "started", 0),
    "Store.append.entry": lambda guess: guess.entry(guess.id, "model_requested", 3),
    "Store.events.after": lambda guess: 0,
    "Store.queue_turn.when": lambda guess: "always",
    "Store.commands.after": lambda guess: 0,
    "Store.put_secret.version": lambda guess: None,
    "Store.claim_secret.version": lambda guess: 1,
    "Runtime.events.after": lambda guess: 0,
    "Runtime.event_batches.after": lambda guess: 0,
    "Store.waits.after": None,
    "Store.approvals.after": None,
    "Runtime.approvals.after": None,
    "Runtime.check.chat": lambda guess: Chat("go", scope=guess.owner(), conversation_id=guess.id),
    "Store.conversation_marks.named": lambda guess: [(guess.owner(), guess.id)],
    "Store.started_turns.after": lambda guess: guess.id,
    "Conversation.follow.after": lambda guess: f"{guess.id}:1",
    "Store.history.after": lambda guess: guess.id,
    "Runtime.start.run_id": None,
    "Store.runs.conversation_id": None,
    "Runtime.write_title.conversation": None,
    "Runtime.data_policy.agent": lambda guess: "unknown",
    "Runtime.setup.agent": lambda guess: "unknown",
    "Conversation.send.key": lambda guess: guess.id,
    "Conversation.title.model": None,
}
"""What is passed for one parameter of one callable; None: nothing."""
