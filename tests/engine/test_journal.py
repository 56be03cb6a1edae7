"""What the journal of a run says, and that it is written in time: each entry before what follows from it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    Continue,
    Finish,
    MemoryStore,
    Message,
    ModelRequest,
    NextStep,
    Pending,
    Resources,
    RunContext,
    Scope,
    SystemMessage,
    Tool,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    UserMessage,
    tool,
)
from concertino.errors import StorageError
from concertino.messages import AssistantMessage, Text
from concertino.orchestrator import replay, requests
from concertino.storage import Entry, Head, Store, StoredJournal
from concertino.testing import Answer, ScriptedModel, call

from ..runtime.kit import state


class Watched(MemoryStore):
    """Notes what is written, and fails or waits where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.fails: dict[str, int] = {}
        self.hangs: dict[str, asyncio.Event] = {}

    async def append(self, entry: Entry) -> Head:
        kind = entry.kind
        if self.fails.get(kind, 0):
            self.fails[kind] -= 1
            raise StorageError("the disk is full")
        head = await super().append(entry)
        self.log.append(kind)
        if kind in self.hangs:
            await self.hangs[kind].wait()
        return head


class Loud(ScriptedModel):
    """Notes when it is asked."""

    log: list[str]

    async def stream(self, request: Any) -> Any:
        self.log.append("model")
        async for event in super().stream(request):
            yield event


@tool
async def pay(context: ToolContext) -> str:
    """Pay."""
    context.deps.append("pay")
    return "paid"


@tool(effect="read")
async def look(context: ToolContext) -> str:
    """Look."""
    context.deps.append("look")
    return "seen"


class Desk(AgentConfig[None]):
    name = "desk"
    tools: Sequence[Tool] = (pay, look)


class Authorizes(Desk):
    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow:
        return Allow()


async def loaded(store: Store, run_id: str) -> StoredJournal:
    """The journal, which is there."""
    journal = await store.load(OPERATOR, run_id)
    assert journal is not None
    return journal


async def logged(agent: AgentConfig[Any], *script: Any) -> list[str]:
    store, model = Watched(), Loud(*script)
    model.log = store.log
    await ToolOrchestrator(
        Chat(model=model, message="go"), agent, resources=Resources(store=store, deps=store.log)
    ).run()
    return store.log


async def test_each_entry_comes_before_what_follows_from_it() -> None:
    log = await logged(Desk(), call("look"), call("pay"), "end")
    assert log == [
        *("model_requested", "model", "model_answered", "look"),
        *(
            "model_requested",
            "model",
            "model_answered",
            "pay",
        ),  # the outcome of the last call of a turn goes with what follows
        *("model_requested", "model", "model_answered", "ended"),
    ]


async def test_a_once_call_that_is_authorized_says_when_it_begins() -> None:
    log = await logged(Authorizes(), [call("look"), call("pay")], "end")
    assert log[:3] == ["model_requested", "model", "model_answered"]
    assert log.index("calls_changed") < log.index("pay") < log.index("model_requested", 1)


async def test_a_once_call_has_its_outcome_on_record_before_its_siblings_end() -> None:
    store, opened = Watched(), asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """Take time."""
        await opened.wait()
        return "slow"

    agent = Desk()
    agent.tools = (pay, slow)
    model = ScriptedModel([call("pay"), call("slow")], "end")
    run = ToolOrchestrator(Chat(model=model, message="go"), agent, resources=Resources(store=store, deps=[]))
    task = asyncio.create_task(run.run())
    await state(lambda: "calls_changed" in store.log)
    paid, waits = await store.operations(Scope(), run_id=run.run_id)
    assert (paid.state, paid.outcome) == ("done", {"content": "paid"})
    assert (waits.state, waits.outcome) == ("planned", None)
    opened.set()
    await task


async def test_what_stays_the_same_is_said_once() -> None:
    store, model = MemoryStore(), ScriptedModel(*[call("look")] * 6, "end")
    run = ToolOrchestrator(Chat(model=model, message="go"), Desk(), resources=Resources(store=store, deps=[]))
    await run.run()
    journal = await loaded(store, run.run_id)
    asking = [entry for entry in journal.entries if entry.kind == "model_requested"]
    assert [("run_system" in e.body, "run_tools" in e.body) for e in asking] == [(True, True)] + [(False, False)] * 6
    sizes = [len(json.dumps([entry.body, entry.content])) for entry in asking]
    assert max(sizes[1:]) - min(sizes[1:]) < 20, "an entry is as large at the end as at the beginning"
    assert [len(entry.messages) for entry in asking] == [1] + [1] * 6


class Copies(Desk):
    """Returns an equal copy of each request."""

    def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
        return dataclasses.replace(request, messages=list(request.messages), tools=(*request.tools,))


async def test_a_request_that_a_hook_only_copies_is_recorded_like_its_original() -> None:
    entries = []
    for agent in (Desk(), Copies()):
        store, model = MemoryStore(), ScriptedModel(call("look"), call("look"), "end")
        run = ToolOrchestrator(Chat("go", model=model), agent, resources=Resources(store=store, deps=[]))
        await run.run()
        journal = await loaded(store, run.run_id)
        entries.append([(e.kind, {**e.body}.keys(), {**(e.content or {})}.keys()) for e in journal.entries[1:]])
    assert entries[0] == entries[1]


async def test_a_history_is_shared_by_runs_of_one_user() -> None:
    store = MemoryStore()
    history: list[Message] = [UserMessage("a"), AssistantMessage((Text("b"),))]
    journals = []
    for _ in range(2):
        model = ScriptedModel("end")
        chat = Chat(model=model, message="go", history=history, scope=Scope(user="u"))
        run = ToolOrchestrator(chat, Desk(), resources=Resources(store=store))
        await run.run()
        journals.append(await loaded(store, run.run_id))
    assert journals[0].texts == journals[1].texts
    assert list(replay(journals[0]).before) == history


class Aside(Desk):
    """Asks beside the conversation, first and last."""

    async def prepare(self, run: RunContext[None]) -> list[Message]:
        return [SystemMessage(await run.ask("first?")), SystemMessage(await run.ask("and?"))]

    async def conclude(self, run: RunContext[None], text: str) -> str:
        return text + await run.ask("last?")

    def after_step(self, run: RunContext[None], outcome: Any) -> Any:
        return Finish("enough ") if run.state.tool_calls else outcome


@pytest.mark.parametrize("asks", range(1, 6))
async def test_what_is_asked_aside_leaves_the_run_at_its_last_boundary(asks: int) -> None:
    """Parked in any of its questions; what led to them happens again, and is on record once."""
    store, never = MemoryStore(), asyncio.Event()
    script: list[Any] = ["a", "b", call("look"), "c"]
    model = ScriptedModel(*script[: asks - 1], Answer(text="x", before=never.wait))
    run = ToolOrchestrator(
        Chat(model=model, message="go"), Aside(), run_id="r", resources=Resources(store=store, deps=[])
    )
    task = asyncio.create_task(run.run())
    await state(lambda: len(model.requests) >= asks or task.done())
    run.park()
    await asyncio.wait([task])
    left = await store.run(OPERATOR, "r")
    assert left is not None
    if left.end is None:
        again = ScriptedModel(*script[asks - 1 :])
        again._calls = 0 if asks < 4 else 1
        result = await ToolOrchestrator(
            Chat(model=again), Aside(), run_id="r", resume=True, resources=Resources(store=store, deps=[])
        ).run()
        assert len({record.id for record in result.usage}) == len(result.usage) == asks + len(again.requests)
    kept = [stored.message for stored in await store.messages(OPERATOR, "r")]
    assert [m.role for m in kept] == ["user", "system", "system", "assistant", "tool", "assistant", "assistant"]
    assert [m.text for m in kept[-2:]] == ["enough ", "enough c"]
    record = replay(await loaded(store, "r"))
    assert record.added == kept
    assert record.state.iteration == 1


@pytest.mark.parametrize("kind", ["model_requested", "model_answered", "calls_changed"])
async def test_a_store_that_fails_once_leaves_a_run_that_can_be_taken_up(kind: str) -> None:
    store = Watched()
    store.fails[kind] = 1
    turn = [call("pay"), call("look")]
    model = ScriptedModel(turn, "end")
    run = ToolOrchestrator(
        Chat(model=model, message="go"), Desk(), run_id="r", resources=Resources(store=store, deps=store.log)
    )
    events = [event async for event in run.stream()]
    assert run.result is not None
    assert run.result.status == "failed"
    assert "the disk is full" in (run.result.error or "")
    assert events
    left = await store.run(OPERATOR, "r")
    assert left.end is None, "it can be taken up when the store is well again"
    again = ScriptedModel(*([] if kind == "calls_changed" else [turn]), "end")
    result = await ToolOrchestrator(
        Chat(model=again), Desk(), run_id="r", resume=True, resources=Resources(store=store, deps=store.log)
    ).run()
    assert result.status == "completed"
    assert store.log.count("pay") == 1
    kept = [stored.message for stored in await store.messages(OPERATOR, "r")]
    assert kept == list(result.messages)
    assert [m.role for m in kept] == ["user", "assistant", "tool", "tool", "assistant"]
    unknown = kind == "calls_changed"
    assert kept[2].content.startswith("OUTCOME_UNKNOWN" if unknown else "paid")
    assert list(result.usage) == list(await store.usage(OPERATOR, "r"))


@pytest.mark.parametrize("kind", ["model_requested", "model_answered", "ended"])
async def test_cancelled_while_an_entry_is_being_written(kind: str) -> None:
    """The store had it already: it is not written twice."""
    store = Watched()
    store.hangs[kind] = asyncio.Event()
    model = ScriptedModel(call("look"), "end")
    run = ToolOrchestrator(
        Chat(model=model, message="go"), Desk(), run_id="r", resources=Resources(store=store, deps=store.log)
    )
    task = asyncio.create_task(run.run())
    await state(lambda: kind in store.log)
    store.hangs.pop(kind)
    if kind == "ended":
        task.cancel()  # there is nothing left to stop
    else:
        run.stop()
    await asyncio.wait([task])
    journal = await loaded(store, "r")
    assert [entry.seq for entry in journal.entries] == list(range(len(journal.entries)))
    assert journal.run.end is not None
    assert journal.run.end.status == ("completed" if kind == "ended" else "cancelled")
    kept = [stored.message for stored in await store.messages(OPERATOR, "r")]
    assert kept == replay(journal).added
    assert len(kept) == len(set(map(id, kept)))
    assert [m.role for m in kept].count("user") == 1


@pytest.mark.parametrize("kind", ["result", "approval"])
async def test_a_wait_is_on_record_before_the_run_is_suspended(kind: str) -> None:
    class Asks(Desk):
        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
            return Ask() if kind == "approval" else Allow()

    @tool(effect="idempotent", remote=True)
    async def order() -> Pending:
        """Order."""
        return Pending()

    agent = Asks()
    agent.tools = (order,)
    store = Watched()
    result = await ToolOrchestrator(
        Chat(model=ScriptedModel(call("order")), message="go"), agent, resources=Resources(store=store)
    ).run()
    begins = ["calls_changed"] if kind == "result" else []
    assert store.log == ["model_requested", "model_answered", *begins, "calls_changed", "suspended"]
    assert (result.status, len(result.waiting)) == ("suspended", 1)
    (operation,) = await store.operations(Scope(), run_id=result.run_id)
    assert (operation.state, operation.waits_for, operation.outcome) == ("waiting", kind, None)


async def test_a_record_at_any_length_is_a_prefix_of_the_next() -> None:
    class Goes(Desk):
        def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
            return Continue(messages=(SystemMessage("more"),)) if run.state.step < 3 else Finish()

    store, model = MemoryStore(), ScriptedModel(call("look"), "one", "two")
    run = ToolOrchestrator(Chat(model=model, message="go"), Goes(), resources=Resources(store=store, deps=[]))
    result = await run.run()
    journal = await loaded(store, run.run_id)
    sent = [list(request.messages) for _, _, request in requests(journal)]
    assert sent == [list(request.messages) for request in model.requests]
    for step in range(1, 4):
        before = replay(journal, before_step=step)
        assert before.messages == sent[step - 1] == list(result.messages)[: len(sent[step - 1])]
        assert before.state.step == step
