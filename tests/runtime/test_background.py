"""Background calls: `delegate(..., background=True)` returns a handle, and the answer follows in a message."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    Limits,
    Message,
    RunContext,
    RunResult,
    Tool,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    ToolRegistry,
    UserMessage,
    tool,
)
from concertino.agents import delegate
from concertino.errors import ConfigurationError
from concertino.events import CallWaiting, RunEnded, ToolDone
from concertino.messages import SystemMessage
from concertino.storage import Store
from concertino.testing import Answer, ScriptedModel, call

from .kit import Steady, ended, is_valid, runtime, texts, until

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool
async def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    ran[context.key] += 1
    return f"paid {amount}"


@tool(effect="read")
async def look(context: ToolContext) -> str:
    """Look."""
    ran[context.key] += 1
    return "seen"


class Scout(AgentConfig[None]):
    name = "scout"
    prompt = "You are a scout."
    tools = (pay, look)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        return Ask() if call.name == "pay" else Allow()


scout = delegate(Scout(), description="Scouts.", background=True)


class Boss(AgentConfig[None]):
    name = "boss"
    prompt = "You are the boss."
    tools: tuple[Tool, ...] = (scout, look, pay)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        return Ask() if call.name == "pay" else Allow()


def delivered(result: RunResult) -> list[str]:
    """Return the texts of the results that followed in messages."""
    return [m.text for m in result.messages if isinstance(m, UserMessage) and m.tool == "scout"]


def by_answers(*answers: str) -> Any:
    """Return a script: a text per result that the model has read."""
    return lambda request: answers[sum(isinstance(m, UserMessage) and m.tool == "scout" for m in request.messages)]


async def test_a_handle_at_once_and_the_answer_later() -> None:
    released, looked = asyncio.Event(), asyncio.Event()
    late = Answer(text="found gold", before=released.wait)

    def after_look(request: Any) -> Any:
        looked.set()
        return "I wait."

    steps = [call("scout", query="go"), call("look"), after_look, "Gold!"]
    with ScriptedModel(*steps, scripts={"a scout": [late]}) as model:
        orchestrator = ToolOrchestrator(Chat("go", model=model), AgentConfig(), ToolRegistry([scout, look]))
        task = asyncio.create_task(orchestrator.run())
        await looked.wait()
        released.set()
        result = await task
    assert result.text == "Gold!"
    handle, seen = texts(result.messages)
    assert (handle.partition(".")[0], seen) == ("started in the background as scout-1", "seen")
    assert delivered(result) == ["[result of scout-1]\nfound gold"]
    assert [type(m).__name__ for m in result.messages[-3:]] == ["AssistantMessage", "UserMessage", "AssistantMessage"]
    assert Counter(r.agent_path for r in result.usage) == {"agent": 4, "agent/scout-1": 1}
    assert is_valid(result.messages)


async def test_an_early_result_joins_the_next_request(store: Store) -> None:
    begun, child_ended = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        begun.set()
        await child_ended.wait()
        return "waited"

    agent = Boss()
    agent.tools = (scout, wait)
    steps = [[call("scout", query="a"), call("wait")], "done"]
    model = ScriptedModel(*steps, scripts={"a scout": ["A"]})
    process = runtime(store, model, agent)
    live = await process.start(Chat("go", model=model), agent)
    async for _, event in live.events():
        if isinstance(event, RunEnded) and event.agent_path.endswith("scout-1"):
            child_ended.set()
    result = await live.result()
    assert (result.text, result.steps) == ("done", 2)
    assert delivered(result) == ["[result of scout-1]\nA"]


async def test_each_result_once_and_calls_roll_up(store: Store) -> None:
    steps = [[call("scout", query="a"), call("scout", query="b"), call("scout", query="c")], *[by_answers(*"0123")] * 4]
    scripts = {"a scout": [lambda r: call("look") if len(r.messages) == 1 else r.messages[0].text.upper()] * 6}
    model = ScriptedModel(*steps, scripts=scripts)
    process = runtime(store, model, Boss())
    live = await process.start(Chat("go", model=model), "boss")
    done = [event async for _, event in live.events() if isinstance(event, ToolDone) and event.name == "scout"]
    result = await live.result()
    assert sorted(delivered(result)) == [f"[result of scout-{n}]\n{text}" for n, text in enumerate("ABC", 1)]
    assert result.tool_calls == {"boss": 3, **{f"boss/scout-{n}": 1 for n in (1, 2, 3)}}
    assert result.text == "3"
    assert len(done) == 3
    assert [run.end.status for run in await store.runs(OPERATOR, root_id=live.id)] == ["completed"] * 4
    assert list(await store.operations(OPERATOR, run_id=live.id)) == []


async def test_a_failed_sub_agent_is_reported(store: Store) -> None:
    model = ScriptedModel(call("scout", query="a"), "waiting", "sorry", scripts={"a scout": [ValueError("broken")]})
    result = await (await runtime(store, model, Boss()).start(Chat("go", model=model), "boss")).result()
    (text,) = delivered(result)
    assert text.startswith("[scout-1 failed]\nscout failed: ")
    assert (result.status, result.text) == ("completed", "sorry")


async def test_a_waiting_sub_agent_suspends_itself_and_then_its_parent(store: Store) -> None:
    scripts: dict[str, list[Any]] = {"a scout": [call("pay", amount=1), "bought"]}
    scripts["the boss"] = [call("scout", query="a"), call("look"), "I wait.", "It is bought."]
    model = Steady(scripts=scripts)
    process = runtime(store, model, Boss())
    live = await process.start(Chat("go", model=model), "boss")
    first = await live.result()
    assert (first.status, first.text, texts(first.messages)[1:]) == ("suspended", "I wait.", ["seen"])
    (wait,) = first.waiting
    assert wait.agent_path == "boss/scout-1"
    assert (await store.due(OPERATOR)).ready == ()

    between = await (await runtime(store, model, Boss()).resume(OPERATOR, live.id)).result()
    assert (between.status, between.text, between.steps) == ("suspended", "I wait.", 3)
    await process.approve(OPERATOR, wait.key)
    assert (await store.due(OPERATOR)).ready == (live.id,)
    final = await (await runtime(store, model, Boss()).resume(OPERATOR, live.id)).result()
    assert (final.status, final.text) == ("completed", "It is bought.")
    assert delivered(final) == ["[result of scout-1]\nbought"]
    assert set(ran.values()) == {1}
    assert len(model.requests) == len(final.usage) == 6
    assert final.tool_calls == {"boss": 2, "boss/scout-1": 1}


async def test_a_waiting_turn_and_a_waiting_sub_agent(store: Store) -> None:
    scripts: dict[str, list[Any]] = {"a scout": [call("pay", amount=1), "bought"]}
    scripts["the boss"] = [[call("scout", query="a"), call("pay", amount=2)], "paid", "both", "unused"]
    model = Steady(scripts=scripts)
    async with runtime(store, model, Boss()) as process:
        live = await process.start(Chat("go", model=model), "boss")
        first = await live.result()
        assert {wait.agent_path for wait in first.waiting} == {"boss", "boss/scout-1"}
        mine, childs = sorted(first.waiting, key=lambda wait: wait.agent_path)
        await process.approve(OPERATOR, mine.key)
        await ended(store, live.id, "suspended")
        await process.approve(OPERATOR, childs.key)
        await ended(store, live.id)
        final = await process.result(OPERATOR, live.id)
    assert delivered(final) == ["[result of scout-1]\nbought"]
    assert texts(final.messages)[1:] == ["paid 2"]
    assert set(ran.values()) == {1}
    assert is_valid(final.messages)


async def test_a_turn_that_waits_lets_sub_agents_end_first(store: Store) -> None:
    released = asyncio.Event()
    late = Answer(text="found", before=released.wait)
    scripts: dict[str, list[Any]] = {
        "a scout": [late],
        "the boss": [[call("scout", query="a"), call("pay", amount=2)], "both"],
    }
    model = ScriptedModel(scripts=scripts)
    process = runtime(store, model, Boss())
    live = await process.start(Chat("go", model=model), "boss")
    waiting: CallWaiting = await until(live, CallWaiting)
    await process.approve(OPERATOR, waiting.key)
    released.set()
    result = await live.result()
    assert (result.status, result.text, delivered(result)) == ("completed", "both", ["[result of scout-1]\nfound"])
    assert "suspended" not in [entry.kind for entry in (await store.load(OPERATOR, live.id)).entries]


async def test_parked_and_resumed_elsewhere(store: Store) -> None:
    asked = asyncio.Event()

    def hangs(request: Any) -> Any:
        asked.set()
        return Answer(text="never", before=asyncio.Event().wait)

    scripts: dict[str, list[Any]] = {"a scout": [hangs], "the boss": [call("scout", query="a"), "I wait."]}
    model = ScriptedModel(scripts=scripts)
    process = runtime(store, model, Boss())
    live = await process.start(Chat("go", model=model), "boss")
    await asked.wait()
    while len(model.requests) < 3:  # noqa: ASYNC110 - a model does not announce its requests
        await asyncio.sleep(0.001)
    await process.close()
    scripts = {"a scout": ["found"], "the boss": [by_answers("I wait.", "end"), "end"]}
    second = runtime(store, ScriptedModel(scripts=scripts), Boss())
    result = await (await second.resume(OPERATOR, live.id)).result()
    assert (result.status, result.text, delivered(result)) == ("completed", "end", ["[result of scout-1]\nfound"])


async def test_a_stop_ends_the_sub_agent_with_the_run(store: Store) -> None:
    asked = asyncio.Event()

    def hangs(request: Any) -> Any:
        asked.set()
        return Answer(text="some words", midway=asyncio.Event().wait)

    model = ScriptedModel(scripts={"a scout": [hangs], "the boss": [call("scout", query="a"), "I wait."]})
    process = runtime(store, model, Boss())
    live = await process.start(Chat("go", model=model), "boss")
    await asked.wait()
    receipt = await process.stop(OPERATOR, live.id)
    assert {work.agent_path for work in receipt.stopped + receipt.unknown} >= {"boss/scout-1"}
    assert receipt.not_stopped == ()
    runs = await store.runs(OPERATOR, root_id=live.id)
    assert [run.end.status for run in runs] == ["cancelled"] * 2
    usage = [r for r in await store.usage(OPERATOR, live.id) if r.agent_path == "boss/scout-1"]
    assert len(usage) == 1


async def test_a_suspended_run_is_stopped_with_its_sub_agent(store: Store) -> None:
    scripts: dict[str, list[Any]] = {
        "a scout": [call("pay", amount=1)],
        "the boss": [call("scout", query="a"), "Wait."],
    }
    process = runtime(store, Steady(scripts=scripts), Boss())
    live = await process.start(Chat("go", model=Steady(scripts=scripts)), "boss")
    (wait,) = (await live.result()).waiting
    await process.stop(OPERATOR, live.id)
    assert [run.end.status for run in await store.runs(OPERATOR, root_id=live.id)] == ["cancelled"] * 2
    assert (await store.wait(OPERATOR, wait.key)).resolution is not None


async def test_the_last_step_at_the_runs_own_limit_has_the_results(store: Store) -> None:
    agent = Boss()
    agent.tool_call_limit = 2
    model = ScriptedModel(call("scout", query="a"), by_answers("too early", "in time"), scripts={"a scout": ["A"]})
    result = await (await runtime(store, model, agent).start(Chat("go", model=model), agent)).result()
    assert (result.status, result.text) == ("completed", "in time")


async def test_results_after_the_last_iteration_are_read(store: Store) -> None:
    agent = Boss()
    agent.tool_call_limit = 4
    releases = [asyncio.Event() for _ in range(3)]
    late = [Answer(text=f"{n}", before=event.wait) for n, event in enumerate(releases)]

    def next_one(request: Any) -> Any:
        read = sum(isinstance(m, UserMessage) and m.tool == "scout" for m in request.messages)
        if read < 2:
            releases[read].set()
        return f"read {read}"

    model = ScriptedModel(
        [call("scout", query="a"), call("scout", query="b")], *[next_one] * 3, scripts={"a scout": late}
    )
    result = await (await runtime(store, model, agent).start(Chat("go", model=model), agent)).result()
    assert result.text == "read 2"


async def test_a_limit_of_the_tree_stops_sub_agents_that_wait(store: Store) -> None:
    scripts: dict[str, list[Any]] = {"a scout": [call("pay", amount=1)]}

    async def the_scout_waits() -> None:
        while not await store.waits(OPERATOR):  # noqa: ASYNC110 - the store has no event for it
            await asyncio.sleep(0)

    last = Answer(calls=(call("look"),), before=the_scout_waits)
    scripts["the boss"] = [call("scout", query="a"), call("look"), last, "the end"]
    model = Steady(scripts=scripts)
    process = runtime(store, model, Boss(), limits=lambda *_: Limits(all_tool_calls=4))
    result = await (await process.start(Chat("go", model=model), "boss")).result()
    assert (result.status, result.text) == ("completed", "the end")
    assert delivered(result) == []
    child, root = sorted(r.end.status for r in await store.runs(OPERATOR, root_id=result.run_id))
    assert (child, root) == ("cancelled", "completed")
    assert list(await store.waits(OPERATOR, root_id=result.run_id)) == []


async def test_sub_agents_of_sub_agents(store: Store) -> None:
    class Captain(Boss):
        name = "captain"
        prompt = "You are a captain."

    agent = Boss()
    agent.tools = (delegate(Captain(), description="Leads.", background=True),)
    scripts: dict[str, list[Any]] = {"a scout": [call("pay", amount=1), "bought"]}
    scripts["a captain"] = [call("scout", query="a"), "Waiting.", "The scout has bought."]
    scripts["the boss"] = [call("captain", query="a"), "I wait.", "It is bought."]
    async with runtime(store, Steady(scripts=scripts), agent) as process:
        first = await (await process.start(Chat("go", model=Steady(scripts=scripts)), "boss")).result()
        assert (first.status, first.text) == ("suspended", "I wait.")
        (wait,) = first.waiting
        assert wait.agent_path == "boss/captain-1/scout-1"
        await process.approve(OPERATOR, wait.key)
        await ended(store, first.run_id)
        final = await process.result(OPERATOR, first.run_id)
    assert [m.text for m in final.messages if isinstance(m, UserMessage) and m.tool] == [
        "[result of captain-1]\nThe scout has bought."
    ]
    assert len(final.usage) == 8
    assert final.tool_calls == {"boss": 1, "boss/captain-1": 1, "boss/captain-1/scout-1": 1}
    assert set(ran.values()) == {1}


async def test_a_sub_agent_at_its_limit_ends_those_below_it_that_wait(store: Store) -> None:
    class Captain(Boss):
        name = "captain"
        prompt = "You are a captain."
        tool_call_limit = 2

    agent = Boss()
    agent.tools = (delegate(Captain(), description="Leads.", background=True), pay)
    scripts: dict[str, list[Any]] = {"a scout": [call("pay", amount=1)]}
    scripts["a captain"] = [call("scout", query="a"), "No answer."]
    scripts["the boss"] = [[call("captain", query="a"), call("pay", amount=2)], "end", "end"]
    process = runtime(store, Steady(scripts=scripts), agent)
    first = await (await process.start(Chat("go", model=Steady(scripts=scripts)), "boss")).result()
    assert [wait.agent_path for wait in first.waiting] == ["boss"], "nobody would read another answer"
    await process.approve(OPERATOR, first.waiting[0].key)
    final = await (await process.resume(OPERATOR, first.run_id)).result()
    assert (final.status, final.text) == ("completed", "end"), final.error


async def test_a_fork_has_a_sub_agent_of_its_own(store: Store) -> None:
    scripts: dict[str, list[Any]] = {"a scout": [call("pay", amount=1), "bought"]}
    scripts["the boss"] = [call("scout", query="a"), call("look"), "I wait.", "It is bought."]
    model = Steady(scripts=scripts)
    process = runtime(store, model, Boss())
    live = await process.start(Chat("go", model=model), "boss")
    (wait,) = (await live.result()).waiting
    forked = await (await process.fork(OPERATOR, live.id, 2)).result()
    (other,) = forked.waiting
    assert (forked.status, other.run_id != wait.run_id) == ("suspended", True)
    await process.approve(OPERATOR, other.key)
    final = await (await runtime(store, model, Boss()).resume(OPERATOR, forked.run_id)).result()
    assert delivered(final) == ["[result of scout-1]\nbought"]
    assert (await store.run(OPERATOR, live.id)).end is None


async def test_a_typed_answer_is_checked_when_all_results_are_there(store: Store) -> None:
    agent = Boss()
    agent.output_type = list[int]
    model = ScriptedModel(call("scout", query="a"), by_answers("I wait", "[1]"), "[1]", scripts={"a scout": ["1"]})
    process = runtime(store, model, agent)
    result = await (await process.start(Chat("go", model=model), agent)).result()
    assert (result.status, result.output) == ("completed", [1])
    assert len(delivered(result)) == 1


async def test_a_call_outside_a_turn_waits_for_the_result(store: Store) -> None:
    class Prepared(Boss):
        async def prepare(self, run: RunContext[None]) -> tuple[Message, ...]:
            return (SystemMessage(str((await run.call("scout", {"query": "a"})).content)),)

    model = ScriptedModel("end", scripts={"a scout": ["A"]})
    result = await (await runtime(store, model, Prepared()).start(Chat("go", model=model), "boss")).result()
    assert [m.text for m in result.messages if isinstance(m, SystemMessage)] == ["A"]


async def test_only_repeatable_tools_run_in_the_background() -> None:
    class Once(Tool):
        name, description, parameters = "once", "Once.", {"type": "object"}
        background = True

        def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
            return ""

    with pytest.raises(ConfigurationError, match="background=True needs effect='idempotent'"):
        ToolRegistry([Once()])


async def test_an_answered_sub_agent_continues_at_the_next_step(store: Store) -> None:
    """The parent does not have to be suspended for it."""
    approved, paid = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def work() -> str:
        """Work until the sub-agent has its answer."""
        await approved.wait()
        return "worked"

    @tool(effect="read")
    async def linger() -> str:
        """Work until the sub-agent has ended."""
        await paid.wait()
        return "lingered"

    agent = Boss()
    agent.tools = (scout, work, linger)
    steps = [call("scout", query="a"), call("work"), call("linger"), "done"]
    model = ScriptedModel(*steps, scripts={"a scout": [call("pay", amount=1), "A"]})
    process = runtime(store, model, agent)
    live = await process.start(Chat("go", model=model), agent)
    async for _, event in live.events():
        if isinstance(event, RunEnded) and event.result.status == "suspended":
            (wait,) = event.result.waiting
            assert (await process.approve(OPERATOR, wait.key)).won
            approved.set()
        if isinstance(event, RunEnded) and event.result.text == "A":
            paid.set()
    result = await live.result()
    assert (result.status, result.text) == ("completed", "done")
    assert delivered(result) == ["[result of scout-1]\nA"]
    assert result.tool_calls == {"boss": 3, "boss/scout-1": 1}
