"""How a conversation was seen goes along to its next run: onto the same messages only, and through a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    Limits,
    MemoryStore,
    ModelRequest,
    Outcome,
    Resources,
    Retention,
    RunContext,
    Special,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.events import Notice, RunResult
from concertino.ids import new_run_id
from concertino.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from concertino.testing import Answer, ScriptedModel, call
from tests.tasks import advance

OMITS = Retention(summaries=False)
SUMMARIZES = Retention(frees=400, price=1e9, floor=0)
EXAMPLES = [UserMessage("an example's question"), AssistantMessage((Text("an example's answer"),))]


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    await advance()  # to the next summary
    return f"The balance of account {n} is {n * 111} euros. " * 40


def small(scope: object, model: object, agent: object) -> Limits:
    return Limits(context=4_000, output=500, tool_calls=500)


def within(scope: object, model: object, agent: object) -> Limits:
    return Limits(context=100_000, output=500, tool_calls=500)


async def converse(
    model: ScriptedModel, message: str, agent: AgentConfig[Any] | None = None, **settings: Any
) -> tuple[RunResult, list[str]]:
    """A run; its result, and the codes of its notices."""
    notices: list[str] = []
    shared = {name: settings.pop(name) for name in settings.keys() & {"retention", "store", "counter", "limits"}}
    chat = Chat(model=model, message=message, **settings)
    observers = [lambda event: notices.append(event.code) if isinstance(event, Notice) else None]
    orchestrator = ToolOrchestrator(
        chat,
        agent or AgentConfig(),
        ToolRegistry([look]),
        observers=observers,
        resources=Resources(**{"limits": within, **shared}),
    )
    return await orchestrator.run(), notices


def looks(*numbers: int) -> ScriptedModel:
    return ScriptedModel(*[call("look", n=n) for n in numbers], "done", summaries=["part"] * 30)


def results(request: ModelRequest) -> list[str]:
    return [message.content for message in request.messages if isinstance(message, ToolMessage)]


async def test_what_was_omitted_is_not_applied_to_another_conversation() -> None:
    one, _ = await converse(looks(*range(100, 108)), "conversation one", retention=OMITS, limits=small)
    other, _ = await converse(looks(*range(500, 508)), "another", retention=OMITS, limits=small)
    assert one.context is not None
    assert one.context.edits
    for history in (other.messages, (one.messages[0], *one.messages[3:])):
        model = ScriptedModel("ok")
        _, notices = await converse(model, "and?", history=history, context=one.context, retention=OMITS, limits=small)
        assert notices[0] == "context_not_applied"
        whole = {message.content for message in history if isinstance(message, ToolMessage)}
        for shown in results(model.requests[0]):
            assert shown in whole
            assert "account 10" not in shown or history is not other.messages


@pytest.mark.parametrize("examples", [[], EXAMPLES])
@pytest.mark.parametrize("summary", ["", "They spoke of the weather."])
async def test_examples_and_a_summary_are_no_part_of_what_is_carried(examples: list[Message], summary: str) -> None:
    settings: dict[str, Any] = {"few_shot": {"scripted:script": examples}, "summary": summary, "retention": SUMMARIZES}
    first = looks(*range(16))
    earlier = (UserMessage("an earlier question"), AssistantMessage((Text("an earlier answer"),)))
    result, _ = await converse(first, "THE TASK", history=earlier, **settings)
    model = looks(1, 2)
    history = (*earlier, *result.messages)
    _, notices = await converse(model, "and?", history=history, context=result.context, **settings)
    assert notices == []
    assert len(model.requests[0].messages) < len(history) - 10
    assert any(isinstance(m, UserMessage) and "part" in m.text for m in model.requests[0].messages)
    for request in (*first.requests, *model.requests):
        assert UserMessage("an earlier question") in list(request.messages), "the first message of the user's"


class Waits(AgentConfig[None]):
    """Its process ends while it prepares, the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.waits = True

    async def prepare(self, run: RunContext[None]) -> Sequence[Message]:
        if self.waits:
            self.begun.set()
            await asyncio.Event().wait()
        return ()


@pytest.mark.parametrize("examples", [[], EXAMPLES])
async def test_a_run_that_was_killed_before_its_first_request_sees_the_same(examples: list[Message]) -> None:
    settings: dict[str, Any] = {"few_shot": {"scripted:script": examples}, "retention": SUMMARIZES}
    earlier, _ = await converse(looks(*range(16)), "first", **settings)
    settings |= {"history": earlier.messages, "context": earlier.context}
    model = ScriptedModel("ok")
    await converse(model, "and?", **settings)

    agent, store, run_id, after = Waits(), MemoryStore(), new_run_id(), ScriptedModel("ok")
    resources = Resources(limits=within, store=store, retention=settings.pop("retention"))
    chat = Chat(model=after, message="and?", **settings)
    parked = ToolOrchestrator(
        chat,
        agent,
        ToolRegistry([look]),
        run_id=run_id,
        resources=resources,
    )
    task = asyncio.create_task(parked.run())
    await agent.begun.wait()
    parked.park()
    with suppress(asyncio.CancelledError):
        await task
    agent.waits = False
    chat = replace(chat, history=(), context=None, few_shot={})  # all of it is on record
    result = await ToolOrchestrator(
        chat,
        agent,
        ToolRegistry([look]),
        run_id=run_id,
        resume=True,
        resources=resources,
    ).run()
    assert list(after.requests[0].messages) == list(model.requests[0].messages)
    assert result.messages == (UserMessage("and?"), AssistantMessage((Text("ok"),), "end", "script"))
    assert result.context is not None
    assert earlier.context is not None
    assert result.context.edits == [*earlier.context.edits, *earlier.context.prepared]


async def test_a_conversation_that_a_hook_has_replaced_is_not_carried_through_a_restart() -> None:
    class Anew(AgentConfig[None]):
        def handle_special_tools(self, run: RunContext[None], call: ToolCall, outcome: Outcome) -> Special:
            return Special(messages=(UserMessage("begin anew"),))

    asked, store, run_id = asyncio.Event(), MemoryStore(), new_run_id()

    async def waits() -> None:
        asked.set()
        await asyncio.Event().wait()

    model = ScriptedModel(call("look", n=1), Answer(text="never", before=waits))
    chat = Chat(model=model, message="go")
    parked = ToolOrchestrator(
        chat,
        Anew(),
        ToolRegistry([look]),
        run_id=run_id,
        resources=Resources(limits=small, store=store, retention=OMITS),
    )
    task = asyncio.create_task(parked.run())
    await asked.wait()
    parked.park()
    with suppress(asyncio.CancelledError):
        await task
    chat = replace(chat, model=ScriptedModel("done"))
    result = await ToolOrchestrator(
        chat,
        Anew(),
        ToolRegistry([look]),
        run_id=run_id,
        resume=True,
        resources=Resources(limits=small, store=store, retention=OMITS),
    ).run()
    assert (result.text, result.context) == ("done", None)
