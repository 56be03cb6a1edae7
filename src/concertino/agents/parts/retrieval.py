"""Parts that retrieve information: from documents, or by a team of researchers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import LibraryError
from ...messages import Message, SystemMessage
from ...number_checks import check_whole
from ...orchestrator.agent import Part
from ...orchestrator.run import RunContext
from ...tools.base import Tool
from ...tools.library import Library
from ..agent_tool import delegate
from ..deep_research import DeepResearchSupervisor

_HEADING = "Passages that may answer the user. Cite their ids, such as [s0123456789], for what you take from them."


class Documents(Part):
    """Offers the search and reading tools of a *library*, and adds the best passages to the conversation.

    Before the first step of a run it searches the library for the user's message, and adds up to *retrieve* passages;
    with 0, it only offers the tools.
    """

    def __init__(self, library: Library, retrieve: int = 3) -> None:
        from ...tools.builtin.research import ResearchTools  # noqa: PLC0415 - pydantic is slow to import

        tools = ResearchTools(library)
        self.tools = (tools.search(), tools.fetch())
        self._library = library
        check_whole("Documents", "retrieve", retrieve, 0)
        self._retrieve = retrieve

    async def prepare(self, run: RunContext[Any]) -> Sequence[Message]:
        """Return a message with the best passages for the user's message."""
        try:
            hits = await self._library.search(run.chat.message, self._retrieve) if self._retrieve else ()
        except LibraryError as error:  # the run can do without; the model may try the tools
            return (SystemMessage(f"The documents could not be searched: {error}"),)
        passages = [f"[{hit.source.id}] {hit.source.title} ({hit.source.location})\n{hit.snippet}" for hit in hits]
        return (SystemMessage("\n\n".join([_HEADING, *passages])),) if passages else ()


class Research(Part):
    """Offers the tool `research`: a supervisor with a *team* of tools writes a report.

    `concertino.wiring.research_team(library)` makes the team.
    """

    prompt = (
        "# Research\nCall `research` for questions that need several sources. Give it the complete question: it sees "
        "nothing else. Its report is for you; answer the user from it, with its citations."
    )

    def __init__(self, team: Sequence[Tool]) -> None:
        description = "Research a question in depth, and return a report with sources"
        self.tools = (delegate(DeepResearchSupervisor(), name="research", description=description, tools=team),)
