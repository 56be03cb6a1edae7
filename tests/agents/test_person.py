"""`ask_person`: a tool asks a person, and the run waits."""

from __future__ import annotations

import pytest

from concertino import AgentConfig, Chat, MemoryStore, Resources, Runtime, Scope, ToolContext, tool
from concertino.agents import Approvals, ask_person
from concertino.testing import ScriptedModel, call
from concertino.tools import Effect

ANN = Scope("acme", "ann")


@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
@pytest.mark.parametrize("approved", [False, True])
async def test_each_question_waits_and_the_approval_counts_once(effect: Effect, *, approved: bool) -> None:
    runs: list[str] = []

    @tool(effect=effect)
    async def book(table: int, context: ToolContext) -> str:
        """Book a table."""
        runs.append("begun")
        name = await ask_person(context, "Which name?")
        hour = await ask_person(context, "At what time?", choices=["18", "20"])
        return f"table {table} for {name} at {hour}"

    class Host(AgentConfig[None]):
        name = "host"
        tools = (book,)
        parts = (Approvals("book"),) if approved else ()

    model = ScriptedModel(call("book", table=4), "Booked.")
    runtime = Runtime([Host()], Resources(model=model), store=MemoryStore())
    run = await runtime.start(Chat("Table 4.", scope=ANN), "host")
    suspended = await run.result()
    if approved:
        (wait,) = suspended.waiting
        await runtime.approve(ANN, wait.key, arguments={"table": 5})
        suspended = await (await runtime.resume(ANN, run.id)).result()
    asked = []
    for answer in ("Ann", "20"):
        (wait,) = suspended.waiting
        asked.append(wait.note)
        await runtime.resolve(ANN, wait.key, answer)
        suspended = await (await runtime.resume(ANN, run.id)).result()
    assert asked == ["Which name?", "At what time?"]
    assert suspended.status == "completed"
    assert suspended.messages[2].content == f"table {5 if approved else 4} for Ann at 20"
    assert runs == ["begun"] * 3


@pytest.mark.parametrize("by", ["refusal", "deadline"])
async def test_a_question_without_an_answer_is_none(by: str) -> None:
    @tool(effect="idempotent")
    async def book(context: ToolContext) -> str:
        """Book a table."""
        seconds = None if by == "refusal" else 0.01
        return str(await ask_person(context, "Which name?", seconds=seconds))

    class Host(AgentConfig[None]):
        name = "host"
        tools = (book,)

    model = ScriptedModel(call("book"), "Booked.")
    async with Runtime([Host()], Resources(model=model), store=MemoryStore(), sweep=0.01) as runtime:
        run = await runtime.start(Chat("A table.", scope=ANN), "host")
        (wait,) = (await run.result()).waiting
        if by == "refusal":
            await runtime.resolve(ANN, wait.key, "no", failed=True)
        async for _ in runtime.events(ANN, run.id):
            pass
        result = await runtime.result(ANN, run.id)
    assert result.messages[2].content == "None"
