"""`replay_run`: unchanged code gives equal requests, a change is found where it begins, and nothing happens twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    AssistantMessage,
    Chat,
    Deny,
    MemoryStore,
    Resources,
    Retry,
    RunContext,
    Runtime,
    Scope,
    SystemMessage,
    Text,
    ToolCall,
    ToolOrchestrator,
    ToolResult,
    UserMessage,
    delegate,
    limits_within,
    tool,
)
from concertino.errors import BadRequestError, OverloadedError, ToolError
from concertino.evaluation import ReplayReport, replay_run
from concertino.events import RunResult
from concertino.orchestrator import DataPolicy
from concertino.testing import Answer, ScriptedModel, call
from concertino.usage import Tokens

PRICED = Resources(price=lambda provider, model, tokens, receipt: (Decimal(tokens.total) / 1_000, "test"))
SCOPE = Scope("acme", "ann")
happened: list[str] = []


@tool(effect="read")
async def look(name: str, times: int = 1) -> str:
    """Look up."""
    happened.append(f"look {name}")
    return f"{name} is {len(happened)}"


@tool
async def pay(amount: int) -> ToolResult:
    """Pay."""
    happened.append(f"pay {amount}")
    return ToolResult("paid", data={"receipt": amount}, summary="a payment")


@tool
async def broken() -> str:
    """Fail."""
    happened.append("broken")
    raise ToolError("it is out of order")


class Helper(AgentConfig):
    name = "helper"
    prompt = "You help the clerk."
    tools = (look,)


class Clerk(AgentConfig):
    name = "clerk"
    prompt = "You help customers."
    tools = (look, pay, broken, delegate(Helper(), description="A helper."))

    def authorize_tool_call(
        self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]
    ) -> Allow | Ask | Deny:
        return Ask() if call.name == "pay" else Allow()

    async def prepare(self, run: RunContext[None]) -> list[SystemMessage]:
        return [SystemMessage(await run.ask("What is the mood?", system="Be short."))]

    def conclude(self, run: RunContext[None], text: str) -> str:
        return f"{text} {run.data.get('pay', '')}".strip()


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    happened.clear()
    async with MemoryStore() as opened:
        yield opened


async def run(store: MemoryStore, config: AgentConfig, model: ScriptedModel, **chat: Any) -> RunResult:
    """Run an agent to its end; a person approves everything."""
    resources = Resources(model=model, store=store, retry=Retry(first=0), price=PRICED.price)
    async with Runtime([config], resources, store=store) as runtime:
        live = await runtime.start(Chat(**{"message": "Hello", "scope": SCOPE, **chat}), config.name)
        result = await live.result()
        while result.status == "suspended":
            await runtime.approve(SCOPE, result.waiting[0].key)
            result = await (await runtime.resume(SCOPE, live.id)).result()
        return result


async def replay(store: MemoryStore, run_id: str, config: AgentConfig, **more: Any) -> ReplayReport:
    """Replay a run."""
    journal = await store.load(OPERATOR, run_id)
    assert journal is not None
    return await replay_run(journal, config, resources=PRICED, **more)


def everything() -> ScriptedModel:
    """Return a model that uses each tool, fails once, and calls a tool that does not exist."""
    return ScriptedModel(
        "gloomy",
        Answer(reasoning="Hm.", text="I look.", calls=(call("look", name="a"), call("look", name="b"), call("broken"))),
        [call("pay", amount=3), call("look", "{broken")],
        OverloadedError("busy"),
        call("helper", query="Help me."),
        call("no_such_tool"),
        Answer(text="The end.", tokens=Tokens(prompt=40, completion=7, cached=11)),
        scripts={"You help the clerk": [call("look", name="c"), "I helped."]},
        name="small",
    )


@tool
async def close(case: int) -> ToolResult:
    """Close a case."""
    happened.append(f"close {case}")
    return ToolResult(f"closed {case}", ends_run=True)


async def test_a_result_that_ended_the_run_ends_its_replay(store: MemoryStore) -> None:
    class Closer(AgentConfig):
        name = "closer"
        tools = (look, close)

    model = ScriptedModel(
        call("look", name="a"), [call("look", name="b"), call("close", case=1), call("look", name="c")]
    )
    result = await run(store, Closer(), model)
    assert result.text == "closed 1"
    before = list(happened)
    found = await replay(store, result.run_id, Closer())
    assert (found.state, found.divergence, found.unrecorded) == ("equal", None, ())
    assert happened == before


async def test_unchanged_code_gives_equal_requests_and_nothing_happens_again(store: MemoryStore) -> None:
    history = (UserMessage("Before?"), AssistantMessage((Text("Before."),)))
    result = await run(store, Clerk(), everything(), history=history, memories=("likes tea",))
    assert result.status == "completed"
    before = list(happened)
    found = await replay(store, result.run_id, Clerk())
    assert (found.state, found.divergence, found.unrecorded) == ("equal", None, ())
    assert happened == before
    assert found.before == found.after
    assert found.after is not None
    assert found.after.answer == result.text
    assert found.after.calls == ("look", "look", "broken", "pay", "look", "helper", "unknown_tool")
    for stored in await store.runs(OPERATOR):
        if stored.start.parent_id is not None:
            below = await replay(store, stored.start.run_id, Helper())
            assert (below.state, below.after and below.after.answer) == ("equal", "I helped.")
    assert happened == before


async def test_a_turn_of_a_conversation_is_replayed_with_its_history(store: MemoryStore) -> None:
    model = ScriptedModel("One.", call("look", name="a"), "Two.")
    async with Runtime([Helper()], Resources(model=model), store=store) as runtime:
        conversation = await runtime.conversation(SCOPE, agent="helper")
        await (await conversation.send("One?")).result()
        second = await (await conversation.send("Two?")).result()
    assert (await replay(store, second.run_id, Helper())).state == "equal"


class Changed:
    """Changes of the clerk, and where its replay diverges first."""

    class Prompt(Clerk):
        prompt = "You help customers. Be brief."

    class Tools(Clerk):
        tools = (look, pay, broken)  # type: ignore[assignment]  # fewer than the clerk's

    class Denies(Clerk):
        def authorize_tool_call(
            self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]
        ) -> Allow | Ask | Deny:
            return Deny("never") if call.name == "pay" else Allow()

    class Asks(Clerk):
        async def prepare(self, run: RunContext[None]) -> list[SystemMessage]:
            return [SystemMessage(await run.ask("What is the weather?", system="Be short."))]

    class Concludes(Clerk):
        def conclude(self, run: RunContext[None], text: str) -> str:
            return "Something else."

    class Stops(Clerk):
        def should_continue_loop(self, run: RunContext[None]) -> Any:
            from concertino import Continue, Finish

            return Continue() if run.state.step < 2 else Finish("Enough.")


@pytest.mark.parametrize(
    ("config", "step", "where"),
    [
        (Changed.Prompt(), 1, "system"),
        (Changed.Tools(), 1, "tools[3]"),
        (Changed.Denies(), 3, "messages[7].content"),
        (Changed.Asks(), 1, "question"),
        (Changed.Concludes(), 5, "answer"),
        (Changed.Stops(), 3, "requests"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, AgentConfig) else None,
)
async def test_a_change_is_found_where_it_begins(
    store: MemoryStore, config: AgentConfig, step: int, where: str
) -> None:
    result = await run(store, Clerk(), everything())
    before = list(happened)
    found = await replay(store, result.run_id, config)
    assert found.divergence is not None
    assert (found.state, found.divergence.step, found.divergence.where) == ("changed", step, where)
    assert happened == before


async def test_a_changed_request_costs_what_it_is_longer(store: MemoryStore) -> None:
    class Longer(Helper):
        prompt = "You help the clerk. " * 50

    model = ScriptedModel(Answer(text="Yes.", tokens=Tokens(prompt=1_000, completion=10, cached=900)))
    result = await run(store, Helper(), model)
    found = await replay(store, result.run_id, Longer())
    assert found.before is not None
    assert found.after is not None
    assert found.before.cost == Decimal("1.010")
    assert 1_100 < found.after.tokens.prompt < 1_500
    assert found.after.cost == Decimal(found.after.tokens.total) / 1_000
    assert (found.before.estimated, found.after.estimated) == (False, True)


async def test_from_the_first_difference_on_a_live_model_answers_with_recorded_results(store: MemoryStore) -> None:
    result = await run(store, Clerk(), everything())
    before = list(happened)
    with ScriptedModel(
        [call("look", name="b"), call("look", name="new"), call("pay", amount=3)],
        Answer(text="Live.", tokens=Tokens(prompt=100, completion=20)),
        name="live",
    ) as live:
        found = await replay(store, result.run_id, Changed.Prompt(), model=live)
    assert happened == before
    assert found.unrecorded == ("look",)
    results = [message.content for message in live.requests[1].messages if message.role == "tool"]
    assert results == ["b is 2", "the replay has no recorded result of this call", "paid"]
    assert live.requests[0].model == "live"
    assert found.after is not None
    assert (found.after.answer, found.after.calls) == ("Live. {'receipt': 3}", ("look", "look", "pay"))
    assert found.after.cost == Decimal("0.135")


async def test_a_live_model_is_not_asked_without_a_difference(store: MemoryStore) -> None:
    result = await run(store, Clerk(), everything())
    with ScriptedModel() as live:
        assert (await replay(store, result.run_id, Clerk(), model=live)).state == "equal"


async def test_a_run_that_failed_fails_again(store: MemoryStore) -> None:
    result = await run(store, Helper(), ScriptedModel(call("look", name="a"), BadRequestError("not like this")))
    assert result.status == "failed"
    found = await replay(store, result.run_id, Helper())
    assert (found.state, found.after and found.after.status) == ("equal", "failed")


class Secret(Helper):
    """A helper whose data policy keeps little."""

    name = "secret"

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(text="drop")


class CallsFromHook(Helper):
    """A helper that calls a tool outside a turn."""

    name = "caller"

    async def prepare(self, run: RunContext[None]) -> list[SystemMessage]:
        return [SystemMessage(str((await run.call("look", {"name": "x"})).content))]


async def test_a_run_without_a_complete_record_is_skipped_with_the_reason(store: MemoryStore) -> None:
    for config, reason in ((Secret(), "its content was erased"), (CallsFromHook(), "a hook called a tool")):
        result = await run(store, config, ScriptedModel("Fine."))
        found = await replay(store, result.run_id, config)
        assert found.state == "skipped"
        assert reason in found.reason


async def test_a_run_that_waits_was_stopped_or_steered_is_skipped(store: MemoryStore) -> None:
    model = ScriptedModel(call("pay", amount=1), "First.", "Second.", call("pay", amount=2))

    class Payer(AgentConfig):
        name = "payer"
        tools = (pay,)

        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
            return Ask()

    async with Runtime([Payer()], Resources(model=model), store=store) as runtime:
        live = await runtime.start(Chat("Pay.", scope=SCOPE), "payer")
        result = await live.result()
        assert "it has not ended: it is suspended" in (await replay(store, live.id, Payer())).reason
        await runtime.steer(SCOPE, live.id, "Thanks.")
        await runtime.approve(SCOPE, result.waiting[0].key)
        result = await (await runtime.resume(SCOPE, live.id)).result()
        assert result.status == "completed"
        assert "it was steered" in (await replay(store, live.id, Payer())).reason
        forked = await (await runtime.fork(SCOPE, live.id, 2)).result()
        assert "fork" in (await replay(store, forked.run_id, Payer())).reason
        live = await runtime.start(Chat("Pay.", scope=SCOPE), "payer")
        await live.result()
        await runtime.stop(SCOPE, live.id)
        assert (await replay(store, live.id, Payer())).reason == "it was stopped"


async def test_a_tool_that_a_hook_adds_does_not_run(store: MemoryStore) -> None:
    class Adds(Helper):
        name = "adds"
        tools = ()  # type: ignore[assignment]  # fewer than the helper's

        def initialize_agent_state(self, run: RunContext[None]) -> None:
            run.registry.register(look)

    result = await run(store, Adds(), ScriptedModel(call("look", name="a"), "Fine."))
    before = list(happened)
    assert (await replay(store, result.run_id, Adds())).state == "equal"
    assert happened == before


async def test_changed_arguments_of_a_tool_are_checked(store: MemoryStore) -> None:
    @tool(effect="read", name="look")
    async def strict(name: str, *, times: int) -> str:
        """Look up."""
        return ""

    class Strict(Helper):
        tools = (strict,)

    result = await run(store, Helper(), ScriptedModel(call("look", name="a"), "Fine."))
    found = await replay(store, result.run_id, Strict())
    assert found.divergence is not None
    assert found.divergence.where.startswith("tools[0]")


@pytest.mark.parametrize("seed", range(4))
async def test_summaries_are_ready_when_they_were(store: MemoryStore, seed: int) -> None:
    random = Random(seed)

    async def passes(most: int = 40) -> None:
        for _ in range(random.randrange(most)):
            await asyncio.sleep(0)

    @tool(effect="read", name="look")
    async def read(name: str) -> str:
        """Look up."""
        await passes()
        return f"{name} is seven. " * random.randrange(20, 80)

    class Reader(Helper):
        tools = (read,)
        tool_call_limit = 100

    pages = [call("look", name=f"page {number}") for number in range(60)]
    late = [Answer(text=f"Summary {number}.", before=lambda: passes(2_500)) for number in range(20)]
    model = ScriptedModel(*pages, "The end.", summaries=late)
    resources = Resources(model=model, store=store, limits=limits_within(12_000))
    result = await ToolOrchestrator(Chat("Read."), Reader(), resources=resources).run()
    journal = await store.load(OPERATOR, result.run_id)
    assert journal is not None
    assert sum(entry.kind == "summary_ready" for entry in journal.entries) > 1
    found = await replay_run(journal, Reader())
    assert (found.state, found.divergence) == ("equal", None)


@pytest.mark.parametrize("seed", range(12))
async def test_any_run_is_equal_to_its_replay(store: MemoryStore, seed: int) -> None:
    random = Random(seed)

    def step() -> Any:
        calls = [
            call("look", name=random.choice("abc"), times=random.randrange(3)),
            call("pay", amount=random.randrange(9)),
            call("broken"),
            call("look", "{"),
            call("look", times=1),
            call("other"),
        ]
        made = random.sample(calls, random.randrange(1, 5))
        return random.choice([made, OverloadedError("busy"), Answer(text="Wait.", reasoning="Hm.", calls=tuple(made))])

    model = ScriptedModel("fine", *[step() for _ in range(random.randrange(8))], "So.", "So.", "So.", name="m")
    result = await run(store, Clerk(), model)
    found = await replay(store, result.run_id, Clerk())
    assert (found.state, found.divergence, found.unrecorded) == ("equal", None, ())
    assert found.before == found.after
