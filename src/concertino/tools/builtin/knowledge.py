"""Tools over documents of the product: the files that a user attached, and chatbots with their knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

from pydantic import Field

from ...records import record
from ..base import Tool, ToolContext, ToolResult
from ..function import tool
from ..library import Hit
from .backend import Backend, PerCall

_PASSAGES = 6


class Passages(Protocol):
    """The part of a `Library` that `rag` uses."""

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """Return the best matches for *query*, best first; see `Library.search`."""
        ...


@record
class Chatbot:
    """A chatbot of the product, which the user may choose (`Chat(chatbot_id=...)`)."""

    name: str
    instructions: str
    """How the assistant answers as this chatbot."""
    knowledge: Passages | None = None
    """Its knowledge base; `open_documents` keeps one in a file."""


def rag(*libraries: Passages | PerCall[Passages] | None) -> Tool:
    """Return the tool `rag`, which finds passages in *libraries*.

    Each is a library, such as one of `concertino.tools.documents.open_documents`, or a function that returns the
    library of one call: the files of its user. Raises `ConfigurationError` without a library.
    """
    remedy = "a Library: open_documents([folder])"
    backends: list[Backend[Passages]] = [Backend("rag", given, "search", remedy) for given in libraries or (None,)]
    share = -(-_PASSAGES // len(backends))

    @tool(name="rag", selection_rule="when the answer may be in the files that the user attached", effect="read")
    async def search_attachments(
        query: Annotated[str, Field(description="Text to search for")], context: ToolContext
    ) -> ToolResult:
        """Search the files that the user attached."""
        found: list[Sequence[Hit]] = []
        with context.progress.begin("Reading your files", "file"):
            for backend in backends:
                found.append(await (await backend.of(context)).search(query, share))
        hits = [hit for each in found for hit in each]
        sources = {hit.source.id: {"title": hit.source.title, "location": hit.source.location} for hit in hits}
        return ToolResult("\n\n".join(map(_passage, hits)) or "no passage matches", data=sources)

    return search_attachments


def chatbot(bot: Chatbot | PerCall[Chatbot] | None) -> Tool:
    """Return the tool `chatbot`, which tells the model how to answer as *bot*.

    *bot* may be a function that returns the chatbot of one call. A `MainThreadAgent` forces `rag` after a call
    that asks for the knowledge base. Raises `ConfigurationError` if *bot* is None.
    """
    backend: Backend[Chatbot] = Backend("chatbot", bot, "instructions", "a Chatbot")

    @tool(name="chatbot", selection_rule="when the user addresses a chatbot of the product", effect="read")
    async def ask_chatbot(
        context: ToolContext,
        should_use_knowledge_base: Annotated[bool, Field(description="True if the chatbot's files are needed")] = False,
    ) -> str:
        """Learn how the chatbot that the user has chosen answers."""
        found = await backend.of(context)
        also = ". Search its files with `rag` now" if should_use_knowledge_base else ""
        return f"Answer as {found.name}{also}. Its instructions:\n{found.instructions}"

    return ask_chatbot


def knowledge_of(bot: Chatbot | PerCall[Chatbot] | None) -> Passages | PerCall[Passages] | None:
    """Return the knowledge base of *bot* as a library for `rag`; None if it certainly has none."""
    if bot is None or isinstance(bot, Chatbot):
        return None if bot is None else bot.knowledge

    backend: Backend[Chatbot] = Backend("chatbot", bot, "instructions", "a Chatbot")

    async def of_call(context: ToolContext) -> Passages:
        return (await backend.of(context)).knowledge or _NoDocuments()

    return of_call


class _NoDocuments:
    """The library of a chatbot without a knowledge base."""

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        return ()


def _passage(hit: Hit) -> str:
    path = " > ".join((hit.source.location, *hit.headings))
    return f"[{hit.source.id}] {' '.join(f'{hit.source.title} ({path})'.split())}\n{hit.snippet}"
