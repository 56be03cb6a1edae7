"""The allow-list of tools: of a run's resources, of a fleet, and for sub-agents in the same process."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig, Chat, MemoryStore, Resources, Runtime, ToolOrchestrator, delegate, tool
from concertino.agents import ToolSearch
from concertino.errors import ConfigurationError
from concertino.messages import ToolMessage
from concertino.runtime import Fleet, LocalBell
from concertino.testing import ScriptedModel, call


@tool(effect="read")
async def search(query: str) -> str:
    """Search."""
    return f"found {query}"


@tool(effect="read")
async def pay(amount: int) -> str:
    """Pay."""
    raise AssertionError(amount)


class Clerk(AgentConfig):
    """A sub-agent."""

    name = "clerk"
    tools = (search, pay)


class Desk(AgentConfig):
    """An agent with tools of its own."""

    name = "desk"
    tools = (search, pay, delegate(Clerk(), description="Looks things up."))


def sent(model: ScriptedModel) -> list[list[str]]:
    """Return the names of the tools that each request had."""
    return [[each.name for each in request.tools] for request in model.requests]


async def test_a_run_gets_the_allowed_tools_alone() -> None:
    with ScriptedModel(call("pay", amount=3), "No.") as model:
        resources = Resources(allowed_tools={"desk": ["search"]})
        result = await ToolOrchestrator(Chat("Pay.", model=model), Desk(), resources=resources).run()
    assert sent(model) == [["search"], ["search"]]
    (read,) = [each for each in model.requests[-1].messages if isinstance(each, ToolMessage)]
    assert read.is_error
    assert result.text == "No."


async def test_the_list_of_a_fleet_applies_to_sub_agents_too(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet(
        bell=LocalBell(),
        targets={"desks": ["desk"]},
        takes=["desks"],
        allowed_tools={"clerk": {"search", "draw"}, "desk": ["clerk"]},
    )
    model = ScriptedModel(call("clerk", query="Tea?"), "Tea.", "It is tea.")
    runtime = Runtime([Desk(), Clerk()], Resources(store=MemoryStore(), model=model, models=lambda _: model))
    runtime.join(fleet)
    async with runtime:
        run = await runtime.start(Chat("What?", model="scripted:script"), "desk")
        assert (await run.result()).text == "It is tea."
    assert sent(model) == [["clerk"], ["search"], ["clerk"]]
    assert caplog.text.count("agent 'clerk' has no tool 'draw', which allowed_tools names") == 1


class Loading(AgentConfig):
    """An agent that loads tools for each run."""

    name = "desk"
    tools = (search,)

    def load_tools(self, run: Any) -> list[Any]:
        return [pay, delegate(Clerk(), description="Looks things up.")]


async def test_tools_that_a_run_loads_are_on_the_list_too(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedModel("Done.") as model:
        resources = Resources(allowed_tools={"desk": ["clerk", "loaded"]})
        await ToolOrchestrator(Chat("Go.", model=model), Loading(), resources=resources).run()
    assert sent(model) == [["clerk"]]
    assert [each.message for each in caplog.records if "has no tool" in each.message] == [
        "agent 'desk' has no tool 'loaded', which allowed_tools names"
    ]


async def test_tools_that_a_hook_adds_during_a_run_are_on_the_list_too() -> None:
    class Growing(AgentConfig):
        """Adds tools, as `McpTools` does when the user has logged in."""

        name = "desk"
        tools = (search,)

        def handle_special_tools(self, run: Any, call: Any, outcome: Any) -> None:
            run.registry.register(pay)

    with ScriptedModel(call("search", query="tea"), call("pay", amount=3), "No.") as model:
        resources = Resources(allowed_tools={"desk": ["search"]})
        result = await ToolOrchestrator(Chat("Go.", model=model), Growing(), resources=resources).run()
    assert result.text == "No."
    assert sent(model) == [["search"]] * 3


@pytest.mark.parametrize("allowed", [["search", "clerk"], ["search", "clerk", "find_tools"]])
async def test_tools_are_not_deferred_if_the_search_for_them_is_not_allowed(allowed: list[str]) -> None:
    class Searching(Desk):
        """Defers its tools."""

        parts = (ToolSearch(share=0),)

    with ScriptedModel("Done.") as model:
        resources = Resources(allowed_tools={"desk": allowed})
        await ToolOrchestrator(Chat("Go.", model=model), Searching(), resources=resources).run()
    assert sent(model) == [["find_tools"] if "find_tools" in allowed else allowed]


async def test_the_resources_of_a_run_may_have_another_list() -> None:
    model = ScriptedModel("Done.")
    resources = Resources(store=MemoryStore(), model=model, allowed_tools={"desk": ()})
    runtime = Runtime([Desk()], resources)
    runtime.join(Fleet(bell=LocalBell(), targets={"desks": ["desk"]}, takes=["desks"], allowed_tools={"desk": ["pay"]}))
    async with runtime:
        await (await runtime.start(Chat("What?"), "desk")).result()
    assert sent(model) == [[]]


@pytest.mark.parametrize("given", ["search", {"desk": "search"}, {"desk": [1]}, {1: ["search"]}])
async def test_an_invalid_list_is_refused(given: Any) -> None:
    resources = Resources(allowed_tools=given)
    with (
        ScriptedModel() as model,
        pytest.raises(ConfigurationError, match=r"allowed_tools.*use names of tools per agent"),
    ):
        await ToolOrchestrator(Chat("Go.", model=model), Desk(), resources=resources).run()


@pytest.mark.parametrize("agent", ["dsek", "clerc"])
def test_a_misspelt_agent_is_refused(agent: str) -> None:
    runtime = Runtime([Desk()], Resources(store=MemoryStore(), model=ScriptedModel()))
    fleet = Fleet(bell=LocalBell(), targets={}, takes=["worker_generic"], allowed_tools={agent: ["search"]})
    with pytest.raises(
        ConfigurationError, match=rf"allowed_tools names agent '{agent}'.*it has clerk, conversation_title, desk"
    ):
        runtime.join(fleet)


@pytest.mark.parametrize(
    ("takes", "logged"),
    [
        (["desks"], ["agent 'dsek', which neither"]),
        (["batch", "desks"], ["agent 'dsek', which neither", "agent 'sorter' of target batch, which this"]),
    ],
)
def test_an_agent_that_another_process_may_have_is_logged(
    takes: list[str], logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime([Desk()], Resources(store=MemoryStore(), model=ScriptedModel()))
    allowed = {"dsek": ["search"], "sorter": ["search"], "clerk": ["search"]}
    targets = {"desks": ["desk"], "batch": ["sorter"]}
    runtime.join(Fleet(bell=LocalBell(), targets=targets, takes=takes, allowed_tools=allowed))
    assert len(caplog.messages) == len(logged)
    for part in logged:
        assert part in caplog.text
