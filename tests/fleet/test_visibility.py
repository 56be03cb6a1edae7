"""Who sees what: a run sees what it was given, in a fixed order, and what is on record is never changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Chat, ModelRequest, Resources, Runtime, Scope, SqliteStore, delegate, tool
from concertino.agents import Approvals
from concertino.errors import UnknownConversationError, UnknownRunError
from concertino.messages import AssistantMessage, Text, ToolMessage, UserMessage
from concertino.storage import PostgresStore
from concertino.testing import ScriptedModel, call
from concertino.tools import ToolContext

CARLA, MALLORY = Scope("acme", "carla"), Scope("acme", "mallory")
SECRETS = ("the history", "the memory", "the lead's prompt", "the question", "first task", "second task", "found one")


@tool(effect="once")
async def publish(text: str) -> str:
    """Publish a text."""
    return f"published {text}"


@tool(effect="read")
async def spy(context: ToolContext) -> str:
    """Show everything that a tool of a sub-agent can reach."""
    return repr([getattr(context, name) for name in dir(context) if name[0] != "_" and name != "progress"])


class Researcher(AgentConfig[None]):
    name = "researcher"
    prompt = "You look things up."
    tools = (spy,)


class Local(Researcher):
    name = "local"


class Lead(AgentConfig[None]):
    name = "lead"
    prompt = "This is the lead's prompt."
    tools = (
        delegate(Researcher(), description="Looks up.", target="batch"),
        delegate(Local(), description="Looks up here."),
        publish,
    )
    parts = (Approvals("publish"),)


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """A store of each kind."""
    if request.param == "postgres":
        opened: Any = await PostgresStore.open(request.getfixturevalue("url"), schema=request.getfixturevalue("schema"))
    else:
        opened = await SqliteStore.open(tmp_path / "runs.db")
    async with opened:
        yield opened


def asked(by: str, model: ScriptedModel) -> list[ModelRequest]:
    """Return the requests whose system prompt contains *by*."""
    return [each for each in model.requests if by in each.system]


def seen(request: ModelRequest) -> str:
    """Return everything that a request contains."""
    return repr((request.system, list(request.messages)))


def answer(request: ModelRequest) -> Any:
    """Let researchers spy first, and the lead ask two of them, then publish."""
    results = [each for each in request.messages if isinstance(each, ToolMessage)]
    if "look things up" in request.system:
        return "found one" if results else call("spy")
    if not results:
        return [call("researcher", query="first task"), call("local", query="second task")]
    return call("publish", text="it") if len(results) == 2 else "It is published."


async def start(runtime: Runtime) -> Any:
    chat = Chat(
        "This is the question.",
        scope=CARLA,
        model="scripted:script",
        history=[UserMessage("This is the history."), AssistantMessage((Text("So it is."),))],
        memories=["This is the memory."],
    )
    run = await runtime.start(chat, "lead")
    async for _ in runtime.events(CARLA, run.id, until="suspended"):
        pass
    return run


async def test_a_sub_agent_sees_its_task_alone(store: Any) -> None:
    model = ScriptedModel(*[answer] * 20)
    async with Runtime(
        [Lead(), Researcher()], Resources(store=store, model=model, models=lambda _: model), sweep=0.05
    ) as runtime:
        await start(runtime)
    found = asked("look things up", model)
    assert len(found) == 4
    for own in ("first task", "second task"):
        of_task = [each for each in found if own in seen(each)]
        assert len(of_task) == 2
        for request in of_task:
            assert [each for each in SECRETS if each in seen(request)] == [own]


async def test_a_run_is_given_its_parts_in_order_in_each_process(store: Any) -> None:
    model = ScriptedModel(*[answer] * 20)
    resources = Resources(store=store, model=model, models=lambda _: model)
    async with Runtime([Lead(), Researcher()], resources, sweep=0.05) as runtime:
        run = await start(runtime)
        (wait,) = await runtime.approvals(CARLA)
    before = await store.load(OPERATOR, run.id)
    async with Runtime([Lead(), Researcher()], resources, sweep=0.05) as other:
        await other.approve(CARLA, wait.key)
        async for _ in other.events(CARLA, run.id):
            pass
    requests = [seen(each) for each in asked("lead's prompt", model)]
    assert len(requests) == 3
    for request in requests:
        places = [request.index(part) for part in ("the lead's prompt", "the memory", "the history", "the question")]
        assert places == sorted(places)
    first = list(model.requests[0].messages)
    assert [list(each.messages)[: len(first)] for each in asked("lead's prompt", model)] == [first] * 3
    after = await store.load(OPERATOR, run.id)
    assert len(after.entries) > len(before.entries)
    assert list(after.entries[: len(before.entries)]) == list(before.entries), "only appended to"


async def test_a_stranger_sees_nothing(store: Any) -> None:
    model = ScriptedModel(*[answer] * 20)
    async with Runtime(
        [Lead(), Researcher()], Resources(store=store, model=model, models=lambda _: model), sweep=0.05
    ) as runtime:
        run = await start(runtime)
        runs = [each.start.run_id for each in await store.runs(OPERATOR)]
        assert len(runs) == 3
        for run_id in runs:
            for stranger in (MALLORY, Scope("other", "carla")):
                assert await store.load(stranger, run_id) is None
                assert await store.run(stranger, run_id) is None
                assert await store.messages(stranger, run_id) == ()
                assert await store.usage(stranger, run_id) == ()
                with pytest.raises((UnknownRunError, UnknownConversationError)):
                    await runtime.stop(stranger, run_id)
        assert await runtime.approvals(MALLORY) == ()
        assert await store.run(CARLA, run.id) is not None
