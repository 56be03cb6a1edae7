"""Search, fetch, search history and report: what a researcher works with, over one `Library`."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import Field

from ...errors import LibraryError, ToolError
from ..base import Tool, ToolContext, ToolResult
from ..function import tool
from ..library import Library, Source

_CITATION = re.compile(r"( *)\[(s[0-9a-f]{10}(?:\s*[,;]\s*s[0-9a-f]{10})*)\]")
_LOOKS_CITED = re.compile(r"\[(S\d+)\]")
_SOURCES_HEADING = re.compile(r"\n#+ *(?:sources|references)[ \t\r]*(?:\n(?!#+ ).*)*\Z", re.IGNORECASE)
"""The list of sources that a model adds all the same: it goes to the end of the text, with no other heading in it."""


class ResearchTools:
    """The tools of one research run. They share what was searched and which sources were seen."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._sources: dict[str, Source] = {}
        self._searches: list[dict[str, Any]] = []

    def search(self) -> Tool:
        """`web_search`: the best matches of the library, with the ids to cite them by."""

        @tool(
            name="web_search",
            selection_rule="to find sources; ask with keywords, several different queries in one turn",
            timeout=30,
            effect="read",
        )
        async def web_search(
            query: Annotated[str, Field(description="Keywords, as for a search engine")],
            context: ToolContext,
            limit: Annotated[int, Field(ge=1, le=20, description="How many results")] = 8,
        ) -> ToolResult:
            """Search the sources. Gives titles, locations, matching passages and the ids to cite them by."""
            with context.progress.begin("Searching", "search") as step:
                step.send(query)
                try:
                    hits = await self._library.search(query, limit)
                except LibraryError as error:
                    raise ToolError(str(error)) from error
                step.send(f"{len(hits)} results")
            self._searches.append({"query": query, "results": len(hits), "by": context.agent_path})
            results = [{**self._seen(hit.source), "snippet": hit.snippet} for hit in hits]
            found = {"query": query, "searched": self._library.name, "results": results}
            text = json.dumps(found, ensure_ascii=False)
            return ToolResult(text, summary=f"searched {query!r}: {len(hits)} results")

        return web_search

    def fetch(self) -> Tool:
        """`fetch_page`: one page of the library, whole."""

        @tool(
            name="fetch_page",
            selection_rule="to read a page that a search has found, before you cite it",
            timeout=45,
            effect="read",
        )
        async def fetch_page(
            location: Annotated[str, Field(description="A location or a source id from the search results, or a URL")],
            context: ToolContext,
        ) -> ToolResult:
            """Read one page. Its first line gives the id to cite it by."""
            with context.progress.begin("Reading", "page") as step:
                step.send(location)
                try:
                    page = await self._library.open(location)
                except LibraryError as error:
                    raise ToolError(str(error)) from error
            source = self._seen(page.source)
            text = f"[{source['id']}] {source['title']}\n{source['location']}\n\n{page.text}"
            return ToolResult(text, data=source, summary=f"read {source['title']} ({source['location']})")

        return fetch_page

    def history(self) -> Tool:
        """`search_history`: what was searched before in this run, by any agent."""

        @tool(
            name="search_history",
            counts_as_iteration=False,
            selection_rule="before a search that may repeat one",
            effect="read",
        )
        async def search_history() -> list[dict[str, Any]]:
            """The searches made so far in this research, by all researchers."""
            return self._searches

        return search_history

    def report(self) -> Tool:
        """`report_generation`: the finished report, with its citations checked and its list of sources."""

        @tool(
            name="report_generation",
            shown=True,
            effect="idempotent",
            counts_as_iteration=False,
            selection_rule="once, when the research is done: the user reads what you pass to it",
        )
        async def report_generation(
            title: Annotated[str, Field(description="The report's title, a line")],
            markdown: Annotated[
                str, Field(description="The report in Markdown, with citations like [s0123456789]; no list of sources")
            ],
            context: ToolContext,
        ) -> ToolResult:
            """Hand the report to the user. The list of sources is made from its citations."""
            if not markdown.strip():
                raise ToolError("the report is empty; write it in `markdown`")
            with context.progress.begin("Writing the report", "report"):
                text, sources, unknown = await self._cited(markdown)
            heading = f"# {' '.join(title.split())}\n\n" if title.strip() else ""
            data = {"report": heading + text, "sources": sources, "unknown_citations": unknown}
            return ToolResult(heading + text, data=data)

        return report_generation

    def _seen(self, source: Source) -> dict[str, str]:
        self._sources[source.id] = source
        return {"id": source.id, "title": source.title, "location": source.location}

    async def _cited(self, markdown: str) -> tuple[str, list[dict[str, str]], list[str]]:
        """The text with its citations numbered in the order of first use, the sources, and the ids nobody knows."""
        body = _SOURCES_HEADING.sub("", "\n" + markdown).strip()
        body = _LOOKS_CITED.sub(r"(\1)", body)  # what looks like a citation in the list below must be one
        cited = [id for match in _CITATION.finditer(body) for id in re.findall(r"s[0-9a-f]{10}", match[2])]
        numbers: dict[str, str] = {}
        sources: list[dict[str, str]] = []
        unknown: list[str] = []
        for id in dict.fromkeys(cited):
            source = await self._source(id)
            if source is None:
                unknown.append(id)
                continue
            numbers[id] = f"S{len(numbers) + 1}"
            sources.append({"id": numbers[id], "title": source.title, "location": source.location})

        def renumber(match: re.Match[str]) -> str:
            ids = re.findall(r"s[0-9a-f]{10}", match[2])
            known = "".join(f"[{numbers[id]}]" for id in dict.fromkeys(ids) if id in numbers)
            return match[1] + known if known else ""

        text = _CITATION.sub(renumber, body)
        if sources:
            listed = "\n".join(f"- [{s['id']}] {s['title']} — {s['location']}" for s in sources)
            text += f"\n\n## Sources\n\n{listed}"
        return text + "\n", sources, unknown

    async def _source(self, id: str) -> Source | None:
        """A source that was seen in this run; else the library may still know it."""
        if id not in self._sources:
            try:
                self._sources[id] = (await self._library.open(id)).source
            except LibraryError:
                return None
        return self._sources[id]
