"""Memory: what a user wants remembered, kept by a `Memories` store."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from pydantic import Field

from ...errors import ToolError
from ..base import Tool, ToolContext
from ..function import tool


class MemoryBackend(Protocol):
    """What the memory tools need of a store; `concertino.storage.port.Memories` is one."""

    async def remember(self, owner: str, text: str) -> Any: ...

    async def recall(self, owner: str, query: str, limit: int = 5) -> Any: ...


def store_memory(backend: MemoryBackend) -> Tool:
    """`store_memory`: keeps a fact about the user of this session."""

    @tool(
        name="store_memory",
        selection_rule="when the user asks you to remember something, or states a lasting wish",
        effect="idempotent",
    )
    async def store(
        text: Annotated[str, Field(description="The fact, in one sentence that stands alone")], context: ToolContext
    ) -> str:
        """Remember something about the user, for later conversations."""
        if not text.strip():
            raise ToolError("there is nothing to remember: `text` is empty")
        await backend.remember(context.session.user_id, text.strip())
        return "remembered"

    return store


def retrieve_memory(backend: MemoryBackend) -> Tool:
    """`retrieve_memory`: finds what was remembered of the user of this session, and of nobody else."""

    @tool(
        name="retrieve_memory",
        selection_rule="when the answer may depend on what the user once told you",
        effect="read",
    )
    async def retrieve(
        context: ToolContext,
        query: Annotated[str, Field(description="What to look for; empty: the newest")] = "",
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> list[str]:
        """Look up what is remembered of the user."""
        return [memory.text for memory in await backend.recall(context.session.user_id, query, limit)]

    return retrieve
