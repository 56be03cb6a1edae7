"""Notes: two lists of an agent, each kept by the newest call of its tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ...errors import ToolError
from ..base import Tool, ToolResult
from ..function import tool


@dataclass
class Task:
    """A step of a task."""

    text: str
    status: Literal["open", "doing", "done"] = "open"


def note_facts(characters: int) -> Tool:
    """Return the tool `note_facts`, which takes a list of at most *characters*."""

    @tool(name="note_facts", effect="read", retain="newest", counts_as_iteration=False)
    async def note(
        facts: Annotated[list[str], Field(description="All facts to keep, one short sentence each")],
    ) -> ToolResult:
        """Replace the facts in your notes."""
        _check(facts, characters)
        return ToolResult(f"noted: {len(facts)} facts", data={"facts": facts})

    return note


def note_tasks(characters: int) -> Tool:
    """Return the tool `note_tasks`, which takes a list of at most *characters*."""

    @tool(name="note_tasks", effect="read", retain="newest", counts_as_iteration=False)
    async def note(tasks: Annotated[list[Task], Field(description="All steps, in order")]) -> ToolResult:
        """Replace the task list in your notes."""
        _check([task.text for task in tasks], characters)
        left = sum([task.status != "done" for task in tasks])
        listed = [{"text": task.text, "status": task.status} for task in tasks]
        return ToolResult(f"noted: {len(tasks)} steps, {left} not done", data={"tasks": listed})

    return note


def _check(texts: Sequence[str], most: int) -> None:
    size = sum(map(len, texts))
    if size > most:
        raise ToolError(f"the notes have {size:,} characters, and {most:,} fit: shorten or drop some")
