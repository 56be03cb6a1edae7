"""Several calls that wait, beside others that do not, and in sub-agents."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    Deny,
    Limits,
    Pending,
    RunContext,
    RunResult,
    ToolCall,
    ToolContext,
    tool,
)
from concertino.agents import delegate
from concertino.events import CallWaiting, Notice, RunEnded, RunStarted, ToolStarted
from concertino.storage import Store
from concertino.testing import call
from concertino.waits import Wait

from .kit import Steady, ended, is_valid, measured, runtime, state, texts, until

ran: Counter[str] = Counter()
free = threading.Event()  # of no loop


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()
    free.clear()


@tool
async def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    ran[context.key] += 1
    return f"paid {amount}"


@tool(effect="idempotent", remote=True)
async def order(context: ToolContext) -> Pending:
    """Order."""
    ran[context.key] += 1
    return Pending()


@tool(effect="read")
async def look(context: ToolContext) -> str:
    """Look."""
    ran[context.key] += 1
    return "seen"


@tool
async def send(context: ToolContext) -> str:
    """Send something, as slowly as the test wants."""
    ran[context.key] += 1
    await state(free.is_set)
    return "sent"


@tool(effect="read")
def block() -> str:
    """Look, from a thread."""
    return "blocked"


class Asks(AgentConfig[None]):
    name = "desk"
    prompt = "You are a desk."
    tools = (pay, order, look, send, block)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        return Ask() if call.name == "pay" else Allow()


TURN = [call("pay", amount=1), call("look"), call("order"), call("pay", amount=2), call("block"), call("send")]


def agents(depth: int) -> AgentConfig[Any]:
    """An agent with as many below it, each the tool of the one above."""
    agent: AgentConfig[Any] = Asks()
    for level in range(depth):

        class Above(AgentConfig[None]):
            name = f"above{level}"
            prompt = f"You are above {level}."
            tools = (delegate(agent, name="below", description="Below."), look)

        agent = Above()
    return agent


async def test_suspended_when_all_else_is_done(store: Store) -> None:
    model = Steady(TURN, "end")
    process = runtime(store, model, Asks())
    live = await process.start(Chat(model=model, message="go"), "desk")
    await until(live, CallWaiting, 3)
    assert not live.done, "send is still at work"
    free.set()
    result = await live.result()
    assert (result.status, [w.tool for w in sorted(result.waiting, key=lambda w: w.key)]) == (
        "suspended",
        ["pay", "order", "pay"],
    )
    assert [key.rpartition(".")[2] for key in sorted(ran)] == ["1", "2", "5"]

    wanted: dict[str, tuple[str, dict[str, Any]]] = {
        "pay": ("approve", {"arguments": {"amount": 9}}),
        "order": ("resolve", {"content": "came"}),
    }
    for number, wait in enumerate(sorted(result.waiting, key=lambda w: w.key)):
        assert (await store.due(OPERATOR)).ready == (), "not all of them are answered"
        method, given = wanted[wait.tool]
        await getattr(process, method)(OPERATOR, wait.key, **(given if number else {}))
    assert (await store.due(OPERATOR)).ready == (live.id,)

    again = await runtime(store, model, Asks()).resume(OPERATOR, live.id)
    events = [event async for _, event in again.events(again.resumed_after)]
    final = await again.result()
    assert texts(final.messages) == ["paid 1", "seen", "came", "paid 9", "blocked", "sent"]
    assert sorted({e.name for e in events if isinstance(e, ToolStarted)}) == ["order", "pay"]
    assert set(ran.values()) == {1}, "nothing ran twice"
    assert is_valid(final.messages)
    assert final.tool_calls == {"desk": 6}
    assert measured(final.usage).total() == len(model.requests) == 2


async def test_taken_up_with_one_answer_of_two(store: Store) -> None:
    model = Steady([call("pay", amount=1), call("pay", amount=2), call("look")], "end")
    process = runtime(store, model, Asks())
    first = await (await process.start(Chat(model=model, message="go"), "desk")).result()
    one, two = sorted(first.waiting, key=lambda w: w.key)
    await process.approve(OPERATOR, two.key)
    between = await (await runtime(store, model, Asks()).resume(OPERATOR, first.run_id)).result()
    assert (between.status, [w.key for w in between.waiting]) == ("suspended", [one.key])
    assert ran[two.key] == 1
    await process.deny(OPERATOR, one.key)
    last = await (await runtime(store, model, Asks()).resume(OPERATOR, first.run_id)).result()
    assert texts(last.messages) == ["not allowed: no reason was given", "paid 2", "seen"]
    assert set(ran.values()) == {1}


async def test_an_answer_while_siblings_still_run(store: Store) -> None:
    model = Steady([call("pay", amount=1), call("send")], "end")
    process = runtime(store, model, Asks())
    live = await process.start(Chat(model=model, message="go"), "desk")
    waiting: CallWaiting = await until(live, CallWaiting)
    assert (await process.approve(OPERATOR, waiting.key)).won
    free.set()
    result = await live.result()
    assert (result.status, texts(result.messages)) == ("completed", ["paid 1", "sent"])
    assert "suspended" not in [entry.kind for entry in (await store.load(OPERATOR, live.id)).entries]


async def test_calls_one_after_another(store: Store) -> None:
    agent = Asks()
    agent.use_parallel_tools = False
    free.set()
    model = Steady(TURN, "end")
    async with runtime(store, model, agent) as process:
        result = await (await process.start(Chat(model=model, message="go"), agent)).result()
        assert len(result.waiting) == 3
        for wait in result.waiting:
            await (
                process.approve(OPERATOR, wait.key)
                if wait.kind == "approval"
                else process.resolve(OPERATOR, wait.key, "came")
            )
        await ended(store, result.run_id)
        final = await process.result(OPERATOR, result.run_id)
    assert texts(final.messages) == ["paid 1", "seen", "came", "paid 2", "blocked", "sent"]
    assert set(ran.values()) == {1}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("watched", [True, False])
async def test_approvals_at_any_depth(store: Store, depth: int, watched: bool) -> None:
    free.set()
    above = {
        f"above {n}.": [[call("look"), call("below", query="a"), call("below", query="b")], f"above {n}"]
        for n in range(depth)
    }
    scripts = {**above, "You are a desk": [TURN, "desk's end"]}

    def model() -> Steady:
        return Steady(scripts=scripts)

    lives = [model()]
    process = runtime(store, lives[0], agents(depth))
    live = await process.start(Chat(model=lives[0], message="go"), f"above{depth - 1}")
    result: RunResult = await live.result()
    leaves = 2**depth
    assert (result.status, len(result.waiting)) == ("suspended", 3 * leaves)
    assert {w.agent_path.count("/") for w in result.waiting} == {depth}
    assert len({w.run_id for w in result.waiting}) == leaves
    once = dict(ran)
    suspended = await store.runs(OPERATOR, root_id=live.id, state="suspended", limit=1_000)
    assert len(suspended) == 2 ** (depth + 1) - 1

    async def answer(wait: Wait) -> None:
        await (
            process.approve(OPERATOR, wait.key)
            if wait.kind == "approval"
            else process.resolve(OPERATOR, wait.key, "came")
        )

    for wait in result.waiting:
        await answer(wait)
    lives.append(model())
    async with runtime(store, lives[1], agents(depth)) as taken:
        if not watched:
            await taken.resume(OPERATOR, live.id)
        await ended(store, live.id)
        final = await taken.result(OPERATOR, live.id)
    assert (final.status, final.text) == ("completed", f"above {depth - 1}")
    assert {key: ran[key] for key in once} == once, "siblings that were done never run again"
    assert set(ran.values()) == {1}
    for stored in await store.runs(OPERATOR, root_id=live.id, limit=1_000):
        assert stored.end.status == "completed"
        kept = [m.message for m in await store.messages(OPERATOR, stored.start.run_id)]
        assert is_valid(kept)
        if stored.start.agent == "desk":
            assert texts(kept) == ["paid 1", "seen", "came", "paid 2", "blocked", "sent"]
    assert final.tool_calls == {w.agent_path: 6 for w in result.waiting} | {
        path: 3 for path in final.tool_calls if not path.rpartition("/")[2].startswith("desk")
    }
    assert len(final.usage) == sum(len(life.requests) for life in lives) == 2 * (2 ** (depth + 1) - 1)


async def test_the_first_leaf_goes_on_when_its_own_are_answered(store: Store) -> None:
    scripts: dict[str, list[Any]] = {
        "above 0.": [[call("below", query="a"), call("below", query="b")], "end"],
        "a desk": [call("pay", amount=1), "leaf"],
    }
    model = Steady(scripts=scripts)
    async with runtime(store, model, agents(1)) as process:
        live = await process.start(Chat(model=model, message="go"), "above0")
        one, two = (await live.result()).waiting
        await process.approve(OPERATOR, one.key)
        await ended(store, one.run_id)
        assert (await store.run(OPERATOR, two.run_id)).end is None
        await ended(store, live.id, "suspended")
        assert [w.key for w in await store.waits(OPERATOR, root_id=live.id)] == [two.key]
        await process.approve(OPERATOR, two.key)
        await ended(store, live.id)
        last = process.live(OPERATOR, live.id)
        if last is not None:
            here = [event async for _, event in last.events(last.resumed_after)]
            children = [e for e in here if isinstance(e, RunStarted | RunEnded) and e.run_id == one.run_id]
            assert children == [], "a sub-agent that had ended is not run again"
    assert set(ran.values()) == {1}


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_sub_agent_continues_as_soon_as_it_is_answered(store: Store, depth: int) -> None:
    """Its parent is still at work, and no run is suspended for it."""
    scripts = {f"above {n}.": [[call("below", query="a")], f"above {n}"] for n in range(depth)}
    scripts[f"above {depth - 1}."] = [[call("below", query="a"), call("linger")], "the end"]
    scripts["You are a desk"] = [[call("pay", amount=1)], "paid it"]

    @tool(effect="read")
    async def linger() -> str:
        """Work until the sub-agent has ended."""
        await state(lambda: len(ended_below) == depth)
        return "seen"

    ended_below: list[str] = []
    top = agents(depth)
    top.tools = (*top.tools, linger)
    free.set()
    model = Steady(scripts=scripts)
    process = runtime(store, model, top, limits=lambda *_: Limits(all_tool_calls=depth + 3))
    live = await process.start(Chat(model=model, message="go"), top.name)
    waiting: CallWaiting = await until(live, CallWaiting)
    assert (await process.approve(OPERATOR, waiting.key)).won
    async for _, event in live.events():
        assert not isinstance(event, Notice), "no call counts twice against the limit"
        if isinstance(event, RunEnded) and event.result.status == "completed" and event.run_id != live.id:
            ended_below.append(event.run_id)
    result = await live.result()
    assert (result.status, len(ended_below)) == ("completed", depth)
    assert texts(result.messages)[-1] == "seen"
    assert set(ran.values()) == {1}
    assert measured(result.usage).total() == len(model.requests)
    assert "suspended" not in [entry.kind for entry in (await store.load(OPERATOR, live.id)).entries]


async def test_an_approved_call_runs_while_others_of_its_turn_run(store: Store) -> None:
    """It does not wait for them either."""
    model = Steady([call("pay", amount=1), call("send")], "end")
    process = runtime(store, model, Asks())
    live = await process.start(Chat(model=model, message="go"), "desk")
    waiting: CallWaiting = await until(live, CallWaiting)
    assert (await process.approve(OPERATOR, waiting.key)).won
    await state(lambda: ran[waiting.key] == 1)
    assert not live.done
    free.set()
    assert texts((await live.result()).messages) == ["paid 1", "sent"]


@pytest.mark.parametrize("decision", [Ask(), Deny("no longer")])
async def test_a_stricter_rule_meets_a_call_whose_sub_agent_waits(store: Store, decision: Ask | Deny) -> None:
    """The call has begun, so nobody is asked about it; a denial ends it."""
    strict = False

    class Strict(AgentConfig[None]):
        name = "strict"
        prompt = "You are strict."
        tools = (delegate(Asks(), name="below", description="Below."),)

        def authorize_tool_call(
            self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]
        ) -> Allow | Ask | Deny:
            return decision if strict else Allow()

    scripts = {"You are strict": [call("below", query="x"), "end"], "You are a desk": [call("pay", amount=1), "child"]}
    model = Steady(scripts=scripts)
    result = await (await runtime(store, model, Strict()).start(Chat(model=model, message="go"), "strict")).result()
    assert result.status == "suspended"
    strict = True
    (wait,) = result.waiting
    process = runtime(store, model, Strict())
    await process.approve(OPERATOR, wait.key)
    result = await (await process.resume(OPERATOR, wait.root_id)).result()
    assert (result.status, result.text) == ("completed", "end")
    assert texts(result.messages) == (["child"] if isinstance(decision, Ask) else ["not allowed: no longer"])
    assert await store.waits(OPERATOR, root_id=wait.root_id) == ()
