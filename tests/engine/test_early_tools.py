"""Tools that start while the model is still writing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    AssistantMessage,
    Chat,
    Limits,
    MemoryStore,
    Resources,
    RunContext,
    Tokens,
    Tool,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolOrchestrator,
    Turn,
    tool,
)
from concertino.errors import BrokenStreamError
from concertino.events import ToolDone, ToolStarted, TurnCompleted, UsageRecorded
from concertino.providers import ToolCallReady
from concertino.testing import Answer, ScriptedModel, call

from .conftest import Play

began: dict[str, int] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    began.clear()


async def _look(n: int) -> str:
    """Look."""
    began[str(n)] = began.get(str(n), 0) + 1
    for _ in range(5 - n):
        await asyncio.sleep(0)
    return f"seen {n}"


look = tool(effect="read", name="look")(_look)
put = tool(effect="idempotent", name="put")(_look)
pay = tool(effect="once", name="pay")(_look)


class Early(AgentConfig[None]):
    start_tools_early = True
    tools: Sequence[Tool] = (look, put, pay)


class Interprets(Early):
    def interpret_response(self, run: RunContext[None], message: AssistantMessage) -> Turn:
        return Turn(message, message.tool_calls)


class Processes(Early):
    def process_tool_calls(self, run: RunContext[None], calls: Any) -> Any:
        return calls


class Late(Early):
    start_tools_early = False


async def pause() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def answer(*calls: Any, **settings: Any) -> Answer:
    return Answer(text="I look", calls=calls, midway=pause, **settings)


@pytest.mark.parametrize(
    ("agent", "name", "early"),
    [
        (Early(), "look", True),
        (Early(), "put", False),
        (Early(), "pay", False),
        (Interprets(), "look", False),
        (Processes(), "look", False),
        (Late(), "look", False),
    ],
    ids=["read", "idempotent", "once", "interprets", "processes", "late"],
)
@pytest.mark.parametrize("stored", [True, False])
async def test_only_what_reads_starts_before_the_answer_is_whole(
    play: Play, agent: AgentConfig[None], name: str, early: bool, stored: bool
) -> None:
    store = MemoryStore() if stored else None
    with ScriptedModel(answer(call(name, n=1)), "end") as model:
        seen = await play(model, agent, store=store)
    kinds = [type(event) for event in seen.events if isinstance(event, ToolStarted | TurnCompleted | ToolDone)]
    started = kinds.index(ToolStarted)
    assert (started < kinds.index(TurnCompleted)) == early
    assert kinds.count(ToolStarted) == kinds.count(ToolDone) == 1
    assert began == {"1": 1}
    if early:
        assert kinds.index(ToolDone) < kinds.index(TurnCompleted), "it is done before the model is"
    assert seen.result.tool_calls == {"agent": 1}


MIXED = [call("look", n=4), call("pay", n=1), call("look", n=0), call("nobody"), call("look", n="x"), call("put", n=2)]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("width", [1, 2, 64])
async def test_the_conversation_is_the_same_as_without(play: Play, stored: bool, width: int) -> None:
    results = []
    for agent in (Early(), Late()):
        began.clear()
        script = [answer(*MIXED), answer(call("look", n=3), call("look", n=3)), "end"]
        settings: dict[str, Any] = {"store": MemoryStore() if stored else None}
        settings["limits"] = lambda scope, model, agent: Limits(parallel_tools=width)
        with ScriptedModel(*script) as model:
            seen = await play(model, agent, **settings)
        results.append(seen.result)
        assert began == {"4": 1, "1": 1, "0": 1, "2": 1, "3": 2}
        assert sorted(e.call_id for e in seen.of(ToolStarted)) == sorted(f"call_{n}" for n in range(1, 9))
    first, second = results
    assert first.messages == second.messages
    assert (first.tool_calls, first.text, first.steps) == (second.tool_calls, second.text, second.steps)
    read = [m.content for m in first.messages if isinstance(m, ToolMessage)]
    assert [read[place] for place in (0, 1, 2, 5, 6, 7)] == ["seen 4", "seen 1", "seen 0", "seen 2", "seen 3", "seen 3"]


@pytest.mark.parametrize("error", [BrokenStreamError("broken"), RuntimeError("odd")])
@pytest.mark.parametrize("stored", [True, False])
async def test_a_stream_that_breaks_when_a_call_is_ready(play: Play, error: Exception, stored: bool) -> None:
    never = asyncio.Event()
    cancelled: list[bool] = []

    @tool(effect="read")
    async def hangs() -> None:
        """Hang."""
        try:
            await never.wait()
        finally:
            cancelled.append(True)

    agent = Early()
    agent.tools = (look, hangs)
    store = MemoryStore() if stored else None
    with ScriptedModel(answer(call("look", n=1), call("hangs"), error=error)) as model:
        seen = await play(model, agent, store=store)
    result = seen.result
    assert (result.status, cancelled, began) == ("failed", [True], {"1": 1})
    assert [m.role for m in result.messages] == ["user", "assistant"], "no result without its call"
    assert not any(m.tool_calls for m in result.messages if isinstance(m, AssistantMessage))
    assert len(result.usage) == 1
    if store is not None:
        assert [kept.message for kept in await store.messages(OPERATOR, result.run_id)] == list(result.messages)


async def test_a_reply_with_other_calls_than_were_announced(play: Play) -> None:
    class Changes(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            if len(self.requests) == 0:
                yield ToolCallReady(ToolCall("call_1", "look", '{"n": 4}'))
                await pause()
            async for event in super().stream(request):
                if not isinstance(event, ToolCallReady):
                    yield event

    with Changes(call("look", n=2), "end") as model:
        seen = await play(model, Early())
    assert [m.content for m in seen.result.messages if isinstance(m, ToolMessage)] == ["seen 2"]
    assert seen.result.status == "completed"


async def test_it_is_counted_once_and_named_by_its_place(play: Play) -> None:
    keys: list[str] = []

    @tool(effect="read")
    async def key(context: ToolContext) -> str:
        """Say its key."""
        keys.append(context.key)
        context.add_usage(provider="scripted", model="aside", tokens=Tokens(prompt=1))
        return context.key

    agent = Early()
    agent.tools = (key, pay)
    with ScriptedModel(answer(call("key"), call("pay", n=1), call("key")), "end") as model:
        seen = await play(model, agent, store=MemoryStore())
    assert [k.partition(":")[2] for k in keys] == ["1.0", "1.2"]
    assert len({r.id for r in seen.result.usage}) == len(seen.of(UsageRecorded)) == 4


async def test_cancelled_while_an_early_tool_works() -> None:
    opened = asyncio.Event()
    agent = Early()

    @tool(effect="read")
    async def hangs() -> None:
        """Hang."""
        opened.set()
        await asyncio.Event().wait()

    agent.tools = (hangs,)
    store = MemoryStore()
    model = ScriptedModel(Answer(calls=(call("hangs"),), midway=asyncio.Event().wait))
    run = ToolOrchestrator(Chat(model=model, message="go"), agent, resources=Resources(store=store))
    task = asyncio.create_task(run.run())
    await opened.wait()
    run.stop()
    assert (await task).status == "cancelled"
    assert run.result is not None
    assert [w.what for w in run.result.receipt.stopped] == ["model", "tool"]
    assert [m.role for m in run.result.messages] == ["user"]
    assert len(run.result.usage) == 1


async def test_a_failing_hook_beside_an_early_tool(play: Play) -> None:
    class Fails(Early):
        def preprocess_tool_arguments(self, run: RunContext[None], call: ToolCall) -> dict[str, Any]:
            raise ZeroDivisionError

    with ScriptedModel(answer(call("look", n=1))) as model:
        seen = await play(model, Fails())
    assert seen.result.status == "failed"
    assert "preprocess_tool_arguments" in (seen.result.error or "")
    assert [m.role for m in seen.result.messages] == ["user", "assistant", "tool"]


@tool(effect="read")
async def read(n: int) -> str:
    """Read something long."""
    return f"page {n}: " + "word and móre " * 4_000


@tool(effect="read", shown=True)
async def show(n: int) -> str:
    """Show something long."""
    return f"page {n}: " + "word and more " * 4_000


@pytest.mark.parametrize("stored", [True, False])
async def test_results_share_the_room_as_if_they_had_begun_later(play: Play, stored: bool) -> None:
    results = []
    for agent in (Early(), Late()):
        agent.tools = (read, show)
        turn = answer(*[call("read", n=n) for n in range(9)], call("show", n=9))
        settings: dict[str, Any] = {"store": MemoryStore() if stored else None}
        settings["limits"] = lambda *_: Limits(context=16_000, output=1_000)
        with ScriptedModel(answer(call("read", n=0)), turn, "end") as model:
            seen = await play(model, agent, **settings)
        assert sorted(len(event.content) for event in seen.of(ToolDone)) == [56_008] * 11, "the consumer has all of it"
        results.append(seen.result)
    first, second = results
    assert first.status == second.status == "completed"
    assert first.messages == second.messages
    sizes = [len(m.content) for m in first.messages if isinstance(m, ToolMessage)]
    assert sizes[0] > 2 * max(sizes[1:])
