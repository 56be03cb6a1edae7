"""Cards for sub-agents on other targets: they travel with the call, as far as they may be stored."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    DataPolicy,
    MemoryStore,
    ModelRequest,
    Resources,
    Runtime,
    SqliteStore,
    ToolData,
    ToolResult,
    delegate,
    tool,
)
from concertino.agents import EMAIL
from concertino.messages import Media, ToolMessage, UserMessage
from concertino.runtime import Fleet
from concertino.runtime.bus.base import RemoteBell
from concertino.storage import Store
from concertino.testing import ScriptedModel, call

from .test_called_agents import ASKED, CARLA, TARGETS, called_runs, ended
from .test_fleet import Bell, joined

CHART = Media("image/png", "NDcx" * 40, name="chart.png")


@tool(effect="read")
async def search(query: str) -> ToolResult:
    """Search."""
    return ToolResult(f"all about {query}", media=(CHART,), stored=query != "a secret")


class Clerk(AgentConfig[None]):
    name = "clerk"


class Desk(AgentConfig[None]):
    name = "desk"
    tools = (search, delegate(Clerk(), description="Ask the clerk.", target="batch", cards=True))

    def __init__(self, policy: DataPolicy | None = None) -> None:
        self.policy = policy or DataPolicy()

    def get_data_policy(self) -> DataPolicy:
        return self.policy


def hands(request: ModelRequest) -> Any:
    """Hand all cards to the clerk."""
    read = [message.content for message in request.messages if isinstance(message, ToolMessage)]
    return call("clerk", query="add it up", cards=re.findall(r"\[card (\w+)\]$", "\n".join(read), re.MULTILINE))


async def play(store: Store, desk: ScriptedModel, clerk: ScriptedModel, agent: Desk, bells: Any = None) -> Any:
    """Run the desk, and the clerk in a process of the other target. Return the result, and the clerk's runs."""
    one, two = bells or [Bell()] * 2
    desks = Runtime([agent], Resources(store=store, models=lambda _: desk, model=desk), sweep=3600.0)
    batch = Runtime([Clerk()], Resources(store=store, models=lambda _: clerk, model=clerk), sweep=3600.0)
    joined(desks, Fleet(bell=one, targets=TARGETS, takes=["desks"]))
    joined(batch, Fleet(bell=two, targets=TARGETS, takes=["batch"]))
    async with desks, batch:
        await desks.look()
        await batch.look()
        result = await ended(desks, await desks.start(ASKED, "desk"))
        return result, await called_runs(batch)


def read_by(clerk: ScriptedModel) -> list[ToolMessage]:
    """Return the results that the clerk has read."""
    return [message for message in clerk.requests[0].messages if isinstance(message, ToolMessage)]


@pytest.mark.postgres
async def test_cards_reach_another_machine(url: str, schema: str, make_bell: Callable[[], RemoteBell]) -> None:
    from concertino.storage.postgres import PostgresStore

    desk = ScriptedModel([call("search", query="tea"), call("search", query="milk")], hands, "It is three.")
    clerk = ScriptedModel("three")
    async with await PostgresStore.open(url, schema=schema) as store, make_bell() as one, make_bell() as two:
        result, (called,) = await play(store, desk, clerk, Desk(), (one, two))
        assert (result.text, called.start.task) == ("It is three.", "add it up")
        assert await store.load(CARLA, called.start.run_id) is not None
    assert [(m.content, m.media) for m in read_by(clerk)] == [("all about tea", (CHART,)), ("all about milk", (CHART,))]
    assert clerk.requests[0].messages[-1] == UserMessage("add it up")
    answer = desk.requests[-1].messages[-1]
    assert isinstance(answer, ToolMessage)
    assert re.fullmatch(r"three\n\[card \w{7}\]", answer.content), "its answer is a card too"


@pytest.mark.parametrize("how", ["not stored", "redacted"])
async def test_a_card_that_must_not_be_stored_does_not_leave_the_process(how: str, tmp_path: Any) -> None:
    policy = DataPolicy(tools={"search": ToolData(results="redact")}) if how == "redacted" else DataPolicy()
    desk = ScriptedModel(call("search", query="a secret"), hands, "It did not work.")
    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        result, called = await play(store, desk, ScriptedModel(), Desk(policy))
    assert (result.text, called) == ("It did not work.", [])
    refused = desk.requests[-1].messages[-1]
    assert isinstance(refused, ToolMessage)
    assert refused.is_error
    assert re.fullmatch(
        r"the agent was not called: the cards \w{7} must not be stored, so they cannot reach the agent, which runs "
        r"elsewhere; leave them out, and write what it must know into the query",
        refused.content,
    )


async def test_unknown_cards_are_an_error_before_the_call() -> None:
    desk = ScriptedModel(call("clerk", query="add it up", cards=["nothing"]), "It did not work.")
    result, called = await play(MemoryStore(), desk, ScriptedModel(), Desk())
    assert (result.text, called) == ("It did not work.", [])
    refused = desk.requests[-1].messages[-1]
    assert isinstance(refused, ToolMessage)
    assert refused.content.startswith("the agent was not called: there are no cards nothing;")


async def test_patterns_apply_to_cards() -> None:
    desk = ScriptedModel(call("search", query="ann@example.org"), hands, "Done.")
    clerk = ScriptedModel("three")
    await play(MemoryStore(), desk, clerk, Desk(DataPolicy(patterns=[EMAIL])))
    assert [message.content for message in read_by(clerk)] == ["all about [email]"]


async def test_erasing_the_user_erases_cards_on_their_way(tmp_path: Any) -> None:
    """Those of the call, and those of the run that has taken it."""
    desk = ScriptedModel(call("search", query="swordfish"), hands, "Done.")
    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        await play(store, desk, ScriptedModel("three"), Desk())
        await store.erase(CARLA)
    assert b"swordfish" not in b"".join([file.read_bytes() for file in tmp_path.iterdir()])
