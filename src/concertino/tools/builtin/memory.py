"""Memory: facts about a user, kept across conversations by a store."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from pydantic import Field

from ...errors import ToolError
from ...scope import Scope
from ..base import Tool, ToolContext
from ..function import tool


class MemoryBackend(Protocol):
    """The part of a store that the memory tools use."""

    async def remember(self, scope: Scope, text: str) -> Any:
        """Store *text* for the user of *scope*, once."""
        ...

    async def recall(self, scope: Scope, query: str, limit: int = 5) -> Any:
        """Return the memories of *scope* that match *query* best; the newest for an empty query."""
        ...


def store_memory(backend: MemoryBackend) -> Tool:
    """Return the tool `store_memory`, which stores a fact about the user."""

    @tool(
        name="store_memory",
        selection_rule="when the user asks you to remember something, or states a lasting preference",
        effect="idempotent",
    )
    async def store(
        text: Annotated[str, Field(description="The fact, in one sentence that stands alone")], context: ToolContext
    ) -> str:
        """Remember a fact about the user for later conversations."""
        if not text.strip():
            raise ToolError("`text` is empty; write the fact to remember there")
        await backend.remember(_owner(context), text.strip())
        return "remembered"

    return store


def retrieve_memory(backend: MemoryBackend) -> Tool:
    """Return the tool `retrieve_memory`, which searches the memories of the user only."""

    @tool(
        name="retrieve_memory",
        selection_rule="when the answer may depend on facts from earlier conversations with the user",
        effect="read",
    )
    async def retrieve(
        context: ToolContext,
        query: Annotated[str, Field(description="Text to search for; empty: the newest memories")] = "",
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> list[str]:
        """Search the facts that are remembered about the user."""
        return [memory.text for memory in await backend.recall(_owner(context), query, limit)]

    return retrieve


def _owner(context: ToolContext) -> Scope:
    """Return the scope whose memories the call may use. Raises `ToolError` if it has no user."""
    if not context.scope.user:
        raise ToolError("nothing can be remembered, because this conversation belongs to no user")
    return context.scope
