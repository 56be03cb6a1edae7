"""Craft: a document or a code file for the user, shown next to the chat."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...errors import ToolError
from ..base import Tool, ToolContext, ToolResult
from ..function import tool

_SNIPPET = 100
_WRITER = (
    "Write the {kind} that you are asked for, completely and ready to use. Answer with its text only: no introduction, "
    "no comment on it, and no Markdown fence around it."
)


def craft(model: str | None = None) -> Tool:
    """Return the tool `craft`, which gives the user a complete document or code file.

    The calling model passes the text, or only instructions: then a model writes it, and the user sees it arrive as a
    draft. *model* is the id of the writing model (`provider:name`); the default is the run's own.
    """

    @tool(
        name="craft",
        effect="idempotent",
        shown=True,
        retain="once",
        timeout=None,  # a question to a model has the time limits of its provider
        selection_rule="for a complete document or code file that the user wants to keep, not for a short answer",
    )
    async def write(
        title: Annotated[str, Field(description="The file's name or the document's title")],
        context: ToolContext,
        content: Annotated[str, Field(description="The complete text; leave it out if you give instructions")] = "",
        instructions: Annotated[
            str,
            Field(description="In place of `content`: everything that a writer needs to know; it sees nothing else"),
        ] = "",
        kind: Literal["document", "code"] = "document",
        language: Annotated[str, Field(description="For code: the programming language")] = "",
    ) -> ToolResult:
        """Write a document or a code file for the user."""
        if not content.strip() and not instructions.strip():
            raise ToolError("`content` is empty; write the complete text there, or give `instructions`")
        with context.progress.begin(f"Writing {title}", kind):
            if content.strip():
                context.stream(content)
            else:
                what = f"code file ({language})" if language else "code file" if kind == "code" else "document"
                system = _WRITER.format(kind=what)
                prompt = f"{title}\n\n{instructions}"
                content = await context.ask(prompt, system=system, model=model, audience="draft")
        if not content.strip():
            raise ToolError("the writer's text is empty; call the tool again, or write the text in `content`")
        found = content.split()
        snippet = " ".join(found[:_SNIPPET]) + (" ..." if len(found) > _SNIPPET else "")
        data = {"title": title, "kind": kind, "language": language, "content": content}
        return ToolResult(content, data=data, summary=f"[{kind} {title!r} was written for the user: {snippet}]")

    return write
