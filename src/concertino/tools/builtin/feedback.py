"""Questions back to the user."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..base import Tool, ToolResult
from ..function import tool


def feedback_questions() -> Tool:
    """Return the tool `feedback_questions`, which asks the user before research begins.

    The run ends with the questions; the user's answers are the message of the next run.
    """

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
        """Ask the user questions that must be answered before the research can begin."""
        text = "\n".join(f"{number}. {question}" for number, question in enumerate(questions, 1))
        return ToolResult(text, data={"questions": questions})

    return ask
