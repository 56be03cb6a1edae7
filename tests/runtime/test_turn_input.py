"""What a chat says about a turn holds whenever it runs: at once, from the queue, after a restart, and again."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Attachment,
    Chat,
    DataPolicy,
    MemoryStore,
    ModelRequest,
    Resources,
    Runtime,
    Scope,
    ToolOrchestrator,
    UserMessage,
    tool,
)
from concertino.agents import EMAIL, MainThreadAgent, delegate
from concertino.messages import Message
from concertino.testing import Answer, ScriptedModel, call
from concertino.tools.builtin import Settings, default_registry

ANN = Scope("acme", "ann")
EXAMPLES: dict[str | tuple[str, ...], list[Message]] = {("openai:*", "scripted:*"): [UserMessage("an example")]}
CHATS: dict[str, dict[str, Any]] = {
    "memory": {"memory_enabled": False},
    "personalization": {"personalization_enabled": False},
    "tools": {"send_tools": False},
    "project": {"project_attachments": [Attachment("plan.md", "the plan")]},
    "files": {"attachments": [Attachment("terms.pdf", "our terms")]},
}


def seen(request: ModelRequest) -> tuple[Any, ...]:
    """Return what the model sees of a chat."""
    return request.system, [spec.name for spec in request.tools], request.tool_choice


def process(store: MemoryStore, model: ScriptedModel) -> Runtime:
    """Return a runtime with the memory tools."""
    registry = default_registry(settings=Settings(memory=store))
    return Runtime([(MainThreadAgent(), registry)], Resources(model=model, store=store, models=lambda _: model))


async def queued_after(first: str, chat: Chat) -> list[ModelRequest]:
    """Queue *chat* behind a turn, ask its message again afterwards, and return the requests of both turns."""
    asked, go = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await go.wait()

    model = ScriptedModel(Answer(text="first", midway=wait), "queued", "again")
    runtime = process(MemoryStore(), model)
    conversation = await runtime.conversation(ANN, agent="main_thread")
    await conversation.send(first)
    await asked.wait()
    turn = await conversation.send(chat)
    assert (await turn.read()).state == "queued"
    go.set()
    await turn.result()
    await (await conversation.regenerate(turn.id)).result()
    await runtime.close()
    return model.requests[1:]


@pytest.mark.parametrize("name", CHATS)
async def test_a_queued_turn_and_its_repetition_have_the_switches_and_files(name: str) -> None:
    """A queued turn sends what it would have sent at once; so does the same message asked again."""
    chat = Chat("two", personalization="Be formal.", memories=["likes tea"], **CHATS[name])
    with ScriptedModel("at once", "without") as model:
        runtime = process(MemoryStore(), model)
        for each in (chat, dataclasses.replace(chat, **{field: getattr(Chat(), field) for field in CHATS[name]})):
            conversation = await runtime.conversation(ANN, agent="main_thread")
            await (await conversation.send(each)).result()
        await runtime.close()
    at_once, without = map(seen, model.requests)
    assert at_once != without, "the field is visible in the request"
    assert [seen(request) for request in await queued_after("one", chat)] == [at_once, at_once]


async def test_a_queued_turn_has_examples_of_a_list_of_models() -> None:
    """The keys of `few_shot` are stored as they are."""
    queued, _ = await queued_after("one", Chat("two", few_shot=EXAMPLES))
    assert queued.messages[0] == UserMessage("an example")


async def test_a_sub_agent_has_no_memory_either_if_the_user_has_switched_it_off() -> None:
    """The switch is the user's, so it holds for every agent below."""
    store = MemoryStore()

    class Helper(AgentConfig[None]):
        name = "helper"
        tools = tuple(default_registry(settings=Settings(memory=store)))

    helper = delegate(Helper(), name="helper", description="A helper.")

    async def tools_of_helper(chat: Chat) -> list[str]:
        with ScriptedModel(call("helper", query="a"), "done", "done") as model:
            agent = MainThreadAgent()
            agent.tools = (helper,)
            await ToolOrchestrator(dataclasses.replace(chat, model=model), agent).run()
        return [spec.name for spec in model.requests[1].tools]

    assert "retrieve_memory" in await tools_of_helper(Chat("go", scope=ANN))
    assert "retrieve_memory" not in await tools_of_helper(Chat("go", scope=ANN, memory_enabled=False))


async def test_the_files_of_a_project_are_redacted() -> None:
    """The patterns of the policy apply to them as to attached files."""

    class Careful(AgentConfig[None]):
        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(patterns=[EMAIL])

    with ScriptedModel("ok") as model:
        files = [Attachment("ann@acme.org.pdf", "from bob@acme.org")]
        await ToolOrchestrator(Chat("go", model=model, project_attachments=files), Careful()).run()
    assert "acme.org" not in model.requests[0].system


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "ok"


async def test_a_chat_without_tools_sends_none() -> None:
    """The flag holds for the request, however many tools the agent has."""
    with ScriptedModel("ok") as model:
        agent = AgentConfig[None]()
        agent.tools = (look,)
        await ToolOrchestrator(Chat("go", model=model, send_tools=False), agent).run()
    assert model.requests[0].tools == ()
