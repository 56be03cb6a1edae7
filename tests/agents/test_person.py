"""`ask_person`: a tool asks a person, and the run waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import AgentConfig, Chat, MemoryStore, Resources, Runtime, Scope, ToolContext, tool
from concertino.agents import Approvals, ask_person
from concertino.errors import ConfigurationError
from concertino.testing import ScriptedModel, call
from concertino.tools import Effect
from concertino.waits import Wait

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
        waiting = (await run.result()).waiting
        if by == "refusal":
            (wait,) = waiting
            await runtime.resolve(ANN, wait.key, "no", failed=True)
        async for _ in runtime.events(ANN, run.id):
            pass
        result = await runtime.result(ANN, run.id)
    assert result.messages[2].content == "None"


class Asking(AgentConfig[None]):
    """Asks one question with *details*."""

    name = "host"

    def __init__(self, details: dict[str, Any]) -> None:
        @tool(effect="idempotent")
        async def ask(context: ToolContext) -> str:
            """Ask."""
            return str(await ask_person(context, "Which one?", **details))

        self.tools = (ask,)


async def ask_once(runtime: Runtime) -> Wait:
    """Return the wait of the question that the first call of the model asks."""
    run = await runtime.start(Chat("A table.", scope=ANN), "host")
    (wait,) = (await run.result()).waiting
    return wait


FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "seats": {"type": "integer", "maximum": 8}},
    "required": ["name"],
}
ENDLESS = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}


@pytest.mark.parametrize(
    ("details", "answer", "problem"),
    [
        ({"choices": ["18", "20"]}, "19", "answer: '19' is not one of"),
        ({"choices": ["18", "20"]}, "", "answer: '' is not one of"),
        ({"schema": FORM}, {"name": "Ann", "seats": 9}, "seats: 9 is greater than the maximum of 8"),
        ({"schema": FORM}, {"seats": 2}, "'name' is a required property"),
        ({"schema": FORM}, "Ann", "use a JSON object"),
        ({"schema": FORM}, '["Ann"]', "use a JSON object"),
        ({"schema": FORM}, '{"name": "Ann", "seats": NaN}', "use a JSON object"),
        ({"schema": FORM}, "[" * 100_000, "use a JSON object"),
        ({"schema": ENDLESS}, {"name": "a" * 40 + "!"}, "too expensive to check"),
        ({"schema": {"type": "no such type"}}, {}, "cannot be used"),
        ({"schema": {"$ref": "#/nothing"}}, {}, "cannot be used"),
        ({"schema": {"$ref": "https://example.com/x"}}, {}, "schemas are not fetched"),
    ],
)
async def test_an_answer_that_does_not_fit_leaves_the_question_open(
    details: dict[str, Any], answer: Any, problem: str
) -> None:
    async with Runtime([Asking(details)], Resources(model=ScriptedModel(call("ask"))), store=MemoryStore()) as runtime:
        wait = await ask_once(runtime)
        with pytest.raises(ConfigurationError, match="the question stays open") as raised:
            await runtime.resolve(ANN, wait.key, answer)
        assert problem in str(raised.value)
        (still,) = await runtime.store.waits(ANN, open=True)
        assert still.key == wait.key
        assert (await runtime.resolve(ANN, wait.key, "no", failed=True)).won


@pytest.mark.parametrize(
    ("details", "answer"),
    [
        ({"choices": ["18", "20"]}, 20),
        ({"choices": [str(number) for number in range(5_000)]}, "4999"),
        ({"choices": [18, 20]}, "at noon"),
        ({"schema": FORM}, {"name": "Ann"}),
        ({"schema": FORM}, '{"name": "Ann", "seats": 2}'),
        ({"url": "https://example.com/"}, "done"),
    ],
)
async def test_an_answer_that_fits_is_recorded(details: dict[str, Any], answer: Any) -> None:
    async with Runtime([Asking(details)], Resources(model=ScriptedModel(call("ask"))), store=MemoryStore()) as runtime:
        wait = await ask_once(runtime)
        assert (await runtime.resolve(ANN, wait.key, answer)).won


async def test_the_first_of_two_answers_counts_whatever_the_second_is() -> None:
    asking = Asking({"choices": ["18", "20"]})
    async with Runtime([asking], Resources(model=ScriptedModel(call("ask"))), store=MemoryStore()) as runtime:
        wait = await ask_once(runtime)
        first, second = await asyncio.gather(*[runtime.resolve(ANN, wait.key, each) for each in ("18", "20")])
        assert {first.won, second.won} == {True, False}
        assert not (await runtime.resolve(ANN, wait.key, "19")).won
