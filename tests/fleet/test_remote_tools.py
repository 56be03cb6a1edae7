"""Tools with a target: each call is a run of its own, in a process of that target."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Budget,
    Chat,
    DataPolicy,
    MemoryStore,
    Resources,
    RunContext,
    Runtime,
    Scope,
    ToolCall,
    ToolContext,
    ToolData,
    ToolResult,
    tool,
)
from concertino.errors import ConfigurationError, StorageError, ToolError
from concertino.events import RunEnded, ToolDone
from concertino.messages import Media, ToolMessage
from concertino.runtime import Fleet, LiveRun, assigned_calls
from concertino.runtime.bus.base import RemoteBell
from concertino.testing import Answer, FaultyStore, Points, ScriptedModel, call
from concertino.tools import FunctionTool, Pending, Tool, preset
from concertino.waits import Resolution

from .test_called_agents import CARLA, ended
from .test_fleet import Bell, joined

TARGETS = {"desks": ["desk"], "gpu": []}
ASKED = Chat("a picture, please", scope=CARLA, model="desk")
WRONG: Any = {"target": 7}
CHART = Media("image/png", "NDcx" * 40, name="chart.png")


class Desk(AgentConfig[None]):
    name = "desk"

    def __init__(self, *tools: Tool, policy: DataPolicy | None = None) -> None:
        self.tools = tools
        self._policy = policy or DataPolicy()

    def get_data_policy(self) -> DataPolicy:
        return self._policy


class Careful(Desk):
    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask()


def gpu_tool(work: Callable[..., Any], **settings: Any) -> FunctionTool:
    """Return a tool that the processes of the target `gpu` run."""
    return tool(name="render", description="Render.", target="gpu", **settings)(work)


async def render(size: int) -> str:
    return f"a picture of {size}"


@asynccontextmanager
async def fleet(
    model: ScriptedModel,
    agent: Desk,
    *tools: Tool,
    store: MemoryStore | None = None,
    broken: bool = False,
    **more: Any,
) -> AsyncIterator[tuple[Runtime, Runtime]]:
    """Open a process for the agent, and one for the tools, which has no agent and, by default, no model."""
    store, bell = store or MemoryStore(), Bell(broken=broken)
    sweep = 0.01 if broken else 3600.0
    desks = Runtime([agent], Resources(store=store, models=lambda _: model, model=model), sweep=sweep)
    gpus = Runtime(tools, Resources(store=store, **more), sweep=sweep)
    joined(desks, Fleet(bell=bell, targets=TARGETS, takes=["desks"]))
    joined(gpus, Fleet(bell=bell, targets=TARGETS, takes=["gpu"]))
    async with desks, gpus:
        await desks.look()
        await gpus.look()
        await asyncio.sleep(0)
        yield desks, gpus


def read(model: ScriptedModel) -> ToolMessage:
    """Return the last result that the model has read."""
    found = model.requests[-1].messages[-1]
    assert isinstance(found, ToolMessage)
    return found


async def outcome(agent_tool: Tool, *tools: Tool, arguments: dict[str, Any] | None = None, **more: Any) -> ToolMessage:
    """Return what the model reads after one call of *agent_tool*, which the processes of its target have as *tools*."""
    model = ScriptedModel(call("render", **({"size": 3} if arguments is None else arguments)), "Done.")
    async with fleet(model, Desk(agent_tool), *tools, **more) as (desks, _):
        assert (await ended(desks, await desks.start(ASKED, "desk"))).text == "Done."
    return read(model)


@pytest.mark.parametrize("broken", [False, True], ids=["bell", "sweep"])
async def test_a_call_runs_in_a_process_of_its_target(broken: bool) -> None:
    seen: list[ToolContext] = []

    async def drawn(size: int, context: ToolContext) -> ToolResult:
        seen.append(context)
        return ToolResult(f"a picture of {size}", data={"size": size}, summary="a picture", media=(CHART,))

    made, model = gpu_tool(drawn), ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Desk(made), made, broken=broken, deps="the card") as (desks, gpus):
        run = await desks.start(ASKED, "desk")
        events = [event async for _, event in desks.events(CARLA, run.id)]
        result = await desks.result(CARLA, run.id)
        (called,) = [each for each in await gpus.store.runs(CARLA) if each.start.run_id != run.id]
        assert not await gpus.store.operations(OPERATOR)
    assert (result.text, result.data, result.tool_calls) == ("Done.", {"render": {"size": 3}}, {"desk": 1})
    (context,) = seen
    assert (context.scope, context.deps, context.agent_path) == (CARLA, "the card", "desk/render-1")
    assert (called.start.agent, called.start.parent_id) == ("tool:gpu:render", run.id)
    (done,) = [event for event in events if isinstance(event, ToolDone)]
    assert (done.content, done.data, done.media[0].digest) == ("a picture of 3", {"size": 3}, CHART.digest)
    found = read(model)
    assert (found.content, found.media) == ("a picture of 3", (CHART,))


@pytest.mark.postgres
async def test_processes_on_servers_share_the_calls(url: str, schema: str, make_bell: Callable[[], RemoteBell]) -> None:
    """On PostgreSQL, over either bell: each call has one process, and no effect happens twice."""
    from concertino.storage.postgres import PostgresStore

    effects: list[int] = []

    async def pay(size: int) -> str:
        effects.append(size)
        await asyncio.sleep(0)
        return f"paid {size}"

    made = gpu_tool(pay, effect="once")
    calls = [call("render", size=size) for size in range(12)]
    model = ScriptedModel(calls, "All is paid.")
    async with (
        await PostgresStore.open(url, schema=schema) as store,
        make_bell() as one,
        make_bell() as two,
        make_bell() as three,
    ):
        desks = Runtime([Desk(made)], Resources(store=store, models=lambda _: model, model=model), sweep=3600.0)
        gpus = [Runtime([made], Resources(store=store), sweep=3600.0) for _ in range(2)]
        joined(desks, Fleet(bell=one, targets=TARGETS, takes=["desks"]))
        for runtime, bell in zip(gpus, (two, three), strict=True):
            joined(runtime, Fleet(bell=bell, targets=TARGETS, takes=["gpu"], coroutines=3))
        async with desks, gpus[0], gpus[1]:
            result = await ended(desks, await desks.start(ASKED, "desk"))
    assert (result.text, result.tool_calls) == ("All is paid.", {"desk": 12})
    assert sorted(effects) == list(range(12))
    results = [each for each in model.requests[-1].messages if isinstance(each, ToolMessage)]
    assert [each.content for each in results] == [f"paid {size}" for size in range(12)]


async def booked(size: int) -> ToolResult:
    if size < 0:
        raise ToolError("fully booked")
    return ToolResult(f"booked {size}", ends_run=True)


async def test_a_result_ends_the_run_of_the_caller() -> None:
    made, model = gpu_tool(booked), ScriptedModel(call("render", size=-1), call("render", size=3))
    async with fleet(model, Desk(made), made) as (desks, _):
        result = await ended(desks, await desks.start(ASKED, "desk"))
    assert (result.status, result.text, len(model.requests)) == ("completed", "booked 3", 2)


async def test_a_result_ends_the_run_although_its_process_fails() -> None:
    """The process of the target loses its store between the result and the end; the next one does not repeat it."""
    executed: list[int] = []

    async def once(size: int) -> ToolResult:
        executed.append(size)
        return ToolResult(f"booked {len(executed)}", ends_run=True)

    stopped = asyncio.Event()

    async def stop(name: str, _number: int) -> None:
        if name == "append:ended:before":
            stopped.set()
            raise StorageError("the server is gone")

    made, model, store = gpu_tool(once, effect="idempotent"), ScriptedModel(call("render", size=3)), MemoryStore()
    faulty: Any = FaultyStore(store, Points(stop))
    stopping, later = (Runtime([made], Resources(store=each), sweep=0.01) for each in (faulty, store))
    joined(stopping, Fleet(bell=Bell(), targets=TARGETS, takes=["gpu"]))
    joined(later, Fleet(bell=Bell(), targets=TARGETS, takes=["gpu"]))
    async with fleet(model, Desk(made), store=store, broken=True) as (desks, _):
        async with stopping:
            run = await desks.start(ASKED, "desk")
            await stopped.wait()
        async with later:
            result = await ended(desks, run)
    assert (result.status, result.text, executed) == ("completed", "booked 1", [3])


async def test_whatever_else_answers_the_call_does_not_end_the_run() -> None:
    """The product's own answer is text, also if it looks like that of a process of the target."""
    made, model = gpu_tool(booked), ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Desk(made), broken=True) as (desks, _):
        run = await desks.start(ASKED, "desk")
        while not (waits := await desks.store.waits(CARLA, run_id=run.id)):  # noqa: ASYNC110 - the run begins
            await asyncio.sleep(0)
        await desks.resolve(CARLA, waits[0].key, json.dumps({"content": "over", "ends_run": True}))
        result = await ended(desks, run)
    assert result.text == "Done."


async def test_an_error_is_the_one_that_a_local_call_has() -> None:
    async def refuse(size: int) -> str:
        raise ToolError("the card is too small")

    found = await outcome(gpu_tool(refuse), gpu_tool(refuse))
    assert (found.content, found.is_error) == ("the card is too small", True)


@pytest.mark.parametrize("served", [(), (tool(name="other", target="gpu")(render),)], ids=["none", "another"])
async def test_a_process_without_the_tool_says_so(served: Sequence[Tool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigned_calls, "PATIENCE", 0.0)
    found = await outcome(gpu_tool(render), *served)
    assert found.content.startswith("no tool 'render' for target 'gpu' in the process that took the call")
    assert found.is_error


async def test_arguments_are_checked_before_the_call_and_by_the_process_that_runs_it() -> None:
    store = MemoryStore()
    found = await outcome(gpu_tool(render), gpu_tool(render), arguments={"size": "much"}, store=store)
    assert found.is_error
    assert "size" in found.content
    assert [each.start.agent for each in await store.runs(CARLA)] == ["desk"], "nothing was handed over"

    async def newer(width: int) -> str:
        raise AssertionError

    found = await outcome(gpu_tool(render), gpu_tool(newer))
    assert found.is_error
    assert "width" in found.content


@pytest.mark.parametrize("here", [True, False], ids=["both have the preset", "only the caller has it"])
async def test_a_preset_of_the_caller_applies(here: bool) -> None:
    def paint(size: int, place: str, shade: str) -> str:
        return f"{size} in {place}, {shade}"

    plain = gpu_tool(paint, effect="read")
    made = preset(preset(plain, fixed={"place": "Rome"}), defaults={"shade": "red"})
    written = {"size": 3, "place": "Oslo"}
    assert (await outcome(made, made if here else plain, arguments=written)).content == "3 in Rome, red"


async def test_an_environment_variable_is_that_of_the_process_that_runs_the_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def paint(size: int, key: str) -> str:
        return f"{size} with {key}"

    made = preset(gpu_tool(paint, effect="read"), environment={"key": "GPU_KEY"})
    monkeypatch.setenv("GPU_KEY", "canary")
    assert (await outcome(made, made, arguments={"size": 3, "key": "of the model"})).content == "3 with canary"
    model = ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Desk(made), made) as (desks, gpus):
        await gpus.close()
        await (await desks.start(ASKED, "desk")).result()
        (handed_over,) = await desks.store.claim_calls(OPERATOR, 60.0)
        assert json.loads(handed_over.task["message"]) == {"size": 3}
    monkeypatch.delenv("GPU_KEY")
    refused = await outcome(made, made)
    assert refused.is_error
    assert "GPU_KEY is not set in its process" in refused.content


async def test_the_callers_limits_apply_to_the_result() -> None:
    async def much(size: int) -> ToolResult:
        return ToolResult("x" * 5_000 + "\udfff", data=["y" * 5_000], media=(Media("image/png", "no base64!"),))

    found = await outcome(gpu_tool(much, max_bytes=1_000), gpu_tool(much))
    assert len(found.content) < 1_300
    assert "the middle of" in found.content
    assert not found.media


@pytest.mark.parametrize("form", ["no JSON", "[]", '"text"', "{}", '{"content": "x", "media": [{"x": 1}]}', "7"])
async def test_a_damaged_result_is_an_error(form: str) -> None:
    made, model = gpu_tool(render), ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Desk(made), made) as (desks, gpus):
        await gpus.close()
        run = await desks.start(ASKED, "desk")
        (wait,) = (await run.result()).waiting
        damaged = Resolution(verdict="result", content=form, by="tool:gpu:render", id="x")
        await desks.store.resolve(CARLA, wait.key, damaged)
        await desks.look()
        await ended(desks, run)
    found = read(model)
    assert (found.content, found.is_error) == ("the result was damaged on its way between the processes", True)


async def test_the_product_may_answer_a_call_itself() -> None:
    made, model = gpu_tool(render), ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Desk(made), made) as (desks, gpus):
        await gpus.close()
        run = await desks.start(ASKED, "desk")
        (wait,) = (await run.result()).waiting
        await desks.resolve(CARLA, wait.key, '{"content": "as it is"}')
        await ended(desks, run)
    assert read(model).content == '{"content": "as it is"}'


async def test_a_call_that_no_process_takes_in_time_is_an_error() -> None:
    made, model = gpu_tool(render, timeout=0.001), ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Desk(made), made, broken=True) as (desks, gpus):
        await gpus.close()
        await ended(desks, await desks.start(ASKED, "desk"))
        assert [each.start.agent for each in await desks.store.runs(CARLA)] == ["desk"]
    assert read(model).content == "no result arrived in time"


async def test_stopping_the_caller_stops_the_tool() -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def long(size: int) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    made = gpu_tool(long)
    async with fleet(ScriptedModel(call("render", size=3)), Desk(made), made) as (desks, gpus):
        run = await desks.start(ASKED, "desk")
        await begun.wait()
        await desks.stop(CARLA, run.id)
        await gpus.look()
        await stopped.wait()
        assert (await desks.result(CARLA, run.id)).status == "cancelled"


async def test_a_person_approves_before_the_call_is_handed_over() -> None:
    made, model = gpu_tool(render, effect="once"), ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Careful(made), made) as (desks, gpus):
        run = await desks.start(ASKED, "desk")
        (wait,) = (await run.result()).waiting
        assert (wait.kind, wait.arguments) == ("approval", '{"size": 3}')
        await gpus.look()
        assert len(await gpus.store.runs(CARLA)) == 1
        assert not await gpus.approvals(Scope(tenant="acme", user="mallory"))
        await desks.approve(CARLA, wait.key, arguments={"size": 4})
        await ended(desks, run)
    assert read(model).content == "a picture of 4"


async def test_a_tool_may_itself_wait_for_a_result_from_outside() -> None:
    keys: list[str] = []
    waits = asyncio.Event()

    async def order(size: int, context: ToolContext) -> Pending:
        keys.append(context.key)
        waits.set()
        return Pending(note="the printer")

    made, model = gpu_tool(order, remote=True), ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Desk(made), made) as (desks, gpus):
        run = await desks.start(ASKED, "desk")
        await waits.wait()
        while not await gpus.store.waits(OPERATOR, run_id=keys[0].rpartition(":")[0], open=True):  # noqa: ASYNC110 - another runtime opens it
            await asyncio.sleep(0.001)
        await gpus.resolve(CARLA, keys[0], "printed")
        await ended(desks, run)
    assert read(model).content == "printed"


async def test_a_tool_asks_the_callers_model_and_the_caller_pays() -> None:
    async def ask(size: int, context: ToolContext) -> str:
        return f"{size}: {await context.ask('what colour?')}"

    made = gpu_tool(ask)
    model, other = ScriptedModel(call("render", size=3), "Done."), ScriptedModel("blue")
    async with fleet(model, Desk(made), made, models=lambda _: other) as (desks, _):
        run = await desks.start(Chat("go", scope=CARLA, model="desk", budget=Budget(tokens=50_000)), "desk")
        result = await ended(desks, run)
        (account,) = await desks.store.accounts(CARLA, run_id=run.id)
    assert read(model).content == "3: blue"
    assert [record.agent_path for record in result.usage] == ["desk", "desk/render-1", "desk"]
    assert account.spent_tokens == sum(record.tokens.total for record in result.usage)
    found = await outcome(made, made)
    assert "this process cannot ask the model of the run that called the tool" in found.content


POLICIES = [
    DataPolicy(tools={"render": ToolData(arguments="redact", results="redact")}),
    DataPolicy(tools=lambda _: ToolData(arguments="drop", results="drop")),
]


@pytest.mark.parametrize("policy", POLICIES, ids=["redact", "drop"])
async def test_the_callers_data_policy_applies(policy: DataPolicy) -> None:
    @tool(name="render", target="gpu")
    async def whisper(word: str) -> ToolResult:
        """Whisper."""
        return ToolResult(f"{word} opens the door", data={"word": word}, media=(CHART,))

    model, store = ScriptedModel(call("render", word="swordfish"), "Done."), MemoryStore()
    async with fleet(model, Desk(whisper, policy=policy), whisper, store=store) as (desks, _):
        await ended(desks, await desks.start(ASKED, "desk"))
        assert read(model).content == "swordfish opens the door"
        rows = await store._connection.run(lambda connection: list(connection.iterdump()))
    assert not [row for row in rows if re.search("swordfish|NDcx", row)]


async def test_a_result_that_must_not_be_kept_is_not_handed_back() -> None:
    async def whisper(size: int) -> ToolResult:
        return ToolResult("swordfish", stored=False)

    found = await outcome(gpu_tool(whisper), gpu_tool(whisper))
    assert found.content == "the result must not be kept, so it cannot reach the process that called the tool"


async def test_one_process_alone_runs_the_calls_itself() -> None:
    made, model = gpu_tool(render), ScriptedModel(call("render", size=3), "Done.")
    resources = Resources(store=MemoryStore(), models=lambda _: model, model=model)
    async with Runtime([Desk(made), made], resources, sweep=3600.0) as runtime:
        turn = await (await runtime.conversation(CARLA, agent="desk")).send("a picture")
        ends = [event async for _, event in turn.events(until="suspended") if isinstance(event, RunEnded)]
    assert [end.result.text for end in ends] == ["Done."]


async def test_a_call_outside_a_turn_is_refused() -> None:
    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        return str((await context.call("render", {"size": 3})).content)

    model = ScriptedModel(call("look"), "Done.")
    async with fleet(model, Desk(gpu_tool(render), look)) as (desks, _):
        await ended(desks, await desks.start(ASKED, "desk"))
    assert "only a call that the model makes in a turn can wait" in read(model).content


async def test_a_reading_tool_does_not_start_before_the_answer_is_recorded() -> None:
    class Early(Desk):
        start_tools_early = True

    async def midway() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    made, store = gpu_tool(render, effect="read"), MemoryStore()
    model = ScriptedModel(Answer(calls=(call("render", size=3),), midway=midway), "Done.")
    async with fleet(model, Early(made), made, store=store) as (desks, _):
        run = await desks.start(ASKED, "desk")
        await ended(desks, run)
        journal = await store.load(CARLA, run.id)
    assert journal is not None
    kinds = [entry.kind for entry in journal.entries]
    assert kinds.index("model_answered") < kinds.index("calls_changed")


async def test_a_call_that_died_with_its_process_is_reported_as_unknown() -> None:
    """A `once` tool without a probe: the next process of the target does not run it again."""
    begun, runs = asyncio.Event(), []

    async def pay(size: int) -> str:
        runs.append(size)
        begun.set()
        await asyncio.Event().wait()
        return ""

    made, store = gpu_tool(pay, effect="once"), MemoryStore()
    model = ScriptedModel(call("render", size=3), "Done.")
    async with fleet(model, Desk(made), made, store=store) as (desks, gpus):
        run = await desks.start(ASKED, "desk")
        await begun.wait()
        (called,) = [each.start.run_id for each in await store.runs(CARLA) if each.start.parent_id]
        await gpus.close()
        events = [event async for event in _resumed(desks, run, called, made)]
    found = read(model)
    assert found.content.startswith("OUTCOME_UNKNOWN")
    assert found.is_error
    assert "outcome_unknown" in json.dumps([repr(event) for event in events])
    assert runs == [3]


async def _resumed(desks: Runtime, run: LiveRun, called: str, made: Tool) -> AsyncIterator[Any]:
    """Continue the run of a call in another process of its target, and yield the events of the caller."""
    other = Runtime([made], Resources(store=desks.store), sweep=0.01)
    joined(other, Fleet(bell=Bell(), targets=TARGETS, takes=["gpu"]))
    async with other:
        async for _ in other.events(CARLA, called):
            pass
        await desks.look()
        async for _, event in desks.events(CARLA, run.id):
            yield event


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tool(target="a b")(render), "invalid target 'a b'"),
        (lambda: tool(**WRONG)(render), "invalid target 7"),
        (lambda: Runtime([tool(render)]), "has no target"),
        (lambda: Runtime([named("tool:gpu:render")]), "is reserved"),
        (lambda: Runtime([named("conversation_title")]), "is reserved"),
    ],
)
def test_invalid_settings(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


def named(name: str) -> Desk:
    agent = Desk()
    agent.name = name
    return agent


def test_a_tool_with_a_target_is_not_in_the_background() -> None:
    made = gpu_tool(render, effect="idempotent")
    made.background = True
    with pytest.raises(ConfigurationError, match="no target"):
        Runtime([made])
