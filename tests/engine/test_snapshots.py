"""Snapshots: a run that is resumed from one is the run that its whole journal records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    Continue,
    Limits,
    MemoryStore,
    Resources,
    Retention,
    RunContext,
    RunResult,
    Special,
    Tokens,
    ToolContext,
    ToolOrchestrator,
    ToolResult,
    tool,
)
from concertino.agents import delegate
from concertino.errors import BudgetError, LimitReason
from concertino.messages import SystemMessage, ToolCall, UserMessage
from concertino.orchestrator import Replay, replay
from concertino.storage import Entry, Head, StoredJournal
from concertino.testing import Answer, ScriptedModel, call
from concertino.waits import Resolution

_FIELDS = (
    *("before", "media", "messages", "added", "replaced", "ready", "cache_key", "bill", "state", "index", "attempts"),
    *("agent_state", "data", "system", "tools", "stage", "request", "turn", "outcome", "background", "side_answers"),
    *("phase", "commands", "seconds", "at", "entries", "error", "receipt", "context", "started"),
)


def state_of(found: Replay) -> dict[str, Any]:
    return {**{name: getattr(found, name) for name in _FIELDS}, "shown": found.view.shown}


def assert_same(short: StoredJournal, whole: StoredJournal) -> None:
    """Compare the states that follow from a journal from its last snapshot on, and from the whole one."""
    read, complete = replay(short), replay(whole)
    edits = iter(complete.view.edits)
    assert all(edit in edits for edit in read.view.edits), "the same edits, without some"
    for mine, every in ((read.view.record, complete.view.record), (read.added, complete.added)):
        mine[:] = [each if one == UNREAD else one for one, each in zip(mine, every, strict=True)]
    assert state_of(read) == state_of(complete)


UNREAD = SystemMessage("")
"""Stands for a message that was not read."""


class Comparing(MemoryStore):
    """Compares, after each append, the replay from the last snapshot with that of the whole journal."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshots = 0

    async def append(self, entry: Entry) -> Head:
        head = await super().append(entry)
        self.snapshots += "snapshot" in entry.body
        short, whole = [await loaded(self, entry.run_id, from_snapshot=asked) for asked in (True, False)]
        assert_same(short, whole)
        return head


async def loaded(store: MemoryStore, run_id: str, *, from_snapshot: bool = True) -> StoredJournal:
    journal = await store.load(OPERATOR, run_id, from_snapshot=from_snapshot)
    assert journal is not None
    return journal


@dataclass
class Notes:
    """The state of an agent."""

    seen: int = 0


@tool(effect="read")
async def look(n: int) -> ToolResult:
    """Look something up."""
    return ToolResult(f"A line of what was found, number {n}. " * 20, data={"n": n})


@tool(effect="once")
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(effect="read")
async def ponder(context: ToolContext) -> str:
    """Ask the model."""
    return await context.ask("Which day is it?")


@tool(effect="idempotent")
async def inquire(context: ToolContext) -> str:
    """Ask the model."""
    return await context.ask("Which day is it?")


@tool(effect="read")
async def restart() -> str:
    """Begin a new conversation."""
    return "new"


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    tools = (look,)


class Clerk(AgentConfig[Notes]):
    """Looks up, pays after an approval, asks, delegates, and begins a new conversation."""

    name = "clerk"
    prompt = "You are the clerk."
    tools = (look, pay, ponder, restart, delegate(Child(), name="child", description="Ask the child."))
    tool_call_limit = 1_000

    async def initialize_agent_state(self, run: RunContext[Notes]) -> Notes:
        return Notes()

    def authorize_tool_call(self, run: RunContext[Notes], call: Any, arguments: Mapping[str, Any]) -> Any:
        run.agent_state.seen += 1
        return Ask() if call.name == "pay" else super().authorize_tool_call(run, call, dict(arguments))

    async def handle_special_tools(self, run: RunContext[Notes], call: ToolCall, outcome: Any) -> Special | None:
        return Special(messages=(UserMessage("Go on."),)) if call.name == "restart" else None


def within(context: int) -> Any:
    return lambda scope, model, agent: Limits(context=context, output=500, tool_calls=1_000)


async def finished(
    store: MemoryStore, model: ScriptedModel, context: int, agent: AgentConfig[Any] | None = None, message: str = "Go."
) -> RunResult:
    """Run the clerk, or *agent*, to its end. Each approval is answered, and the run is resumed."""
    retention = Retention(frees=400, users=300, price=1e9, floor=0)
    resources = Resources(store=store, limits=within(context), retention=retention)
    agent = agent or Clerk()
    result = await ToolOrchestrator(Chat(message, model=model), agent, resources=resources).run()
    while result.status == "suspended":
        for wait in result.waiting:
            await store.resolve(OPERATOR, wait.key, Resolution(verdict="approved", by="ann"))
        chat = Chat("", model=model)
        again = ToolOrchestrator(chat, agent, resources=resources, resume=True, run_id=result.run_id)
        result = await again.run()
    return result


def script(wanted: list[str]) -> ScriptedModel:
    one: dict[str, list[Any]] = {name: [call(name)] for name in ("restart",)}
    one |= {"look": [call("look", n=1)], "pay": [call("pay", euros=3)], "ponder": [call("ponder"), "Monday."]}
    one |= {"two": [[call("look", n=2), call("look", n=3)]], "delegate": [call("child", query="look")]}
    parent = [answer for name in wanted for answer in one[name]]
    child = [each for _ in range(wanted.count("delegate")) for each in (call("look", n=4), call("look", n=5), "seen")]
    scripts: dict[str, list[Any]] = {"the clerk": [*parent, "done"], "the child": child}
    return ScriptedModel(scripts=scripts, summaries=["in short"] * 100)


names = st.sampled_from(["look", "look", "look", "two", "pay", "ponder", "delegate", "restart"])


@pytest.mark.slow
@settings(max_examples=12)
@given(st.lists(names, min_size=5, max_size=10), st.sampled_from([3_000, 100_000]), st.sampled_from([1, 3, 7]))
def test_a_run_with_snapshots_is_the_run_without_them(wanted: list[str], context: int, interval: int) -> None:
    async def go() -> None:
        store, plain, models = Comparing(), MemoryStore(), (script(wanted), script(wanted))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("concertino.orchestrator.journal.writer.INTERVAL", interval)
            patch.setattr("concertino.orchestrator.journal.snapshot._SHARE", 10_000)
            patch.setattr("concertino.orchestrator.lifecycle.unread._SHORT", 0)  # so that calls keep their ids
            result = await finished(store, models[0], context)
        other = await finished(plain, models[1], context)
        assert (result.text, result.messages, result.data) == ("done", other.messages, other.data)
        assert (result.steps, result.tool_calls, result.report) == (other.steps, other.tool_calls, other.report)
        asked = [[list(request.messages) for request in model.requests] for model in models]
        assert asked[0] == asked[1]
        assert store.snapshots

    asyncio.run(go())


async def test_a_snapshot_that_was_refused_is_not_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Comparing):
        refused = 0

        async def append(self, entry: Entry) -> Head:
            if "snapshot" in entry.body and not self.refused:
                self.refused = entry.seq
                raise BudgetError("nothing is left", "user", 0)
            assert self.snapshots == ("snapshot" in entry.body)
            return await super().append(entry)

    monkeypatch.setattr("concertino.orchestrator.journal.writer.INTERVAL", 6)
    monkeypatch.setattr("concertino.orchestrator.journal.snapshot._SHARE", 10_000)
    store = Refusing()
    result = await finished(store, script(["look"] * 5), 100_000)
    assert (result.status, store.snapshots) == ("limited", 0)
    assert store.refused


@pytest.mark.parametrize(
    "rest",
    [
        {"version": 3, "state": [1, 0.0, {}, {}, [0, 4, 0, 0], [2, 9, 9, "0"]]},
        *({}, {"version": 2}, {"version": 2, "state": 5}, {"version": 2, "state": [1, 0.0, {}]}),
        {"version": 2, "state": ["1", 0.0, {}, {}, [0, 4, 0, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, "0", {}, {}, [0, 4, 0, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, [], {}, [0, 4, 0, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, {}, {"look": "1"}, [0, 4, 0, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, {}, {}, [0, 4, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, {}, {}, [0, 4, 0, 0, 1], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, {}, {}, [0, "4", 0, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, {}, {}, [0, 5, 0, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, {}, {}, [1, 4, 0, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, {}, {}, [0, 4, 9, 0], [2, 9, 9, "0"]]},
        {"version": 2, "state": [1, 0.0, {}, {}, [0, 4, 0, 0], [2, 9, 9, "x"]]},
        {"version": 2, "state": [1, 0.0, {}, {}, [0, 4, 0, 0], [2, 9, 9]]},
    ],
)
async def test_a_snapshot_that_is_damaged_or_of_another_version_is_not_used(
    monkeypatch: pytest.MonkeyPatch, rest: dict[str, Any]
) -> None:
    snapshot = "concertino.orchestrator.journal.snapshot"
    monkeypatch.setattr("concertino.orchestrator.journal.writer.INTERVAL", 2)
    monkeypatch.setattr(f"{snapshot}._SHARE", 10_000)
    named = {"entries": [], "messages": [0]}
    monkeypatch.setattr(f"{snapshot}.Snapshot.write", lambda written: {**named, **rest})
    store, model = MemoryStore(), script(["look", "look", "pay"])
    resources = Resources(store=store)
    result = await ToolOrchestrator(Chat("Go.", model=model), Clerk(), resources=resources).run()
    monkeypatch.undo()
    assert (await loaded(store, result.run_id)).snapshot
    await store.resolve(OPERATOR, result.waiting[0].key, Resolution(verdict="approved", by="ann"))
    again = ToolOrchestrator(Chat("", model=model), Clerk(), resources=resources, resume=True, run_id=result.run_id)
    assert (await again.run()).text == "done"


@pytest.mark.parametrize("interval", [4, 1_000])
async def test_hooks_see_the_first_message_though_it_has_left_the_view(
    monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    first, seen = "Find the words. " + "word apple " * 150, set[str]()

    class Reviewing(Clerk):
        def review_input(self, run: RunContext[Any], text: str) -> str:
            return text

        async def after_step(self, run: RunContext[Any], outcome: Any) -> Any:
            seen.add(run.chat.message)
            if run.state.step in (2, 4):
                await store.send(OPERATOR, run.id, "steer", "Go on.")
            return outcome

    monkeypatch.setattr("concertino.orchestrator.journal.writer.INTERVAL", interval)
    monkeypatch.setattr("concertino.orchestrator.journal.snapshot._SHARE", 10_000)
    store, model = Comparing(), script(["look"] * 12 + ["pay", "look"])
    result = await finished(store, model, 3_000, Reviewing(), first)
    assert (result.text, bool(store.snapshots)) == ("done", interval == 4)
    assert first not in [getattr(message, "text", "") for message in model.requests[-1].messages]
    assert seen == {first}


@pytest.mark.parametrize("interval", [4, 1_000])
async def test_a_state_that_was_set_to_none_stays_none(monkeypatch: pytest.MonkeyPatch, interval: int) -> None:
    seen: list[Notes | None] = []

    class Forgetful(Clerk):
        def authorize_tool_call(self, run: RunContext[Any], call: Any, arguments: Mapping[str, Any]) -> Any:
            seen.append(run.agent_state)
            run.agent_state = Notes(7) if run.state.step < 3 else None
            return Ask() if call.name == "pay" else Allow()

    monkeypatch.setattr("concertino.orchestrator.journal.writer.INTERVAL", interval)
    monkeypatch.setattr("concertino.orchestrator.journal.snapshot._SHARE", 10_000)
    store = Comparing()
    result = await finished(store, script(["look"] * 7 + ["pay", "look"]), 100_000, Forgetful())
    assert (result.text, bool(store.snapshots)) == ("done", interval == 4)
    assert seen == [Notes(), Notes(7), Notes(7), *[None] * 6]


@pytest.mark.parametrize("interval", range(3, 9))
async def test_a_request_that_was_interrupted_before_its_append_leaves_nothing_out(
    monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    """The store is slow with the question of a background call, so the next request waits; then the time is over."""
    interrupted = asyncio.Event()

    class Slow(MemoryStore):
        async def append(self, entry: Entry) -> Head:
            if entry.kind == "side_requested":
                for _ in range(100):  # until the request waits
                    await asyncio.sleep(0)
                orchestrator._time_is_over()
                for _ in range(100):  # until it waits no more
                    await asyncio.sleep(0)
            return await super().append(entry)

    class Hasty(AgentConfig[None]):
        name = "hasty"
        prompt = "You are hasty."
        tools = (look, inquire)

        def on_limit(self, run: RunContext[None], reason: LimitReason) -> Any:
            interrupted.set()
            return super().on_limit(run, reason)

    monkeypatch.setattr("concertino.orchestrator.journal.writer.INTERVAL", interval)
    monkeypatch.setattr("concertino.orchestrator.journal.snapshot._SHARE", 10_000)
    monkeypatch.setattr(inquire, "background", True)
    store, looks = Slow(), [call("look", n=1)] * 8
    model = ScriptedModel(*looks[:2], call("inquire"), *looks[2:])
    orchestrator = ToolOrchestrator(Chat("Go.", model=model), Hasty(), resources=Resources(store=store))
    result = await orchestrator.run()
    assert interrupted.is_set()
    short, whole = [await loaded(store, result.run_id, from_snapshot=asked) for asked in (True, False)]
    assert_same(short, whole)


@pytest.mark.parametrize("at", [5, 6, 7])
async def test_an_interrupted_append_that_was_carried_out_counts(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The time is over when the store has written an entry, and before it answers. The agent goes on."""
    keys: list[str] = []

    class Late(Comparing):
        async def append(self, entry: Entry) -> Head:
            head = await super().append(entry)
            keys.extend(each.key for each in entry.operations if ".hook" in each.key)
            if entry.seq == at:
                orchestrator._time_is_over()
                await asyncio.Event().wait()
            return head

    class Patient(AgentConfig[None]):
        name = "patient"
        prompt = "You are patient."
        tools = (look,)

        async def on_limit(self, run: RunContext[None], reason: LimitReason) -> Any:
            if reason != "seconds":
                return super().on_limit(run, reason)
            await run.call("look", {"n": 0})
            return Continue()

    monkeypatch.setattr("concertino.orchestrator.journal.writer.INTERVAL", 3)
    monkeypatch.setattr("concertino.orchestrator.journal.snapshot._SHARE", 10_000)
    store, model = Late(), ScriptedModel(*[call("look", n=1)] * 6, "done")
    orchestrator = ToolOrchestrator(Chat("Go.", model=model), Patient(), resources=Resources(store=store))
    await orchestrator.run()
    assert store.snapshots
    assert {key.partition(".hook")[2].partition(".")[0] for key in keys} == {str(at)}, "one for each entry so far"


async def looked(steps: int) -> tuple[MemoryStore, str, list[int]]:
    """Return the store and the id of a run that waits after *steps* steps, and the bytes of each of its entries."""
    written: list[int] = []

    class Measured(MemoryStore):
        async def append(self, entry: Entry) -> Head:
            written.append(len(json.dumps([entry.body, entry.content])))
            return await super().append(entry)

    store, model = Measured(), ScriptedModel(*[call("look", n=1)] * steps, call("pay", euros=3))
    resources = Resources(store=store, limits=within(1_000_000))
    result = await ToolOrchestrator(Chat("Go.", model=model), Clerk(), resources=resources).run()
    assert result.status == "suspended"
    return store, result.run_id, written


@pytest.mark.slow
async def test_a_short_run_has_no_snapshot_nor_one_with_much_to_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    for steps, prompt in ((20, "short"), (100, "x" * 20_000)):
        monkeypatch.setattr(Clerk, "prompt", prompt)
        store, run_id, _ = await looked(steps)
        assert not (await loaded(store, run_id)).snapshot


@pytest.mark.slow
async def test_resuming_reads_as_many_entries_late_as_early() -> None:
    for steps in (60, 400):
        store, run_id, written = await looked(steps)
        short = await loaded(store, run_id)
        assert short.snapshot
        assert len(short.entries) <= 140
        assert len(json.dumps([(entry.body, entry.content) for entry in short.entries])) <= 60_000
    early, late = sum(written[20:280]), sum(written[-280:-20])
    assert abs(late - early) < early // 10, "a step writes as much late as early"


async def test_usage_that_is_settled_after_a_snapshot_counts_for_the_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("concertino.orchestrator.journal.writer.INTERVAL", 3)
    monkeypatch.setattr("concertino.orchestrator.journal.snapshot._SHARE", 10_000)
    reached: list[LimitReason] = []

    class Limited(Clerk):
        def on_limit(self, run: RunContext[Notes], reason: LimitReason) -> Any:
            reached.append(reason)
            return super().on_limit(run, reason)

    def limits(scope: Any, model: Any, agent: Any) -> Limits:
        return Limits(context=1_000_000, output=500, tool_calls=1_000, tokens=100_000)

    store, estimated = Comparing(), Answer(calls=(call("look", n=1),), tokens=None)
    model = ScriptedModel(*[estimated] * 6, call("pay", euros=3), call("look", n=2), "done")
    resources = Resources(store=store, limits=limits)
    result = await ToolOrchestrator(Chat("Go.", model=model), Limited(), resources=resources).run()
    assert (result.status, reached) == ("suspended", [])
    assert (await loaded(store, result.run_id)).snapshot
    first = (await store.usage(OPERATOR, result.run_id))[0]
    billed = replace(first, tokens=Tokens(prompt=99_000, completion=1_000), source="measured")
    await store.settle_usage(OPERATOR, billed)
    await store.resolve(OPERATOR, result.waiting[0].key, Resolution(verdict="approved", by="ann"))
    again = ToolOrchestrator(Chat("", model=model), Limited(), resources=resources, resume=True, run_id=result.run_id)
    usage = (await again.run()).usage
    assert reached == ["tokens"]
    assert usage[0].tokens == billed.tokens
