"""The demo model: what it searches, quotes and reports, and what it never claims."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino import AgentConfig, Chat, RunResult, ToolOrchestrator, ToolRegistry
from concertino.agents import DeepResearchSupervisor
from concertino.demo import DemoModel
from concertino.demo.questions import parts, queries
from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Message,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers.base import ModelEvent, ModelRequest, Reply, TextChunk
from concertino.tools.builtin.research import ResearchTools
from concertino.tools.documents import DocumentLibrary, open_documents
from concertino.wiring import research_team

MANUAL = {
    "boiling.md": """# Boiling

## How to boil water

Call `kettle.boil` with the cups:

```python
kettle.boil(2)
```

The whistle sounds when it is ready.

## Errors

Boiling without water raises `DryKettleError`; fill it again.
""",
    "pots.md": "# Teapot\n\nA teapot brews tea from hot water. It never heats anything.\n",
    "kettle.md": "# Kettle\n\nA kettle heats water. It never brews anything.\n",
}


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[DocumentLibrary]:
    for name, text in MANUAL.items():
        (tmp_path / name).write_text(text)
    library = await open_documents([tmp_path], cache_dir=tmp_path / ".cache")
    yield library
    await library.close()


def count(text: str) -> int:
    return len(text.split())


async def report(library: DocumentLibrary, question: str) -> str:
    chat = Chat(model=DemoModel(count), message=question)
    registry = ToolRegistry(research_team(library))
    result = await ToolOrchestrator(chat, DeepResearchSupervisor(), registry).run()
    assert result.status == "completed"
    return result.text


async def chat(library: DocumentLibrary, message: str, history: Sequence[Message] = ()) -> RunResult:
    tools = ResearchTools(library)
    chat = Chat(model=DemoModel(count), message=message, history=tuple(history))
    return await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([tools.search(), tools.fetch()])).run()


async def test_a_report_quotes_whole_blocks_under_their_headings(library: DocumentLibrary) -> None:
    text = await report(library, "How do I boil water?")
    assert "No language model was involved" in text
    assert (
        "### Boiling \u203a How to boil water [S1]\n\nCall `kettle.boil` with the cups:\n\n"
        "```python\nkettle.boil(2)\n```\n\nThe whistle sounds when it is ready." in text
    )
    assert "- [S1] Boiling — " in text


async def test_each_part_of_a_question_has_its_section(library: DocumentLibrary) -> None:
    text = await report(library, "How do I boil water, and what does it raise without water?")
    assert text.index("## How do I boil water\n") < text.index("## What does it raise without water?\n")
    assert text.count("kettle.boil(2)") == text.count("`DryKettleError`") == 1


async def test_a_comparison_has_both_sides(library: DocumentLibrary) -> None:
    text = await report(library, "What is the difference between a kettle and a teapot?")
    assert "A kettle heats water." in text
    assert "A teapot brews tea" in text


async def test_a_weak_match_shows_the_closest_passages_and_claims_nothing(library: DocumentLibrary) -> None:
    text = await report(library, "How do elephants migrate over water in Africa?")
    assert "The match is weak" in text
    assert "no model has judged" in text
    assert "### " in text
    strong = await report(library, "How do I boil water?")
    assert "match is weak" not in strong
    for one in (text, strong):
        assert "not answer" not in one.replace("whether they answer", "")


async def test_only_the_entries_of_release_notes_that_match_are_quoted(tmp_path: Path) -> None:
    entries = "- The handle is longer.\n- `Lid.lock` was introduced.\n- The spout is shorter.\n- The base is wider.\n"
    (tmp_path / "changes.md").write_text(f"# Changes\n\n## 2.1 (2024-05-01)\n\n{entries}")
    library = await open_documents([tmp_path], cache_dir=tmp_path / ".cache")
    text = await report(library, "In which version was Lid.lock introduced?")
    await library.close()
    assert "(version 2.1, 2024-05-01)" in text
    assert "- `Lid.lock` was introduced.\n\n[…]" in text
    assert "spout" not in text


async def test_nothing_found_is_reported_as_such(library: DocumentLibrary) -> None:
    assert "No passage contains a word of this question" in await report(library, "Why xylophone?")


async def test_chat_quotes_cites_and_follows_up(library: DocumentLibrary) -> None:
    first = await chat(library, "What does boiling without water raise?")
    assert "DryKettleError" in first.text
    assert sum(first.tool_calls.values()) >= 2
    second = await chat(library, "And how do I fix it?", first.messages)
    assert "fill it again" in second.text


@pytest.mark.parametrize("message", ["?", "hm", "...", "🫖"])
async def test_without_a_question_it_asks_for_one(library: DocumentLibrary, message: str) -> None:
    found = await chat(library, message)
    assert "Ask a question" in found.text or "No passage" in found.text


SEARCH = ToolSpec("web_search", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
OTHER = ToolSpec("send", "Send.", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


def request(
    messages: Sequence[Message], tools: tuple[ToolSpec, ...] = (), choice: ToolChoice = "auto", limit: int | None = None
) -> ModelRequest:
    return ModelRequest(
        model="quotes", system="Be kind.", messages=messages, tools=tools, tool_choice=choice, max_output_tokens=limit
    )


async def events(request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in DemoModel(count).stream(request)]


async def reply(request: ModelRequest) -> Reply:
    *_, last = await events(request)
    assert isinstance(last, Reply)
    return last


def searched(query: str, results: list[dict[str, str]]) -> list[Message]:
    call = ToolCall("c1", "web_search", json.dumps({"query": query}))
    return [
        UserMessage(query),
        AssistantMessage((call,)),
        ToolMessage("c1", "web_search", json.dumps({"results": results})),
    ]


PAGE = {
    "id": "s0123456789abcdef0123456789abcdef",
    "title": "Tea",
    "location": "https://tea.example",
    "snippet": "Tea is hot.",
}


async def test_web_results_are_quoted_without_a_stated_coverage() -> None:
    answer = await reply(request(searched("Is tea hot?", [PAGE]), (SEARCH,)))
    assert "### Tea [s0123456789abcdef0123456789abcdef]\n\nTea is hot." in answer.message.text


REMEMBER = ToolSpec("store_memory", "Store.", {"type": "object", "properties": {"text": {"type": "string"}}})


async def test_it_remembers_what_the_user_asks_it_to() -> None:
    asked = UserMessage("Please remember that I like tea.")
    first = await reply(request([asked], (SEARCH, REMEMBER)))
    (made,) = first.message.tool_calls
    assert (made.name, json.loads(made.arguments)) == ("store_memory", {"text": "I like tea."})
    for is_error, said in ((False, "I will remember this: I like tea."), (True, "I did not store this: I like tea.")):
        result = ToolMessage(made.id, "store_memory", "ok", is_error=is_error)
        answered = await reply(request([asked, first.message, result], (SEARCH, REMEMBER)))
        assert answered.message.text == said
    (made,) = (await reply(request([asked], (SEARCH,)))).message.tool_calls
    assert made.name == "web_search"


async def test_it_obeys_the_tool_choice() -> None:
    question: list[Message] = [UserMessage("Is tea hot?")]
    forced = await reply(request(question, (SEARCH, OTHER), ForcedTool("send")))
    assert [(call.name, call.arguments) for call in forced.message.tool_calls] == [("send", '{"n": 1}')]
    assert (await reply(request(question, (OTHER,), "required"))).message.tool_calls
    assert not (await reply(request(question, (SEARCH,), "none"))).message.tool_calls
    assert (await reply(request(question, (SEARCH,)))).message.tool_calls[0].name == "web_search"


async def test_text_is_streamed_and_usage_counted() -> None:
    messages = searched("Is tea hot?", [PAGE])
    found = await events(request(messages, (SEARCH,)))
    pieces = [event.text for event in found if isinstance(event, TextChunk)]
    last = found[-1]
    assert isinstance(last, Reply)
    assert len(pieces) > 1
    assert "".join(pieces) == last.message.text
    assert last.tokens is not None
    assert last.tokens.completion == count(last.message.text)
    assert last.tokens.prompt > count("Be kind. Is tea hot?")


async def test_a_limit_on_the_output_keeps_whole_paragraphs() -> None:
    messages = searched("Is tea hot?", [PAGE | {"snippet": "Tea is hot.\n\n" * 40}])
    answer = await reply(request(messages, (SEARCH,), limit=30))
    assert answer.message.stop_reason == "length"
    assert answer.message.text.endswith("\n\n")
    assert count(answer.message.text) <= 30


async def test_the_same_request_gives_the_same_events() -> None:
    for messages in ([UserMessage("Is tea hot, and why?")], searched("Is tea hot?", [PAGE])):
        assert await events(request(messages, (SEARCH,))) == await events(request(messages, (SEARCH,)))


@pytest.mark.parametrize("content", ["", "no JSON", '{"results": [{"id": "s01', '{"results": 7}', "[1]", "{" * 5_000])
async def test_odd_results_are_survived(content: str) -> None:
    call = ToolCall("c1", "web_search", '{"query": "Is tea hot?"}')
    messages: list[Message] = [UserMessage("Is tea hot?"), AssistantMessage((call,))]
    messages.append(ToolMessage("c1", "web_search", content))
    assert (await reply(request(messages, (SEARCH,)))).message.text


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("How do I boil water?", ["How do I boil water?"]),
        ("What is a kettle? Why does it whistle?", ["What is a kettle?", "Why does it whistle? (about: kettle)"]),
        ("How is tea brewed and what does it cost?", ["How is tea brewed", "what does it cost? (about: tea brewed)"]),
        ("salt and pepper", ["salt and pepper"]),
        (
            "When should I use tea and when coffee?",
            ["When should I use tea (about: coffee)", "when coffee? (about: tea)"],
        ),
        (
            "Why was `kettle.cool` added, and which alternatives were rejected?",
            ["Why was `kettle.cool` added", "which alternatives were rejected? (about: kettle.cool)"],
        ),
        ("?", []),
    ],
)
def test_questions_are_divided_into_parts(question: str, found: list[str]) -> None:
    assert parts(question) == found


def test_names_and_sides_are_searched_on_their_own() -> None:
    assert queries("difference between the kettle and a teapot") == [
        "difference between the kettle and a teapot", "kettle", "teapot",
    ]  # fmt: skip
    assert queries("What does asyncio.gather return?") == ["What does asyncio.gather return?", "asyncio.gather"]
    assert queries("boil water") == ["boil water"]


@given(st.text(max_size=300))
def test_any_question_has_parts_and_queries(question: str) -> None:
    for part in parts(question, [question]):
        assert part
        assert queries(part)[0] == part


@pytest.mark.parametrize("text", ["compare ", "between a and ", " vs ", "a ", "?", ", and what "])
def test_long_odd_questions_are_divided_in_linear_time(text: str) -> None:
    for part in parts(text * (200_000 // len(text))):
        queries(part)
