"""The research supervisor on a small budget: what was found is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from concertino import (
    AgentConfig,
    Budget,
    Chat,
    Limits,
    MemoryStore,
    ModelRequest,
    Resources,
    Tokens,
    ToolOrchestrator,
    ToolRegistry,
)
from concertino.agents import DeepResearchSupervisor, delegate
from concertino.testing import Answer, ScriptedModel, call
from concertino.tools import Hit, Page, Source
from concertino.tools.builtin import ResearchTools
from concertino.usage import total
from concertino.wiring import research_team


class Shelf:
    """A library of one page."""

    name = "a shelf"
    kind: Literal["documents"] = "documents"
    source = Source(id="s0000000001", title="Tea", location="tea.md")

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        return [Hit(source=self.source, snippet="Tea is brewed at 80 degrees.", score=1.0)]

    async def open(self, location: str) -> Page:
        return Page(source=self.source, text="Tea is brewed at 80 degrees.")

    async def close(self) -> None:
        """Nothing to close."""


class Researcher(AgentConfig[None]):
    name = "researcher"
    prompt = "You are a researcher."
    tools = (ResearchTools(Shelf()).search(),)


def few(scope: object, model: object, agent: object) -> Limits:
    return Limits(output=200)


def researcher(request: ModelRequest) -> Any:
    """Search once, then answer."""
    found = any(m.role == "tool" for m in request.messages)
    calls = () if found else (call("search_documents", query="tea"),)
    return Answer(text="Tea: 80 degrees." if found else "", calls=calls, tokens=Tokens(prompt=150, completion=40))


def supervisor(request: ModelRequest) -> Any:
    """Send out two researchers, then two again, without end."""
    turn = tuple(call("researcher", query=f"q{n}") for n in range(2))
    return Answer(calls=turn, tokens=Tokens(prompt=400, completion=100))


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        (300, "The research ended without a report and without findings."),
        (3_500, "Tea: 80 degrees.\n\nTea: 80 degrees."),
        (2_400, "Tea: 80 degrees."),
    ],
)
async def test_it_ends_with_what_was_found(tokens: int, says: str) -> None:
    tools = [delegate(Researcher(), description="A researcher."), research_team(Shelf())[1]]
    model = ScriptedModel(*[supervisor] * 9, scripts={"You are a researcher": [researcher] * 99})
    chat = Chat(model=model, message="Tea?", budget=Budget(tokens=tokens))
    result = await ToolOrchestrator(
        chat, DeepResearchSupervisor(), ToolRegistry(tools), resources=Resources(store=MemoryStore(), limits=few)
    ).run()
    assert (result.status, result.text[: len(says)]) == ("completed", says)
    assert total(result.usage).tokens.total <= tokens
