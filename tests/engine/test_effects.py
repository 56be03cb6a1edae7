"""Tools with a declared effect: what a life of a run that ended in the middle of one leaves to the next."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Chat,
    Done,
    MemoryStore,
    ModelRequest,
    NotDone,
    Resources,
    RunContext,
    Tool,
    ToolCall,
    ToolContext,
    ToolMessage,
    tool,
)
from concertino.errors import ConfigurationError
from concertino.events import Notice, RunEvent, ToolFailed
from concertino.providers import ModelEvent, Reply
from concertino.runtime import Runtime
from concertino.testing import ScriptedModel, call

from ..runtime.kit import state

keys: list[str] = []
"""Of the calls that began, in order."""
hangs: set[str] = set()
"""Tools that do not end."""
free = threading.Event()
UNKNOWN = "OUTCOME_UNKNOWN"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    keys.clear()
    hangs.clear()
    free.clear()
    yield
    free.set()


async def body(n: int, context: ToolContext) -> str:
    """Work."""
    keys.append(context.key)
    if context.tool in hangs:
        await asyncio.Event().wait()
    return f"{context.tool} {n}"


def in_thread(n: int, context: ToolContext) -> str:
    """Work, in a thread."""
    keys.append(context.key)
    if context.tool in hangs:
        free.wait()
    return f"{context.tool} {n}"


def agent(*tools: Tool, **settings: Any) -> AgentConfig[None]:
    made: AgentConfig[None] = AgentConfig()
    made.tools = tools
    for name, value in settings.items():
        setattr(made, name, value)
    return made


async def two_lives(config: AgentConfig[None], *script: Any, park_at: int = 1) -> tuple[list[RunEvent], list[str], str]:
    """A run that is parked when *park_at* bodies have begun, and taken up: its events, its results, its id."""
    store = MemoryStore()
    first, second = ScriptedModel(*script), ScriptedModel(*script[1:])
    process = Runtime([config], Resources(store=store, models=lambda name: first))
    live = await process.start(Chat(model=first, message="go"), config)
    await state(lambda: len(keys) >= park_at)
    await process.close()
    hangs.clear()
    taken = await Runtime([config], Resources(store=store, models=lambda name: second)).resume(OPERATOR, live.id)
    events = [event async for _, event in taken.events()]
    result = await taken.result()
    assert result.status == "completed", result.error
    contents = [m.content for m in result.messages if isinstance(m, ToolMessage)]
    results = [UNKNOWN if content.startswith(f"{UNKNOWN}: the process ended") else content for content in contents]
    return events, results, live.id


def notices(events: list[RunEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.code == "outcome_unknown"]


async def raises() -> Done:
    raise ConnectionError("the bank is down")


async def exits() -> Done:
    raise SystemExit(1)


async def cancels() -> Done:
    raise asyncio.CancelledError


async def says(value: Done | NotDone | None) -> Done | NotDone | None:
    return value


@pytest.mark.parametrize("function", [body, in_thread], ids=["async", "thread"])
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_what_may_run_again_does(effect: Any, function: Any) -> None:
    hangs.add("work")
    events, results, run_id = await two_lives(
        agent(tool(effect=effect, name="work")(function)), call("work", n=1), "end"
    )
    assert results == ["work 1"]
    assert keys == [f"{run_id}:1.0"] * 2
    assert not notices(events)


@pytest.mark.parametrize("authorizes", [True, False])
@pytest.mark.parametrize("function", [body, in_thread], ids=["async", "thread"])
@pytest.mark.parametrize(
    ("answer", "wanted", "times"),
    [
        (lambda: says(Done("it was paid")), "it was paid", 1),
        (lambda: says(Done({"é": 1})), '{"é": 1}', 1),
        (lambda: says(NotDone()), "work 1", 2),
        (lambda: says(None), UNKNOWN, 1),
        (raises, UNKNOWN, 1),
        (exits, UNKNOWN, 1),
        (cancels, UNKNOWN, 1),
        (None, UNKNOWN, 1),
    ],
    ids=["done", "done with data", "not done", "cannot tell", "raises", "exits", "cancels", "no probe"],
)
async def test_a_once_call_that_was_interrupted(
    answer: Any, wanted: str, times: int, function: Any, authorizes: bool
) -> None:
    asked: list[str] = []

    async def probe(key: str) -> Any:
        asked.append(key)
        return await answer()

    class Authorizes(AgentConfig[None]):
        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow:
            return Allow()

    hangs.add("work")
    config = Authorizes() if authorizes else agent()
    config.tools = (tool(effect="once", name="work", probe=probe if answer else None)(function),)
    events, results, run_id = await two_lives(config, call("work", n=1), "end")
    assert results == [wanted]
    assert keys == [f"{run_id}:1.0"] * times
    assert asked == ([f"{run_id}:1.0"] if answer else [])
    assert len(notices(events)) == (wanted == UNKNOWN)
    assert len([e for e in events if isinstance(e, ToolFailed)]) == (wanted == UNKNOWN)
    if answer is raises:
        assert "its probe failed: ConnectionError" in notices(events)[0]


async def test_a_probe_that_hangs_leaves_the_outcome_unknown() -> None:
    hangs.add("work")

    async def probe(key: str) -> Done:
        await asyncio.Event().wait()
        return Done()

    config = agent(tool(effect="once", name="work", probe=probe, timeout=0.05)(body))
    events, results, _ = await two_lives(config, call("work", n=1), "end")
    assert results == [UNKNOWN]
    assert "its probe failed: no result within the time limit" in notices(events)[0]


@pytest.mark.parametrize("parallel", [True, False])
async def test_siblings_that_had_ended_are_not_run_again(parallel: bool) -> None:
    hangs.add("slow")
    done, slow = tool(name="done")(body), tool(name="slow")(body)
    reads = tool(effect="read", name="reads")(body)
    turn = [call("done", n=1), call("reads", n=2), call("slow", n=3), call("done", n=4)]
    config = agent(done, slow, reads, use_parallel_tools=parallel)
    _, results, run_id = await two_lives(config, turn, "end", park_at=4 if parallel else 3)
    assert results == ["done 1", "reads 2", UNKNOWN, "done 4"]
    times = {place: keys.count(f"{run_id}:1.{place}") for place in range(4)}
    assert times == {0: 1, 1: 2, 2: 1, 3: 1}


async def test_a_once_call_that_never_began_is_run() -> None:
    """Its turn had not come when the run was parked."""
    hangs.add("slow")
    turn = [call("slow", n=1), call("work", n=2)]
    config = agent(tool(effect="read", name="slow")(body), tool(name="work")(body), use_parallel_tools=False)
    _, results, run_id = await two_lives(config, turn, "end")
    assert results == ["slow 1", "work 2"]
    assert keys == [f"{run_id}:1.0", f"{run_id}:1.0", f"{run_id}:1.1"]


async def test_an_interrupted_stream_of_a_once_tool() -> None:
    async def pieces(n: int, context: ToolContext) -> AsyncIterator[str]:
        """Stream."""
        yield await body(n, context)
        await asyncio.Event().wait()

    _, results, _ = await two_lives(agent(tool(name="work")(pieces)), call("work", n=1), "end")
    assert results == [UNKNOWN]


class Repeats(ScriptedModel):
    """A provider that uses one id for all calls of the same place."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self._calls = 0
        async for event in super().stream(request):
            if isinstance(event, Reply):
                assert all(c.id.startswith("call_") for c in event.message.tool_calls)
            yield event


async def test_keys_are_unique_where_ids_of_calls_are_not() -> None:
    model = Repeats([call("work", n=1), call("work", n=2)], [call("work", n=3), call("work", n=4)], "end")
    config = agent(tool(name="work")(body))
    process = Runtime([config], Resources(store=MemoryStore(), models=lambda name: model))
    results = []
    for _ in range(2):
        model._scripts[""] = [[call("work", n=1), call("work", n=2)]] * 2 + ["end"]
        results.append(await (await process.start(Chat(model=model, message="go"), config)).result())
    assert len(set(keys)) == len(keys) == 8
    assert keys[:4] == [f"{results[0].run_id}:{step}.{place}" for step in (1, 2) for place in (0, 1)]


async def test_a_context_that_a_tool_hands_on_has_the_key_in_each_life() -> None:
    """The receiver of an idempotent call knows it by its key."""
    receiver: dict[str, int] = {}

    @tool(effect="idempotent")
    async def put(n: int, context: ToolContext) -> str:
        """Put."""
        receiver.setdefault(context.key, n)
        return await body(n, context)

    hangs.add("put")
    _, results, _ = await two_lives(agent(put), [call("put", n=1), call("put", n=1)], "end", park_at=2)
    assert results == ["put 1", "put 1"]
    assert len(receiver) == 2
    assert len(keys) == 4


def test_an_effect_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match="'read', 'idempotent' or 'once'"):
        tool(effect="twice", name="work")(body)  # type: ignore[call-overload]
