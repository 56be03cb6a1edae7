"""Typed results: the answer of an agent with an `output_type`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    DataPolicy,
    Fail,
    Finish,
    MemoryStore,
    NextStep,
    Resources,
    Retry,
    RunContext,
    RunError,
    Runtime,
    ToolOrchestrator,
    ToolRegistry,
    delegate,
    tool,
)
from concertino.agents import InputGuardrail, OutputGuardrail, Refusal
from concertino.errors import ConfigurationError, OverloadedError
from concertino.events import PartialOutput, TextDelta
from concertino.providers import OutputSchema
from concertino.testing import Answer, ScriptedModel, call

from .conftest import Play


class Line(BaseModel):
    item: str
    euros: Annotated[float, Field(ge=0)] = 0.0


class Invoice(BaseModel):
    """An invoice."""

    number: int
    lines: list[Line]
    note: str | None = None


@dataclass
class Person:
    name: str
    tags: list[str] = field(default_factory=list)


class City(TypedDict):
    name: str
    kind: Literal["town", "city"]


def typed(kind: Any, **attributes: Any) -> AgentConfig[None]:
    """Return an agent with this output type."""
    agent: AgentConfig[None] = AgentConfig()
    agent.output_type = kind
    for name, value in attributes.items():
        setattr(agent, name, value)
    return agent


class Loose(ScriptedModel):
    """Enforces no schemas."""

    def takes_schema(self, schema: OutputSchema, *, tools: bool) -> bool:
        """See `Model`."""
        return False


INVOICE = '{"number": 7, "lines": [{"item": "tea", "euros": 3.5}], "note": null}'
ROWS: list[tuple[Any, str, Any]] = [
    (Invoice, INVOICE, Invoice(number=7, lines=[Line(item="tea", euros=3.5)])),
    (Person, '{"name": "Ann", "tags": []}', Person("Ann")),
    (City, '{"name": "Bath", "kind": "city"}', {"name": "Bath", "kind": "city"}),
    (list[Person], '{"result": [{"name": "Ann", "tags": ["x"]}]}', [Person("Ann", ["x"])]),
    (Invoice | Person, '{"result": {"name": "Ann", "tags": []}}', Person("Ann")),
    (Person | str, '{"result": "unknown"}', "unknown"),
    (Person | str, "Nobody of that name.", "Nobody of that name."),
    (
        {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        '{"x": 4}',
        {"x": 4},
    ),
    ({"type": "array", "items": {"type": "integer"}}, '{"result": [1]}', [1]),
]


@pytest.mark.parametrize(("kind", "text", "value"), ROWS)
@pytest.mark.parametrize("enforced", [True, False])
async def test_the_result_has_the_value(play: Play, kind: Any, text: str, value: Any, enforced: bool) -> None:
    with (ScriptedModel if enforced else Loose)(text) as model:
        seen = await play(model, typed(kind))
    assert seen.result.output == value
    assert type(seen.result.output) is type(value)
    assert seen.result.text == text
    request = model.requests[0]
    assert (request.output_schema is not None) is enforced
    assert ("It must match this JSON Schema" in request.system) is not enforced


async def test_the_strict_form_is_what_providers_enforce(play: Play) -> None:
    with ScriptedModel(INVOICE) as model:
        await play(model, typed(Invoice))
    sent = model.requests[0].output_schema
    assert sent.name == "Invoice"
    assert sent.strict
    assert sent.schema["required"] == ["number", "lines", "note"]
    line = sent.schema["$defs"]["Line"]
    assert line["required"] == ["item", "euros"]
    assert line["additionalProperties"] is False
    assert line["properties"]["euros"] == {"type": "number", "description": '({"minimum": 0})'}


async def test_a_schema_without_a_strict_form_is_sent_as_it_is(play: Play) -> None:
    with ScriptedModel('{"a": 1}') as model:
        seen = await play(model, typed(dict[str, int]))
    assert not model.requests[0].output_schema.strict
    assert seen.result.output == {"a": 1}


@pytest.mark.parametrize("kind", [object(), {"type": 12}, {"x": {1, 2}}, asyncio.Event])
async def test_a_type_without_a_schema_is_refused(kind: Any) -> None:
    orchestrator = ToolOrchestrator(Chat("hi", model=ScriptedModel()), typed(kind))
    with pytest.raises(ConfigurationError, match="output_type"):
        await orchestrator.run()


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"properties": {"x": {"$ref": "http://127.0.0.1:9/schema"}}}, r"127\.0\.0\.1.*schemas are not fetched"),
        ({"properties": {f"p{n}": {} for n in range(2_000)}}, "more than 2,000 parts; use a smaller one"),
        (json.loads('{"not":' * 800 + "{}" + "}" * 800), "the JSON Schema is invalid: RecursionError"),
    ],
    ids=["fetched", "large", "deep"],
)
async def test_a_hostile_schema_is_refused_before_the_run_starts(schema: Any, problem: str) -> None:
    orchestrator = ToolOrchestrator(Chat("hi", model=ScriptedModel()), typed(schema))
    with pytest.raises(ConfigurationError, match=problem):
        await orchestrator.run()


@pytest.mark.parametrize("ask", [False, True])
async def test_a_check_that_takes_too_long_blocks_nothing_and_is_an_invalid_answer(
    ask: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("concertino.tools.schema._CPU_SECONDS", 0.2)
    kind = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    hostile = json.dumps({"x": "a" * 60 + "!"})

    class Asks(AgentConfig[None]):
        async def conclude(self, run: RunContext[None], text: str) -> str:
            return json.dumps(await run.ask("Which?", output_type=kind))

    turns = 0

    async def ticks() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    script = ["hm"] if ask else []
    with ScriptedModel(*script, hostile, '{"x": "aa"}') as model:
        ticking = asyncio.create_task(ticks())
        result = await ToolOrchestrator(Chat("hi", model=model), Asks() if ask else typed(kind)).run()
        ticking.cancel()
    assert "too expensive to check" in model.requests[-1].messages[-1].text
    assert result.text == '{"x": "aa"}'
    assert turns > 10  # the event loop went on during the check


class Reading(BaseModel):
    kelvin: list[float]


@dataclass
class Measured:
    value: float
    label: str = ""


@pytest.mark.parametrize(
    ("kind", "text", "where"),
    [
        (Reading, '{"kelvin": [1.5, 1e999]}', "kelvin.1"),
        (Reading, '{"kelvin": [1.5, "NaN"]}', "kelvin.1"),
        (Measured, '{"value": " -Infinity"}', "value"),
        (dict[str, float], '{"a": "inf"}', "a"),
        ({"type": "object", "properties": {"x": {"type": "number"}}}, '{"x": 1e999}', "x"),
        (float, '{"result": "nan"}', "the answer"),
    ],
)
async def test_a_number_that_is_not_finite_is_refused(kind: Any, text: str, where: str) -> None:
    with ScriptedModel(text) as model, pytest.raises(RunError, match=f"{where}: the number is not finite"):
        await ToolOrchestrator(Chat("hi", model=model), typed(kind, output_retries=0)).run()


async def test_a_text_may_name_what_is_not_a_number() -> None:
    with ScriptedModel('{"value": 1, "label": "Nan"}') as model:
        result = await ToolOrchestrator(Chat("hi", model=model), typed(Measured)).run()
    assert result.output == Measured(1.0, "Nan")


async def test_an_invalid_answer_is_asked_for_again_with_the_error(play: Play) -> None:
    with ScriptedModel('{"number": "x"}', INVOICE) as model:
        seen = await play(model, typed(Invoice))
    assert seen.result.output.number == 7
    problem = model.requests[1].messages[-1].text
    assert "number: Input should be a valid integer" in problem
    assert "lines: Field required" in problem
    assert (seen.result.steps, len(seen.result.usage)) == (2, 2)


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_the_number_of_corrections_is_bounded(retries: int) -> None:
    with ScriptedModel(*["no"] * (retries + 1)) as model:
        orchestrator = ToolOrchestrator(Chat("hi", model=model), typed(Invoice, output_retries=retries))
        with pytest.raises(RunError, match="does not match the output type: it is not valid JSON") as failed:
            await orchestrator.run()
    assert failed.value.result.status == "failed"
    assert failed.value.result.output is None


@tool(effect="read")
async def price(item: str) -> float:
    """Look up a price."""
    return 3.5


async def test_tools_work_in_the_same_run(play: Play) -> None:
    with ScriptedModel(call("price", item="tea"), "I think it is cheap.", INVOICE) as model:
        seen = await play(model, typed(Invoice), tools=[price])
    assert seen.result.output.lines[0].euros == 3.5
    assert all(request.output_schema is not None for request in model.requests)
    assert all(request.tools for request in model.requests[:2])


async def test_a_correction_is_possible_at_the_limit_of_tool_calls(play: Play) -> None:
    script = [call("price", item="tea"), "not yet", INVOICE]
    with ScriptedModel(*script) as model:
        seen = await play(model, typed(Invoice, tool_call_limit=2), tools=[price])
    assert seen.result.output.number == 7


async def test_the_agents_own_ending_is_validated() -> None:
    class Ends(AgentConfig[None]):
        output_type = Person

        def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
            return Finish('{"name": "Bo", "tags": []}')

    with ScriptedModel("hm") as model:
        result = await ToolOrchestrator(Chat("hi", model=model), Ends()).run()
    assert result.output == Person("Bo")

    class Concludes(AgentConfig[None]):
        output_type = Person

        def conclude(self, run: RunContext[None], text: str) -> str:
            return "spoiled"

    with (
        ScriptedModel('{"name": "Bo", "tags": []}') as model,
        pytest.raises(RunError, match="does not match the output type"),
    ):
        await ToolOrchestrator(Chat("hi", model=model), Concludes()).run()


@pytest.mark.parametrize("refuses", [InputGuardrail, OutputGuardrail])
async def test_a_refusal_ends_the_run_without_a_value(refuses: Any) -> None:
    agent = typed(Person, parts=(refuses(lambda run, text: Refusal("Ask a doctor.")),))
    store = MemoryStore()
    script = [] if refuses is InputGuardrail else ['{"name": "Bo", "tags": []}']
    with ScriptedModel(*script) as model:
        async with Runtime([agent], Resources(store=store, model=model)) as runtime:
            run = await runtime.start(Chat("hi"), "agent")
            first = await run.result()
    later = await Runtime([agent], Resources(store=store)).result(OPERATOR, run.id)
    for result in (first, later):
        assert (result.status, result.text, result.output, result.error) == ("completed", "Ask a doctor.", None, None)


async def test_a_failed_run_has_no_output() -> None:
    class Fails(AgentConfig[None]):
        output_type = Person

        def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
            return Fail("enough")

    with ScriptedModel('{"name": "Bo", "tags": []}') as model, pytest.raises(RunError, match="enough") as failed:
        await ToolOrchestrator(Chat("hi", model=model), Fails()).run()
    assert failed.value.result.output is None


# -- while it arrives --------------------------------------------------------------------------------------------------


async def test_the_value_arrives_in_parts(play: Play) -> None:
    lines = [{"item": f"tea number {n}", "euros": float(n)} for n in range(40)]
    with ScriptedModel(json.dumps({"number": 1, "lines": lines, "note": None})) as model:
        seen = await play(model, typed(Invoice))
    partial = [event.value for event in seen.of(PartialOutput)]
    counts = [len(value.get("lines", ())) for value in partial]
    assert counts == sorted(counts)
    assert 5 < len(partial) < len(seen.of(TextDelta))
    for value in partial:
        *whole, _ = value["lines"]
        assert whole == lines[: len(whole)]


async def test_prose_before_a_call_has_no_parts(play: Play) -> None:
    words = "Let me look at the prices before I answer this. " * 5
    with ScriptedModel(Answer(text=words, calls=(call("price", item="tea"),)), INVOICE) as model:
        seen = await play(model, typed(Invoice), tools=[price])
    assert all(event.value.keys() <= {"number", "lines", "note"} for event in seen.of(PartialOutput))


async def test_the_parts_of_a_retried_answer_begin_again(play: Play) -> None:
    lines = [{"item": "tea", "euros": 1.0}] * 20
    whole = json.dumps({"number": 1, "lines": lines, "note": None})
    script = [Answer(text=whole[:300], error=OverloadedError("busy")), whole]
    with ScriptedModel(*script) as model:
        seen = await play(model, typed(Invoice), retry=Retry(first=0, restart=True))
    assert seen.result.output.number == 1
    counts = [len(event.value["lines"]) for event in seen.of(PartialOutput)]
    assert counts != sorted(counts)


async def test_observers_under_a_policy_see_no_parts() -> None:
    seen: list[Any] = []

    class Private(AgentConfig[None]):
        output_type = Person

        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(text="redact")

    text = json.dumps({"name": "Ann", "tags": ["secret " * 5] * 9})
    with ScriptedModel(text) as model:
        await ToolOrchestrator(Chat("hi", model=model), Private(), observers=[seen.append]).run()
    assert "secret" not in repr(seen)


# -- stored ------------------------------------------------------------------------------------------------------------


async def test_another_process_reads_the_value_again() -> None:
    store = MemoryStore()
    with ScriptedModel("no JSON", INVOICE) as model:
        async with Runtime([typed(Invoice)], Resources(store=store, model=model)) as runtime:
            run = await runtime.start(Chat("hi"), "agent")
            first = await run.result()
    later = await Runtime([typed(Invoice)], Resources(store=store)).result(OPERATOR, run.id)
    assert later.output == first.output == Invoice(number=7, lines=[Line(item="tea", euros=3.5)])
    assert (await Runtime([], Resources(store=store)).result(OPERATOR, run.id)).output is None
    sent = [request for _, _, request in await runtime.replay(OPERATOR, run.id)]
    assert [request.output_schema for request in sent] == [request.output_schema for request in model.requests]
    assert [list(request.messages) for request in sent] == [list(request.messages) for request in model.requests]


async def test_the_schema_is_stored_once() -> None:
    store = MemoryStore()
    script = [*[call("price", item="tea")] * 4, INVOICE]
    with ScriptedModel(*script) as model:
        orchestrator = ToolOrchestrator(
            Chat("hi", model=model), typed(Invoice), ToolRegistry([price]), resources=Resources(store=store)
        )
        await orchestrator.run()
    journal = await store.load(OPERATOR, orchestrator.run_id)
    assert journal is not None
    entries = json.dumps([[entry.body, entry.content] for entry in journal.entries])
    assert '"lines"' not in entries
    assert len([text for text in journal.texts.values() if text.startswith('["Invoice"')]) == 1


async def test_a_fork_sends_the_same_schema() -> None:
    store = MemoryStore()
    script = [call("price", item="tea"), INVOICE]
    agent = typed(Invoice, tools=(price,))
    with ScriptedModel(*script, INVOICE) as model:
        async with Runtime([agent], Resources(store=store, model=model)) as runtime:
            run = await runtime.start(Chat("hi"), "agent")
            await run.result()
            forked = await runtime.fork(OPERATOR, run.id, 2)
            assert (await forked.result()).output.number == 7
    assert model.requests[2].output_schema == model.requests[1].output_schema


async def test_a_sub_agent_has_its_own_type(play: Play) -> None:
    clerk = typed(Person)
    clerk.name = "clerk"
    with ScriptedModel(call("clerk", query="x"), '{"name": "Ann", "tags": []}', "It is Ann.") as model:
        seen = await play(model, tools=[delegate(clerk, description="Ask the clerk.")])
    assert seen.result.text == "It is Ann."
    assert seen.result.output is None
    assert [request.output_schema is None for request in model.requests] == [True, False, True]


async def test_a_fallback_that_enforces_nothing_reads_the_schema(play: Play) -> None:
    other = Loose(INVOICE, name="other")
    with ScriptedModel(OverloadedError("busy")) as model:
        seen = await play(
            model, typed(Invoice), fallback=["scripted:other"], models=lambda _: other, retry=Retry(attempts=1)
        )
    assert seen.result.output.number == 7
    assert other.requests[0].output_schema is None
    assert "It must match this JSON Schema" in other.requests[0].system
