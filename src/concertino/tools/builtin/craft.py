"""Craft: a document or a code file for the user, shown next to the chat."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...errors import ToolError
from ..base import Tool, ToolContext, ToolResult
from ..function import tool

_SNIPPET = 100


def craft() -> Tool:
    """Return the tool `craft`, which hands a complete document or code file to the user."""

    @tool(
        name="craft",
        effect="idempotent",
        shown=True,
        retain="once",
        selection_rule="for a complete document or code file that the user wants to keep, not for a short answer",
    )
    async def write(
        title: Annotated[str, Field(description="The file's name or the document's title")],
        content: Annotated[str, Field(description="The complete text")],
        context: ToolContext,
        kind: Literal["document", "code"] = "document",
        language: Annotated[str, Field(description="For code: the programming language")] = "",
    ) -> ToolResult:
        """Write a document or a code file for the user."""
        if not content.strip():
            raise ToolError("`content` is empty; write the complete text there")
        with context.progress.begin(f"Writing {title}", kind):
            context.stream(content)
        found = content.split()
        snippet = " ".join(found[:_SNIPPET]) + (" ..." if len(found) > _SNIPPET else "")
        data = {"title": title, "kind": kind, "language": language, "content": content}
        return ToolResult(content, data=data, summary=f"[{kind} {title!r} was written for the user: {snippet}]")

    return write
