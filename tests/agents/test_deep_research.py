"""The supervisor and its researchers, over a small library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from concertino import OPERATOR, Chat, MemoryStore, Resources, RunResult, Scope, ToolOrchestrator, ToolRegistry
from concertino.agents import DeepResearchSupervisor
from concertino.errors import LibraryError
from concertino.messages import ForcedTool, SystemMessage, ToolMessage
from concertino.testing import ScriptedModel, call
from concertino.tools import Hit, Page, Source, source_id
from concertino.tools.builtin import feedback_questions
from concertino.wiring import research_team

TEA = source_id("tea.md")
PAGES = {"tea.md": "Tea is brewed at 80 degrees.", "coffee.md": "Coffee is brewed at 95 degrees."}


class Shelf:
    """A library of two pages."""

    name = "a shelf"
    kind: Literal["documents"] = "documents"

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        return [
            Hit(source=_source(place), snippet=text, score=1.0)
            for place, text in PAGES.items()
            if any(word in text.lower() for word in query.lower().split())
        ][:limit]

    async def open(self, location: str) -> Page:
        for place, text in PAGES.items():
            if location in (place, source_id(place)):
                return Page(source=_source(place), text=text)
        raise LibraryError(f"{location}: there is no such page")

    async def close(self) -> None:
        """Nothing to close."""


def _source(place: str) -> Source:
    return Source(id=source_id(place), title=place.removesuffix(".md").title(), location=place)


async def research(model: ScriptedModel, **settings: Any) -> RunResult:
    agent = settings.pop("agent", None) or DeepResearchSupervisor()
    limit = settings.pop("tool_call_limit", None)
    tools = [*research_team(Shelf()), *settings.pop("tools", ())]
    chat = Chat("Tea or coffee?", model=model)
    resources = Resources(**settings)
    registry = ToolRegistry(tools)
    return await ToolOrchestrator(chat, agent, registry, resources=resources, tool_call_limit=limit).run()


RESEARCHER = [
    [call("search_documents", query="tea"), call("search_history")],
    call("read_document", location=TEA),
    f"Tea is brewed at 80 degrees. [{TEA}]",
]
REPORT = call("report_generation", title="Tea", markdown=f"Brew at 80 degrees [{TEA}].")


async def test_a_report_with_its_sources_is_the_answer() -> None:
    scripts = {"You are a researcher": RESEARCHER}
    with ScriptedModel(call("researcher", query="How hot is tea?"), REPORT, scripts=scripts) as model:
        result = await research(model)
    assert result.text == "# Tea\n\nBrew at 80 degrees [S1].\n\n## Sources\n\n- [S1] Tea — tea.md\n"
    assert result.data["report_generation"]["sources"] == [{"id": "S1", "title": "Tea", "location": "tea.md"}]
    assert result.tool_calls == {"supervisor": 2, "supervisor/researcher-1": 3}


async def test_researches_of_one_user_share_nothing() -> None:
    tools, ann = ToolRegistry(research_team(Shelf())), Scope("acme", "ann")
    for _ in range(2):
        scripts = {"You are a researcher": list(RESEARCHER)}
        with ScriptedModel(call("researcher", query="How hot is tea?"), REPORT, scripts=scripts) as model:
            await ToolOrchestrator(Chat("Tea?", model=model, scope=ann), DeepResearchSupervisor(), tools).run()
        (history,) = [
            message.content
            for request in model.requests
            for message in request.messages[-2:]
            if isinstance(message, ToolMessage) and message.name == "search_history"
        ]
        assert [search["query"] for search in json.loads(history)] == ["tea"]


async def test_only_the_three_research_tools_are_stored() -> None:
    store = MemoryStore()
    scripts = {"You are a researcher": RESEARCHER}
    with ScriptedModel(call("researcher", query="How hot is tea?"), REPORT, scripts=scripts) as model:
        result = await research(model, store=store)
    child, parent = await store.runs(OPERATOR, root_id=result.run_id)
    assert {
        m.message.name for m in await store.messages(OPERATOR, parent.start.run_id) if m.message.role == "tool"
    } == {
        "researcher",
        "report_generation",
    }
    stored = await store.messages(OPERATOR, child.start.run_id)
    assert {m.message.name for m in stored if m.message.role == "tool"} == {"search_documents", "read_document"}
    search = next(m for m in stored if m.message.role == "tool")
    assert json.loads(search.message.content)["results"][0]["id"] == TEA, "research agents keep the whole result"
    assert search.progress[0]["parts"] == ["tea", "1 results"]


async def test_citations_are_numbered_checked_and_listed_once() -> None:
    coffee = source_id("coffee.md")
    text = f"B [{coffee}]. T [{TEA}, {coffee}]. None [s0000000000]. Not [S9].\n\n## Sources\n- mine"
    with ScriptedModel(call("report_generation", title="", markdown=text)) as model:
        result = await research(model)
    report = result.data["report_generation"]
    assert report["report"].startswith("B [S1]. T [S2][S1]. None. Not (S9).\n\n## Sources\n\n- [S1] Coffee")
    assert "mine" not in report["report"]
    assert report["unknown_citations"] == ["s0000000000"]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"title": "Tea", "markdown": "Hot.',
        "{'title': 'Tea', 'markdown': 'Hot.'}",
        '```json\n{"title": "Tea", "markdown": "Hot."}\n```',
        '{"title": "Tea", "content": "Hot."}',
        "Hot.",
    ],
)
async def test_malformed_report_arguments_are_repaired(arguments: str) -> None:
    with ScriptedModel(call("report_generation", arguments)) as model:
        result = await research(model)
    assert result.status == "completed"
    assert "Hot." in result.text


async def test_a_turn_without_calls_is_retried_on_a_cheaper_model_and_then_forced() -> None:
    cheap = ScriptedModel("no", "no", REPORT, name="cheap")
    with ScriptedModel("I would say tea.", "no") as model, cheap:
        result = await research(
            model, agent=DeepResearchSupervisor(retry_model="scripted:cheap"), models=lambda wanted: cheap
        )
    assert result.text.startswith("# Tea")
    assert cheap.requests[-1].tool_choice == ForcedTool("report_generation")
    assert isinstance(model.requests[1].messages[-1], SystemMessage)


async def test_the_limit_forces_the_report() -> None:
    scripts = {"You are a researcher": ["a", "b"]}
    steps = [call("researcher", query="x"), call("researcher", query="y"), REPORT]
    with ScriptedModel(*steps, scripts=scripts) as model:
        result = await research(model, tool_call_limit=3)
    assert model.requests[-1].tool_choice == ForcedTool("report_generation")
    assert result.text.startswith("# Tea")


async def test_many_calls_in_one_turn_do_not_exceed_the_limit_before_the_report() -> None:
    steps = [[call("researcher", query=f"q{n}") for n in range(6)], REPORT]
    with ScriptedModel(*steps, scripts={"You are a researcher": ["a"] * 3}) as model:
        result = await research(model, tool_call_limit=3)
    assert result.text.startswith("# Tea")
    assert result.tool_calls["supervisor"] == 4, "the other three are answered without running"


async def test_a_supervisor_without_a_report_answers_with_the_findings() -> None:
    scripts = {"You are a researcher": ["Tea is hot."]}
    steps = [call("researcher", query="x"), *[""] * 5]
    result = await research(ScriptedModel(*steps, scripts=scripts))
    assert result.status == "completed"
    assert "Tea is hot." in result.text


async def test_questions_to_the_user_end_the_run() -> None:
    with ScriptedModel(call("feedback_questions", questions=["Which tea?"])) as model:
        result = await research(model, tools=[feedback_questions()])
    assert result.text == "Which tea?"


async def test_the_researcher_reads_the_error_of_a_failed_search() -> None:
    scripts = {"You are a researcher": [call("read_document", location="milk.md"), "Nothing on milk."]}
    with ScriptedModel(call("researcher", query="milk"), REPORT, scripts=scripts) as model:
        await research(model)
    told = next(r for r in model.requests if r.messages[-1].role == "tool")
    assert told.messages[-1].content == "milk.md: there is no such page"


async def test_researchers_at_their_limit_answer_with_tools_declared() -> None:
    searches = [[call("search_documents", query=f"tea {n}") for n in range(8)] for _ in range(2)]
    scripts = {"You are a researcher": [*searches, "80 degrees."]}
    with ScriptedModel(call("researcher", query="tea"), REPORT, scripts=scripts) as model:
        await research(model)
    last = [r for r in model.requests if "You are a researcher" in r.system][-1]
    assert last.tool_choice == "none"
    assert last.tools
