"""The part `Notes`: what an agent notes stays in its view, through summaries, crashes and further turns."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    DataPolicy,
    ModelRequest,
    Resources,
    Retention,
    Runtime,
    Scope,
    SqliteStore,
    Tool,
    ToolData,
    ToolMessage,
    ToolOrchestrator,
    tool,
)
from concertino.agents import Notes
from concertino.context_state import ContextState
from concertino.errors import ConfigurationError
from concertino.messages import AssistantMessage
from concertino.testing import ScriptedModel, asks_for_summary, call

FACT = "the key of the vault is 7714"
STEPS = [{"text": "open the vault", "status": "done"}, {"text": "count the coins", "status": "open"}]
SHORT = Retention(frees=400, price=1e9, floor=0)


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    return f"A line of what was found, number {n}. " * 40


class Keeper(AgentConfig[None]):
    name = "keeper"
    tools: Sequence[Tool] = (look,)
    parts = (Notes(),)
    tool_call_limit = 100


def noted(request: ModelRequest, name: str) -> list[str]:
    """Return the arguments of the calls of *name* that the model sees."""
    calls = [call for m in request.messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
    return [call.arguments for call in calls if call.name == name]


def turns(model: ScriptedModel) -> list[ModelRequest]:
    """Return the requests for turns, without those for summaries."""
    return [request for request in model.requests if not asks_for_summary(request)]


def script(count: int = 30) -> list[Any]:
    notes = (
        call("note_facts", facts=["old", "older"]),
        call("note_facts", facts=[FACT]),
        call("note_tasks", tasks=STEPS),
    )
    return [*notes, *[call("look", n=n) for n in range(count)], "done"]


def test_the_newest_notes_survive_summaries_and_older_ones_leave() -> None:
    model = ScriptedModel(*script(), summaries=["Nothing of note."] * 40)
    run = ToolOrchestrator(Chat("go", model=model), Keeper(), resources=Resources(retention=SHORT))
    result = asyncio.run(run.run())
    assert result.report is not None
    assert result.report.summaries > 1
    last = turns(model)[-1]
    assert [json.loads(text) for text in noted(last, "note_facts")] == [{"facts": [FACT]}]
    assert [json.loads(text) for text in noted(last, "note_tasks")] == [{"tasks": STEPS}]
    assert not any("number 0." in m.content for m in last.messages if isinstance(m, ToolMessage))
    assert result.data["note_tasks"] == {"tasks": STEPS}


def test_a_note_breaks_no_cached_prefix() -> None:
    model = ScriptedModel(*script(3))
    asyncio.run(ToolOrchestrator(Chat("go", model=model), Keeper()).run())
    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        assert earlier.system == later.system
        assert list(later.messages)[: len(earlier.messages)] == list(earlier.messages)


def test_a_note_that_is_too_long_is_refused_and_replaces_nothing() -> None:
    class Brief(AgentConfig[None]):
        parts = (Notes(characters=30),)
        tools = (look,)
        tool_call_limit = 100

    long = call("note_facts", facts=["x" * 31])
    looks = [call("look", n=n) for n in range(30)]
    model = ScriptedModel(call("note_facts", facts=[FACT]), long, *looks, "done", summaries=["Nothing."] * 40)
    result = asyncio.run(ToolOrchestrator(Chat("go", model=model), Brief(), resources=Resources(retention=SHORT)).run())
    refused = [m.content for m in result.messages if isinstance(m, ToolMessage) and m.is_error]
    assert refused == ["the notes have 31 characters, and 30 fit: shorten or drop some"]
    assert [json.loads(text) for text in noted(turns(model)[-1], "note_facts")] == [{"facts": [FACT]}]


@pytest.mark.parametrize("characters", [0, -1, 2.5, "many"])
def test_an_invalid_size_is_refused(characters: Any) -> None:
    with pytest.raises(ConfigurationError, match="characters"):
        Notes(characters)


async def test_a_resumed_run_and_the_next_turn_see_the_notes(tmp_path: Path) -> None:
    resources, scope = Resources(retention=SHORT), Scope("acme", "ann")
    path = tmp_path / "runs.db"
    ended = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait for the end of the process."""
        ended.set()
        await asyncio.Event().wait()
        return "never"

    class Waiting(Keeper):
        tools = (look, wait)

    model = ScriptedModel(*script(20)[:-1], call("wait"), summaries=["Nothing of note."] * 40)
    store = await SqliteStore.open(path)
    first = Runtime([Waiting()], dataclasses.replace(resources, model=model, store=store))
    live = await first.start(Chat("go", scope=scope, conversation_id="c1"), "keeper")
    await ended.wait()
    await first.close()
    await store.close()

    class Ready(Keeper):
        tools = (look, tool(name="wait", effect="read")(lambda: "over"))

    again = ScriptedModel("done", *[call("look", n=n) for n in range(20)], "done", summaries=["Nothing."] * 40)
    store = await SqliteStore.open(path)
    second = Runtime([Ready()], dataclasses.replace(resources, model=again, store=store))
    result = await (await second.resume(scope, live.id)).result()
    assert result.status == "completed"
    assert [json.loads(text) for text in noted(again.requests[0], "note_facts")] == [{"facts": [FACT]}]
    assert result.context is not None
    context = ContextState(**json.loads(json.dumps(dataclasses.asdict(result.context))))
    chat = Chat("and now?", history=result.messages, context=context, model=again)
    await ToolOrchestrator(chat, Keeper(), resources=resources).run()
    assert [json.loads(text) for text in noted(turns(again)[-1], "note_facts")] == [{"facts": [FACT]}]
    assert [json.loads(text) for text in noted(turns(again)[-1], "note_tasks")] == [{"tasks": STEPS}]
    await second.close()
    await store.close()


@pytest.mark.parametrize("kept", [True, False])
async def test_notes_are_stored_as_the_data_policy_says(tmp_path: Path, kept: bool) -> None:
    policy = DataPolicy() if kept else DataPolicy(other_tools=ToolData(arguments="drop", results="drop"))

    class Discreet(Keeper):
        def get_data_policy(self) -> DataPolicy:
            return policy

    path = tmp_path / "runs.db"
    store = await SqliteStore.open(path)
    model = ScriptedModel(call("note_facts", facts=[FACT]), "done")
    run = ToolOrchestrator(Chat("go", model=model), Discreet(), resources=Resources(store=store))
    await run.run()
    await store.close()
    assert json.loads(noted(turns(model)[-1], "note_facts")[0]) == {"facts": [FACT]}
    assert (FACT.encode() in path.read_bytes()) is kept
