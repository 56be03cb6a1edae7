"""The parts of the suite: short ways to make values, and one process's hold on a tree of runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from hypothesis import strategies as st

from concertino import OPERATOR, Scope
from concertino.messages import Message, UserMessage
from concertino.operations import Operation
from concertino.storage import (
    ApprovalRules,
    Claim,
    Entry,
    EntryKind,
    EntryMessage,
    Head,
    Memories,
    RunEnd,
    RunStart,
    Store,
)
from concertino.usage import Tokens, UsageRecord
from concertino.waits import Resolution, Wait


class FullStore(Store, Memories, ApprovalRules, Protocol):
    """All ports."""


Factory = Callable[[Path], Awaitable[FullStore]]
"""Opens a new store, whose files are in the given folder."""


SCOPE = Scope("o1", "u1")
"""Of the runs that name no other."""

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
"""All of Unicode, lone surrogates included."""


def start(run_id: str = "r1", **changes: Any) -> RunStart:
    plain = RunStart(
        run_id=run_id,
        root_id=run_id,
        parent_id=None,
        parent_call=None,
        agent="supervisor",
        agent_path="supervisor",
        conversation_id="c1",
        scope=SCOPE,
        task="Find it.",
        started=1000.25,
    )
    return replace(plain, **changes)


def end(**changes: Any) -> RunEnd:
    return replace(RunEnd(status="completed", answer="Found.", error=None, ended=1001.5), **changes)


def whole(message: Message | str, **more: Any) -> EntryMessage:
    """A message all of which remains."""
    result_of = UserMessage(message) if isinstance(message, str) else message
    return EntryMessage(**{"message": result_of, "keep": result_of, **more})


def record(number: int = 1, run_id: str = "r1", **changes: Any) -> UsageRecord:
    plain = UsageRecord(
        id=f"{run_id}/{number}",
        run_id=run_id,
        agent_path="supervisor",
        provider="scripted",
        model="small",
        tokens=Tokens(10, 5, 4, 3, 2, 1),
        source="estimated",
        how="by o200k",
        cost=Decimal("0.1000000000000000000000000001"),
        price_version="2026-01",
        tools=("search", "fetch"),
    )
    return replace(plain, **changes)


def wait(key: str = "w1", run_id: str = "r1", **changes: Any) -> Wait:
    plain = Wait(
        key=key,
        run_id=run_id,
        root_id="r1",
        agent_path="supervisor",
        call_id="call-1",
        tool="pay",
        kind="approval",
        arguments='{"amount":1}',
        arguments_hash="hash",
        who=("ann", "bob"),
        note="It costs.",
    )
    return replace(plain, **changes)


def operation(key: str = "w1", run_id: str = "r1", **changes: Any) -> Operation:
    plain = Operation(
        key=key, scope=SCOPE, run_id=run_id, kind="tool_call", state="running", step=1, name="pay", call_id="call-1"
    )
    return replace(plain, **changes)


def operation_of(asked: Wait, scope: Scope) -> Operation:
    """The operation in state `waiting` that *asked* belongs to."""
    return operation(asked.key, asked.run_id, scope=scope, name=asked.tool, state="waiting", waits_for=asked.kind)


def result_of(content: str = "", **changes: Any) -> Resolution:
    return replace(Resolution(verdict="result", content=content), **changes)


class Tree:
    """A process with a claim on a tree. It knows the claim, and the number of each run's next entry."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self.store = store
        self.claim = claim
        self.next: dict[str, int] = {}
        self.scope = SCOPE

    async def begin(self, start_tree: RunStart, **more: Any) -> Tree:
        entry = Entry(run_id=start_tree.run_id, seq=0, claim=self.claim, kind="started", **more)
        await self.store.begin(start_tree, entry, self.claim)
        self.scope = start_tree.scope
        self.next[start_tree.run_id] = 1
        return self

    async def child(self, run_id: str, **changes: Any) -> Tree:
        return await self.begin(start(run_id, root_id=self.claim.root_id, parent_id=self.claim.root_id, **changes))

    def entry(self, kind: EntryKind = "model_requested", run_id: str | None = None, **more: Any) -> Entry:
        wanted = run_id or self.claim.root_id
        if "operations" not in more and more.get("waits"):
            more["operations"] = [operation_of(each, self.scope) for each in more["waits"]]
        return Entry(run_id=wanted, seq=self.next[wanted], claim=self.claim, kind=kind, **more)

    async def append(self, kind: EntryKind = "model_requested", run_id: str | None = None, **more: Any) -> Head:
        head = await self.store.append(self.entry(kind, run_id, **more))
        self.next[run_id or self.claim.root_id] = head.seq
        return head

    async def end(self, run_id: str | None = None, **changes: Any) -> Head:
        return await self.append("ended", run_id, end=end(**changes))


async def start_tree(store: Store, run_id: str = "r1", **changes: Any) -> Tree:
    """A root that *owner* ("me") has start_tree, for *seconds*."""
    owner, seconds = changes.pop("owner", "me"), changes.pop("seconds", 60.0)
    claim = Claim(root_id=run_id, scope=changes.get("scope", SCOPE), epoch=1, owner=owner, seconds=seconds)
    return await Tree(store, claim).begin(start(run_id, **changes))


async def claim_tree(store: Store, run_id: str = "r1", owner: str = "you", seconds: float = 60.0) -> Tree:
    """A root run that *owner* claims."""
    tree = Tree(store, await store.claim(OPERATOR, run_id, owner, seconds))
    for run in await store.runs(OPERATOR, root_id=run_id, limit=1000):
        tree.next[run.start.run_id] = run.entries
    return tree


def traces(folder: Path, canary: str) -> list[str]:
    """Return the names of the files that contain *canary*, including those next to the database."""
    return [path.name for path in folder.iterdir() if canary.encode() in path.read_bytes()]
