"""Questions back to the user."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..base import Tool, ToolResult
from ..function import tool


def feedback_questions() -> Tool:
    """`feedback_questions`: asks the user before the work begins; the run ends, and the answers come as a message."""

    @tool(
        name="feedback_questions",
        effect="idempotent",
        shown=True,
        counts_as_iteration=False,
        selection_rule="once at most, before any research, and only if the question can be read in very different ways",
    )
    async def ask(
        questions: Annotated[list[str], Field(min_length=1, max_length=5, description="One question each")],
    ) -> ToolResult:
        """Ask the user what must be known before the research can begin."""
        text = "\n".join(f"{number}. {question}" for number, question in enumerate(questions, 1))
        return ToolResult(text, data={"questions": questions})

    return ask
