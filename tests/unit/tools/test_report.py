"""The report tool numbers, checks and lists citations, and changes nothing else in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from concertino import AgentConfig, Chat, ToolOrchestrator, ToolRegistry
from concertino.errors import LibraryError
from concertino.testing import ScriptedModel, call
from concertino.tools.builtin.research import ResearchTools
from concertino.tools.library import Hit, Page, Source, source_id

TEA, CAKE = source_id("tea.md"), source_id("cake.md")


class Shelf:
    """Two pages."""

    name = "a shelf"
    kind: Literal["documents"] = "documents"

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """Nothing."""
        return ()

    async def open(self, location: str) -> Page:
        """One of them."""
        for name in ("tea.md", "cake.md"):
            if location in (name, source_id(name)):
                return Page(source=Source(id=source_id(name), title=name[:-3], location=name), text="text")
        raise LibraryError(f"no {location}")

    async def close(self) -> None:
        """Nothing to release."""


async def report(markdown: str) -> dict[str, Any]:
    """Return the result of the tool for *markdown*."""
    registry = ToolRegistry([ResearchTools(Shelf()).report()])
    model = ScriptedModel(call("report_generation", title="", markdown=markdown), "done")
    result = await ToolOrchestrator(Chat(model=model, message="go"), AgentConfig(), registry).run()
    made: dict[str, Any] = result.data["report_generation"]
    return made


@pytest.mark.parametrize(
    "text",
    [
        "Put it into a file called .env, then run `cd .`",
        "```\na = 1   \nb ;  ,\n```",
        "one line  \nand its hard break",
        "## References and further reading\n\nkept",
    ],
)
async def test_a_text_without_citations_is_unchanged(text: str) -> None:
    assert (await report(text))["report"] == text + "\n"


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        (f"Hot [{TEA}].", "Hot [S1]."),
        (f"Hot [{TEA}, {CAKE}; {TEA}] and sweet[{CAKE}]", "Hot [S1][S2] and sweet[S2]"),
        (f"Hot [s0000000000], cold [s0000000000, {TEA}] [s0000000000].", "Hot, cold [S1]."),
        (f"[[{TEA}]] and `[{TEA}]` and [S7]", "[[S1]] and `[S1]` and (S7)"),
    ],
)
async def test_citations_are_numbered(markdown: str, text: str) -> None:
    assert (await report(markdown))["report"].startswith(text + "\n\n## Sources\n\n- [S1] tea — tea.md\n")


@pytest.mark.parametrize("ending", ["- [S1] somewhere", f"[{CAKE}] cake\n\n[{CAKE}] again", "", "\r\n- x\r"])
async def test_the_list_of_sources_replaces_one_by_the_model(ending: str) -> None:
    made = await report(f"Hot [{TEA}].\n\n## Sources\n{ending}")
    assert made["report"] == "Hot [S1].\n\n## Sources\n\n- [S1] tea — tea.md\n"
    assert [source["title"] for source in made["sources"]] == ["tea"]


async def test_text_after_a_list_of_sources_is_kept() -> None:
    made = await report(f"# Tea\n\nHot [{TEA}].\n\n## References\n\n- a book\n\n# Cake\n\nSweet [{CAKE}].")
    assert "# Cake\n\nSweet [S2]." in made["report"]


async def test_a_repeated_citation_is_listed_once() -> None:
    made = await report(f"[{TEA}] " * 100)
    assert made["report"].count("[S1]") == 101
    assert len(made["sources"]) == 1
