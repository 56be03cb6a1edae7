"""Work outside turns: hooks and tools ask models and call tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    Budget,
    Chat,
    Deny,
    HookError,
    MemoryStore,
    Message,
    Resources,
    Retry,
    RunContext,
    RunError,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOrchestrator,
    ToolRegistry,
    UserMessage,
    delegate,
    tool,
)
from concertino.errors import (
    BudgetError,
    ConfigurationError,
    InvalidOutputError,
    OverloadedError,
    ProviderTimeoutError,
    RunStateError,
)
from concertino.events import AttemptFailed, TextDelta, ToolDone, ToolFailed, ToolStarted
from concertino.testing import Answer, ScriptedModel, call
from concertino.tools import Hit, Page, Source, source_id
from concertino.tools.builtin import ResearchTools, craft
from concertino.usage import Tokens

from .conftest import Play


class Plan(BaseModel):
    steps: list[str]


@dataclass
class Score:
    points: int
    reason: str = ""


@tool(effect="read")
async def stats(year: int) -> str:
    """Count the records of a year."""
    return f"{year}: 12"


class Prepares(AgentConfig[None]):
    """Does one piece of work in `prepare`."""

    def __init__(self, work: Any) -> None:
        self.work = work
        self.found: Any = None

    async def prepare(self, run: RunContext[None]) -> Sequence[Message]:
        self.found = await self.work(run)
        return ()


# -- questions -----------------------------------------------------------------------------------------------------


async def test_a_side_question_is_not_shown_as_the_answer(play: Play) -> None:
    with ScriptedModel('[{"tool":"stats"}]', "Final answer.") as model:
        seen = await play(model, Prepares(lambda run: run.ask("Which tools? JSON", system="select")))
    assert "".join([event.text for event in seen.of(TextDelta)]) == "Final answer."
    assert len(seen.result.usage) == 2


@pytest.mark.parametrize("audience", ["draft", "answer"])
async def test_a_visible_question_streams_with_its_audience(play: Play, audience: Any) -> None:
    with ScriptedModel("an outline", "Done.") as model:
        seen = await play(model, Prepares(lambda run: run.ask("Outline?", audience=audience)))
    assert [(e.text, e.audience, e.call_id) for e in seen.of(TextDelta)] == [
        ("an ", audience, None),
        ("outline", audience, None),
        ("Done.", "answer", None),
    ]


async def test_a_question_chooses_model_length_effort_and_system(play: Play) -> None:
    small = ScriptedModel("yes", name="small")
    agent = Prepares(
        lambda run: run.ask(
            [UserMessage("Is 2 even?")],
            model="scripted:small",
            system="Judge.",
            max_output_tokens=5,
            effort="low",
            temperature=0,
        )
    )
    with ScriptedModel("done") as model:
        seen = await play(model, agent, models=lambda _: small)
    request = small.requests[0]
    assert (request.system, request.max_output_tokens, request.effort, request.temperature) == ("Judge.", 5, "low", 0)
    assert request.tools == ()
    assert [record.model for record in seen.result.usage] == ["small", "script"]
    assert agent.found == "yes"


@pytest.mark.parametrize(
    ("output_type", "text", "value"),
    [
        (Plan, '{"steps": ["a", "b"]}', Plan(steps=["a", "b"])),
        (Score, '{"points": 3}', Score(3)),
        (list[int], '{"result": [1, 2]}', [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (Plan | Score, '{"result": {"points": 1, "reason": "x"}}', Score(1, "x")),
        (Plan | str, "I cannot plan this.", "I cannot plan this."),
        (Plan | str, '{"result": "not now"}', "not now"),
        (bool, '{"result": true}', True),
        ({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, '{"x": 1}', {"x": 1}),
        (Plan, '```json\n{"steps": []}\n```', Plan(steps=[])),
    ],
)
async def test_a_typed_question_returns_the_value(play: Play, output_type: Any, text: str, value: Any) -> None:
    agent = Prepares(lambda run: run.ask("?", output_type=output_type))
    with ScriptedModel(text, "done") as model:
        await play(model, agent)
    assert agent.found == value
    schema = model.requests[0].output_schema
    assert schema is not None
    assert schema.schema["type"] == "object"
    assert model.requests[1].output_schema is None


async def test_an_invalid_value_is_asked_for_again_with_the_error(play: Play) -> None:
    agent = Prepares(lambda run: run.ask("?", output_type=Score))
    with ScriptedModel('{"points": "many"}', '{"points": 2}', "done") as model:
        seen = await play(model, agent)
    assert agent.found == Score(2)
    given, asked = model.requests[1].messages[-2:]
    assert given.text == '{"points": "many"}'
    assert "points: Input should be a valid integer" in asked.text
    assert len(seen.result.usage) == 3


async def test_a_value_that_stays_invalid_is_an_error(play: Play) -> None:
    async def work(run: RunContext[None]) -> str:
        with pytest.raises(InvalidOutputError, match="not valid JSON"):
            await run.ask("?", output_type=Plan)
        return "caught"

    agent = Prepares(work)
    with ScriptedModel("no", "no", "no", "done") as model:
        await play(model, agent)
    assert agent.found == "caught"


async def test_a_question_ends_at_its_time_limit_and_is_booked(play: Play) -> None:
    async def work(run: RunContext[None]) -> str:
        with pytest.raises(ProviderTimeoutError, match=r"within 0\.01 s"):
            await run.ask("?", seconds=0.01)
        return "went on"

    agent = Prepares(work)
    with ScriptedModel(Answer(text="never", before=asyncio.Event().wait), "done") as model:
        seen = await play(model, agent)
    assert agent.found == "went on"
    assert seen.result.text == "done"
    assert [record.source for record in seen.result.usage] == ["estimated", "measured"]


async def test_an_unseen_question_is_retried_although_it_had_begun(play: Play) -> None:
    agent = Prepares(lambda run: run.ask("?"))
    broken = Answer(text="half", error=OverloadedError("busy"))
    with ScriptedModel(broken, "whole", "done") as model:
        seen = await play(model, agent, retry=Retry(first=0))
    assert agent.found == "whole"
    assert len(seen.of(AttemptFailed)) == 1


async def test_a_question_draws_on_the_budget() -> None:
    refused: list[BudgetError] = []

    class Careful(AgentConfig[None]):
        async def prepare(self, run: RunContext[None]) -> Sequence[Message]:
            try:
                await run.ask("word " * 3_000)
            except BudgetError as error:
                refused.append(error)
            return ()

    with ScriptedModel("done") as model:
        chat = Chat("hi", model=model, budget=Budget(tokens=6_000))
        await ToolOrchestrator(chat, Careful(), resources=Resources(store=MemoryStore())).run()
    assert len(refused) == 1


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"seconds": 0}, "seconds=0"),
        ({"max_output_tokens": True}, "max_output_tokens"),
        ({"audience": "all"}, "audience='all'"),
        ({"output_type": object()}, "invalid output_type"),
        ({"output_type": {"type": 5}}, "JSON Schema is invalid"),
        ({"tokens": 5}, r"ask\(tokens=...\): unknown setting"),
        ({"model": "scripted:other"}, "cannot be opened"),
    ],
)
async def test_invalid_settings_are_refused(play: Play, settings: Any, problem: str) -> None:
    async def work(run: RunContext[None]) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            await run.ask("?", **settings)

    with ScriptedModel("done") as model:
        await play(model, Prepares(work))


async def test_a_tool_asks_a_model_and_its_draft_names_the_call(play: Play) -> None:
    @tool(effect="idempotent")
    async def poem(topic: str, context: ToolContext) -> str:
        """Write a poem."""
        return await context.ask(f"A poem about {topic}", system="poet", audience="draft")

    with ScriptedModel(
        [call("poem", topic="tea"), call("poem", topic="rain")],
        "ok",
        scripts={"poet": [lambda r: r.messages[0].text + "!", lambda r: r.messages[0].text + "!"]},
    ) as model:
        seen = await play(model, tools=[poem])
    drafts: dict[str, str] = {}
    for event in seen.of(TextDelta):
        if event.audience == "draft":
            drafts[event.call_id] = drafts.get(event.call_id, "") + event.text
    done = {event.call_id: event.content for event in seen.of(ToolDone)}
    assert drafts == done
    assert sorted(done.values()) == ["A poem about rain!", "A poem about tea!"]
    assert len(seen.result.usage) == 4


async def test_a_sub_agents_answer_is_a_draft_at_most(play: Play) -> None:
    class Writer(Prepares):
        name = "writer"

    writer = Writer(lambda run: run.ask("?", audience="answer", system="inner"))
    with ScriptedModel(call("writer", query="x"), "written", "end", scripts={"inner": ["visible"]}) as model:
        seen = await play(model, tools=[delegate(writer, description="Write.")])
    assert [e.audience for e in seen.of(TextDelta) if e.text == "visible"] == ["draft"]


async def test_nothing_is_asked_after_the_run(play: Play) -> None:
    kept: list[RunContext[None]] = []

    async def work(run: RunContext[None]) -> None:
        kept.append(run)

    with ScriptedModel("done") as model:
        await play(model, Prepares(work))
    with pytest.raises(RunStateError, match="the run has ended"):
        await kept[0].ask("?")
    with pytest.raises(RunStateError, match="the run has ended"):
        await kept[0].call("stats")


# -- calls -----------------------------------------------------------------------------------------------------------


async def test_a_hook_calls_a_tool(play: Play) -> None:
    agent = Prepares(lambda run: run.call("stats", {"year": 2025}))
    with ScriptedModel("done") as model:
        seen = await play(model, agent, tools=[stats])
    assert agent.found.content == "2025: 12"
    assert [event.arguments for event in seen.of(ToolStarted)] == ['{"year": 2025}']
    assert [event.content for event in seen.of(ToolDone)] == ["2025: 12"]
    assert seen.result.tool_calls == {"agent": 1}
    assert [m.role for m in seen.result.messages] == ["user", "assistant"], "the conversation contains no call"


async def test_a_tool_calls_a_tool(play: Play) -> None:
    @tool(effect="read")
    async def both(context: ToolContext) -> str:
        """Compare two years."""
        found = await asyncio.gather(*(context.call("stats", {"year": year}) for year in (2024, 2025)))
        return " and ".join([result.content for result in found])

    with ScriptedModel(call("both"), "ok") as model:
        seen = await play(model, tools=[stats, both])
    assert [m.content for m in seen.result.messages if m.role == "tool"] == ["2024: 12 and 2025: 12"]
    assert seen.result.tool_calls == {"agent": 3}


@tool(effect="read")
async def fails() -> str:
    """Fail."""
    raise ToolError("out of paper")


@tool(effect="read", timeout=0.01)
async def hangs() -> str:
    """Hang."""
    await asyncio.Event().wait()
    return ""


@tool(remote=True)
async def outside() -> str:
    """Wait for the world."""
    raise AssertionError("it must not run")


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("stats", {"year": "next"}, "year: Input should be a valid integer"),
        ("stats", {}, "year: Field required"),
        ("status", {}, "there is no tool of this name"),
        ("fails", {}, "out of paper"),
        ("hangs", {}, "no result within the time limit"),
        ("outside", {}, "refused: it needs a result from outside"),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
async def test_a_failing_call_raises_what_the_model_would_read(
    play: Play, stored: bool, name: str, arguments: Any, problem: str
) -> None:
    async def work(run: RunContext[None]) -> str:
        with pytest.raises(ToolError, match=problem):
            await run.call(name, arguments)
        return "caught"

    agent = Prepares(work)
    with ScriptedModel("done") as model:
        store = MemoryStore() if stored else None
        await play(model, agent, tools=[stats, fails, hangs, outside], store=store)
    assert agent.found == "caught"


@pytest.mark.parametrize(
    ("decision", "problem"), [(Deny("not today"), "not allowed: not today"), (Ask(), "refused: it needs an approval")]
)
async def test_a_call_is_authorized_and_cannot_wait(play: Play, decision: Any, problem: str) -> None:
    class Guarded(Prepares):
        def authorize_tool_call(
            self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]
        ) -> Allow | Deny | Ask:
            assert arguments == {"year": 2025}
            decided: Allow | Deny | Ask = decision
            return decided

    async def work(run: RunContext[None]) -> str:
        with pytest.raises(ToolError, match=problem):
            await run.call("stats", {"year": 2025})
        return "caught"

    agent = Guarded(work)
    with ScriptedModel("done") as model:
        seen = await play(model, agent, tools=[stats], store=MemoryStore())
    assert agent.found == "caught"
    assert len(seen.of(ToolFailed)) == 1
    assert seen.result.status == "completed"


async def test_an_error_that_a_hook_does_not_catch_names_the_hook(play: Play) -> None:
    with ScriptedModel() as model:
        orchestrator = ToolOrchestrator(
            Chat("hi", model=model), Prepares(lambda run: run.call("fails")), ToolRegistry([fails])
        )
        with pytest.raises(RunError, match="hook prepare of agent 'agent' raised ToolError: out of paper") as failed:
            await orchestrator.run()
    assert isinstance(failed.value.__cause__, HookError)


# -- the built-in tools that write ----------------------------------------------------------------------------------


class Shelf:
    """A library with one page."""

    name = "shelf"
    kind: Literal["documents", "web"] = "documents"
    source = Source(id=source_id("tea.md"), title="Tea", location="tea.md")

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """See the port."""
        return [Hit(source=self.source, snippet="80 degrees", score=1.0)]

    async def open(self, location: str) -> Page:
        """See the port."""
        return Page(source=self.source, text="80 degrees")

    async def close(self) -> None:
        """See the port."""


async def test_craft_streams_a_models_text_and_books_it(play: Play) -> None:
    writer = ScriptedModel(
        Answer(text="Steep for three minutes.", tokens=Tokens(prompt=20, completion=5)), name="writer"
    )
    with ScriptedModel(call("craft", title="tea.md", instructions="How to brew tea"), "There it is.") as model:
        seen = await play(model, tools=[craft("scripted:writer")], models=lambda _: writer)
    (done,) = seen.of(ToolDone)
    assert done.content == done.data["content"] == "Steep for three minutes."
    drafts = [event for event in seen.of(TextDelta) if event.audience == "draft"]
    assert "".join([event.text for event in drafts]) == done.content
    assert {event.call_id for event in drafts} == {done.call_id}
    assert "How to brew tea" in writer.requests[0].messages[0].text
    assert [(r.model, r.tokens.total) for r in seen.result.usage if r.model == "writer"] == [("writer", 25)]
    assert seen.result.text == "There it is."


@pytest.mark.parametrize(
    ("arguments", "written", "problem"),
    [({}, [], "`content` is empty"), ({"instructions": "x"}, [Answer(text=" ")], "the writer's text is empty")],
)
async def test_an_empty_craft_is_an_error(play: Play, arguments: Any, written: list[Any], problem: str) -> None:
    with ScriptedModel(call("craft", title="t", **arguments), *written, "sorry") as model:
        seen = await play(model, tools=[craft()])
    assert problem in seen.of(ToolFailed)[0].error


async def test_the_report_is_written_from_findings(play: Play) -> None:
    library = Shelf()
    tools = ResearchTools(library)
    text = f"Brew at 80 degrees [{library.source.id}]."
    with ScriptedModel(
        call(tools.search().name, query="tea"),
        call("report_generation", title="Tea", findings=f"80 degrees [{library.source.id}]"),
        "done",
        scripts={"Write a report": [text]},
    ) as model:
        seen = await play(model, tools=[tools.search(), tools.report()])
    report = seen.result.data["report_generation"]
    assert report["report"].startswith("# Tea\n\nBrew at 80 degrees [S1].\n\n## Sources")
    assert report["unknown_citations"] == []
    drafts = "".join([event.text for event in seen.of(TextDelta) if event.audience == "draft"])
    assert drafts == text
    assert len(seen.result.usage) == 4
