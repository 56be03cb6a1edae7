"""Craft: a document or a code file, written for the user beside the chat."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...errors import ToolError
from ..base import Tool, ToolContext, ToolResult
from ..function import tool

_SNIPPET = 100


def craft() -> Tool:
    """`craft`: hands a whole document or code file to the user, who sees it as it is."""

    @tool(
        name="craft",
        effect="idempotent",
        shown=True,
        retain="once",
        selection_rule="for a whole document or code file that the user wants to keep, not for a short answer",
    )
    async def write(
        title: Annotated[str, Field(description="The file's name or the document's title")],
        content: Annotated[str, Field(description="The whole text")],
        context: ToolContext,
        kind: Literal["document", "code"] = "document",
        language: Annotated[str, Field(description="For code: the programming language")] = "",
    ) -> ToolResult:
        """Write a document or a code file for the user."""
        if not content.strip():
            raise ToolError("the craft is empty; write it in `content`")
        with context.progress.begin(f"Writing {title}", kind):
            context.stream(content)
        words = content.split()
        snippet = " ".join(words[:_SNIPPET]) + (" ..." if len(words) > _SNIPPET else "")
        data = {"title": title, "kind": kind, "language": language, "content": content}
        return ToolResult(content, data=data, summary=f"a craft was written here, {title!r}: {snippet}")

    return write
