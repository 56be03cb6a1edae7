"""What a hostile user, tenant or model must not reach."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    RunContext,
    Runtime,
    Scope,
    ToolOrchestrator,
    delegate,
    tool,
)
from concertino.agents import Approvals, OutputGuardrail, Refusal, TextRedaction
from concertino.errors import UnknownRunError, UnknownWaitError
from concertino.events import PartialOutput, RunEvent, TextDelta
from concertino.testing import ScriptedModel, call

ANN, MALLORY = Scope("acme", "ann"), Scope("evil", "mallory")


class Answer(BaseModel):
    text: str
    more: str = ""


async def refuse_secrets(run: RunContext[Any], text: str) -> Refusal | None:
    """Refuse what must not be said."""
    return Refusal("No.") if "secret" in text else None


async def played(agent: AgentConfig[Any], *script: Any, **scripts: Any) -> tuple[list[RunEvent], Any]:
    """Return the events and the result of a run."""
    run = ToolOrchestrator(Chat("Hi", model=ScriptedModel(*script, **scripts)), agent)
    return [event async for event in run.stream()], run.result


async def test_a_held_back_answer_does_not_appear_in_partial_output() -> None:
    class Guarded(AgentConfig[None]):
        output_type = Answer
        parts = (OutputGuardrail(refuse_secrets),)

    events, _ = await played(Guarded(), json.dumps({"text": "secret " * 40, "more": "x" * 200}))
    assert "secret" not in repr(events)
    events, result = await played(Guarded(), json.dumps({"text": "fine " * 40, "more": "x" * 200}))
    assert any(isinstance(event, PartialOutput) for event in events)
    assert result.output.text == "fine " * 40


@pytest.mark.parametrize("at", ["@", "\\u0040"])
async def test_an_address_in_a_typed_answer_is_redacted_however_it_is_escaped(at: str) -> None:
    class Private(AgentConfig[None]):
        output_type = Answer
        parts = (TextRedaction(),)

    answer = '{"text": "x' + "y" * 60 + f' ann{at}example.org", "more": "' + "z" * 200 + '"}'
    events, result = await played(Private(), answer)
    assert any(isinstance(event, PartialOutput) for event in events)
    assert "ann@" not in repr(events)
    assert result.output.text.endswith(" [email]")


async def test_a_replaced_answer_of_a_sub_agent_stays_a_draft() -> None:
    class Child(AgentConfig[None]):
        name = "child"
        prompt = "You are the child."
        parts = (OutputGuardrail(lambda run, text: f"judged {text}"),)

    class Root(AgentConfig[None]):
        tools = (delegate(Child(), description="Helps."),)

    script = {"You are the child": ["words"]}
    events, _ = await played(Root(), call("child", query="?"), "Done.", scripts=script)
    pieces = [event for event in events if isinstance(event, TextDelta) and "judged" in event.text]
    assert [piece.audience for piece in pieces] == ["draft"]
    assert all(piece.attempt for piece in pieces)


async def test_a_number_that_json_does_not_have_is_invalid_in_a_typed_answer() -> None:
    class Number(AgentConfig[None]):
        output_type = {"type": "object", "properties": {"a": {"type": "number"}}}

    _, result = await played(Number(), '{"a": NaN}', '{"a": 1}')
    assert (result.output, result.steps) == ({"a": 1}, 2)


async def test_an_erased_run_of_another_tenant_is_not_found() -> None:
    class Child(AgentConfig[None]):
        name = "child"
        prompt = "You are the child."

    class Root(AgentConfig[None]):
        name = "root"
        tools = (delegate(Child(), description="Helps."),)

    model = ScriptedModel(call("child", query="?"), "Done.", scripts={"You are the child": ["words"]})
    store = MemoryStore()
    async with Runtime([Root()], Resources(model=model, store=store)) as runtime:
        run = await runtime.start(Chat("Hi", scope=ANN), "root")
        await run.result()
        (child,) = [stored.start.run_id for stored in await store.runs(ANN) if stored.start.run_id != run.id]
        await store.erase(ANN)
        with pytest.raises(UnknownRunError):
            await runtime.steer(MALLORY, child, "Hello")
        with pytest.raises(UnknownWaitError):
            await runtime.resolve(MALLORY, f"{child}:1.0", "done")


@tool(effect="once")
async def pay() -> str:
    """Pay."""
    return "paid"


async def test_deleting_a_conversation_ends_its_approval_rules_and_allows_a_new_title() -> None:
    store = MemoryStore()

    class Desk(AgentConfig[None]):
        name = "desk"
        tools = (pay,)
        parts = (Approvals("pay", rules=store),)

    model = ScriptedModel(call("pay"), "Done.", "A Title", call("pay"), "Done.", "Hello.", "Another Title")
    async with Runtime([Desk()], Resources(model=model, store=store)) as runtime:
        conversation = await runtime.conversation(ANN, "c", agent="desk")
        turn = await conversation.send("Pay")
        waiting = (await turn.result()).waiting
        await runtime.approve(ANN, waiting[0].key, remember="conversation")
        assert (await (await runtime.resume(ANN, turn.id)).result()).text == "Done."
        assert await conversation.title() == "A Title"
        await conversation.delete()
        assert not await store.approval_rules(ANN)
        conversation = await runtime.conversation(ANN, "c", agent="desk")
        turn = await conversation.send("Pay")
        waiting = (await turn.result()).waiting
        await runtime.approve(ANN, waiting[0].key, remember="always")
        await (await runtime.resume(ANN, turn.id)).result()
        await (await conversation.send("Hi")).result()
        assert await conversation.title() == "Another Title"
        await conversation.delete()
        await store.erase(ANN)
        assert not await store.approval_rules(ANN)
        assert [each.by for each in await store.usage_sums(OPERATOR, ["tenant", "user"])] == [("acme", "")]
