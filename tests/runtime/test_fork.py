"""A fork is a new run that stands where another one stood."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    Continue,
    DataPolicy,
    Finish,
    Limits,
    NextStep,
    RunContext,
    Scope,
    Special,
    SystemMessage,
    ToolCall,
    UserMessage,
    tool,
)
from concertino.agents import delegate
from concertino.errors import ErasedError, RunStateError, UnknownRunError
from concertino.events import RunStarted
from concertino.storage import Store
from concertino.testing import ScriptedModel, call
from tests.tasks import advance

from .kit import Steady, is_valid, plain, runtime, seen, wire


@tool(effect="read")
async def look(n: int) -> str:
    """Look."""
    await advance()
    return f"seen {n}"


@dataclasses.dataclass
class Notes:
    """An agent's own state."""

    steps: list[int] = dataclasses.field(default_factory=list)


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    tools = (look,)


class Desk(AgentConfig[Notes]):
    name = "desk"
    prompt = "You are a desk."
    tools = (look, delegate(Child(), description="A child."))

    def initialize_agent_state(self, run: RunContext[Notes]) -> Notes:
        return Notes()

    def should_continue_loop(self, run: RunContext[Notes]) -> NextStep:
        run.agent_state.steps.append(run.state.step)
        return Continue() if run.state.has_tool_calls else Finish()

    def conclude(self, run: RunContext[Notes], text: str) -> str:
        return f"{text} {run.agent_state.steps} {run.state.iteration}"


CHILD = {"the child": [call("look", n=1), "in"]}
STEPS = [[call("look", n=1), call("child", query="a")], call("look", n=2), [call("child", query="b")] * 2, "end"]


async def original(store: Store, **settings: Any) -> tuple[str, Steady]:
    model = Steady(*STEPS, scripts=CHILD)
    chat = Chat(model=model, message="go", history=[UserMessage("before")], scope=Scope(user="u"), **settings)
    live = await runtime(store, model, Desk()).start(chat, "desk")
    await live.result()
    return live.id, model


def of_desk(model: ScriptedModel) -> list[Any]:
    return [request for request in model.requests if "desk" in request.system]


@pytest.mark.parametrize("step", [1, 2, 3, 4])
async def test_forked_from_every_step(store: Store, step: int) -> None:
    run_id, model = await original(store)
    before = await store.load(OPERATOR, run_id)
    other = Steady(*["wrong"] * (step - 1), call("look", n=9), "another end", scripts=CHILD)
    live = await runtime(store, other, Desk()).fork(OPERATOR, run_id, step)
    result = await live.result()

    assert live.id != run_id
    assert [wire(r) for r in of_desk(other)[:1]] == [wire(of_desk(model)[step - 1])]
    asked = of_desk(model)[step - 1].messages
    assert list(of_desk(other)[1].messages)[: len(asked)] == list(asked)
    assert (result.status, result.steps) == ("completed", step + 1)
    assert result.text.startswith("another end [")
    assert is_valid(result.messages)
    assert result.messages[0] == UserMessage("go")
    assert [m.message for m in await store.messages(OPERATOR, live.id)] == list(result.messages)
    assert {r.run_id for r in result.usage} == {live.id}
    assert len(result.usage) == len(other.requests), "what was used before is the other run's"
    assert await store.load(OPERATOR, run_id) == before
    stored = await store.run(OPERATOR, live.id)
    assert stored is not None
    assert (stored.start.forked_from, stored.start.root_id, stored.start.scope.user) == (run_id, live.id, "u")

    again = [request for _, _, request in await runtime(store, other).replay(OPERATOR, live.id)]
    assert [wire(r) for r in again] == [wire(r) for r in of_desk(other)]
    assert await runtime(store, other).result(OPERATOR, live.id) == result


@pytest.mark.parametrize("step", [1, 2, 3, 4])
async def test_the_same_answers_give_the_same_end(store: Store, step: int) -> None:
    run_id, model = await original(store)
    wanted = await runtime(store, model).result(OPERATOR, run_id)
    again = Steady(*STEPS, scripts=CHILD)
    result = await (await runtime(store, again, Desk()).fork(OPERATOR, run_id, step)).result()
    assert [plain(r) for r in of_desk(again)] == [plain(r) for r in of_desk(model)[step - 1 :]]
    assert (result.text, result.messages, result.tool_calls, result.data, result.steps) == (
        wanted.text,
        wanted.messages,
        wanted.tool_calls,
        wanted.data,
        wanted.steps,
    )


async def test_a_fork_of_a_fork(store: Store) -> None:
    run_id, _ = await original(store)
    process = runtime(store, Steady(*["wrong"] * 2, call("look", n=5), "second", scripts=CHILD), Desk())
    second = await process.fork(OPERATOR, run_id, 3)
    events = await seen(second)
    assert isinstance(events[0], RunStarted)
    assert events[0].resumed
    third_model = Steady(*["wrong"] * 3, "third", scripts=CHILD)
    third = await runtime(store, third_model, Desk()).fork(OPERATOR, second.id, 4)
    assert (await third.result()).text.startswith("third ")
    earlier = await runtime(store, Steady("first"), Desk()).fork(OPERATOR, second.id, 3)  # the step it was forked at
    assert earlier.id not in (run_id, second.id)
    first = await (await runtime(store, Steady(*STEPS, scripts=CHILD), Desk()).fork(OPERATOR, earlier.id, 3)).result()
    assert first.text == (await process.result(OPERATOR, run_id)).text
    assert of_desk(third_model)[0].messages[-1].content == "seen 5"


async def test_a_fork_of_a_run_that_was_parked(store: Store) -> None:
    model = Steady(*STEPS, scripts=CHILD)
    async with runtime(store, model, Desk()) as process:
        live = await process.start(Chat(model=model, message="go"), "desk")
        async for _, event in live.events():
            if event.agent_path == "desk/child-1":
                break
    other = runtime(store, Steady(*STEPS, scripts=CHILD), Desk())
    forked = await (await other.fork(OPERATOR, live.id, 1)).result()
    taken = await (await other.resume(OPERATOR, live.id)).result()
    assert (forked.text, forked.messages) == (taken.text, taken.messages)


@pytest.mark.parametrize("step", [0, 5, -1])
async def test_there_is_no_such_step(store: Store, step: int) -> None:
    run_id, model = await original(store)
    with pytest.raises(RunStateError, match="no step"):
        await runtime(store, model, Desk()).fork(OPERATOR, run_id, step)
    assert len(await store.runs(OPERATOR, roots=True)) == 1
    with pytest.raises(UnknownRunError):
        await runtime(store, model, Desk()).fork(OPERATOR, "nobody", 1)


async def test_what_was_erased_cannot_be_forked(store: Store) -> None:
    class Forgets(Desk):
        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(text="drop")

    model = Steady(*STEPS, scripts=CHILD)
    process = runtime(store, model, Forgets())
    live = await process.start(Chat(model=model, message="go"), "desk")
    await live.result()
    for call_it in (lambda: process.fork(OPERATOR, live.id, 1), lambda: process.result(OPERATOR, live.id)):
        process._live.clear()
        with pytest.raises(ErasedError):
            await call_it()


async def test_a_fork_of_a_conversation_that_was_replaced_or_trimmed(store: Store) -> None:
    @tool(effect="read")
    async def large(n: int) -> str:
        """Much."""
        return f"{n} is a number. " * 120

    class Shrinks(AgentConfig[None]):
        name = "shrinks"
        tools = (large,)

        def handle_special_tools(self, run: RunContext[None], call: ToolCall, outcome: Any) -> Special | None:
            if run.state.step != 4:
                return None
            return Special(messages=(UserMessage("go"), SystemMessage("so far")))

    means: dict[str, Any] = {"limits": lambda scope, model, agent: Limits(context=2_000, output=100)}
    steps = [call("large", n=n) for n in range(9)]
    model = ScriptedModel(*steps, "end")
    process = runtime(store, model, Shrinks(), **means)
    live = await process.start(Chat(model=model, message="go"), "shrinks")
    await live.result()
    for step in range(1, 11):
        again = ScriptedModel(*steps[step - 1 :], "end")
        again._calls = step - 1
        forked = await (await runtime(store, again, Shrinks(), **means).fork(OPERATOR, live.id, step)).result()
        assert forked.text == "end"
        assert [wire(r) for r in again.requests] == [wire(r) for r in model.requests[step - 1 :]], step
        replayed = [wire(r) for _, _, r in await process.replay(OPERATOR, forked.run_id)]
        assert replayed == [wire(r) for r in again.requests], step
