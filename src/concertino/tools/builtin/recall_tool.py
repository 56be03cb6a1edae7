"""`recall`: show the full text of results and messages that were cut, reduced or summarized."""

from __future__ import annotations

from typing import Any

from ...errors import ToolError
from ...messages import Retain
from ..base import Effect, Tool, ToolContext

_PAGE = 20_000
"""Largest number of characters per call."""
_CONTINUATION = 40
"""Tokens reserved for the note on the remaining characters."""


class Recall(Tool):
    """The model's access to text that has left its view. The replacement text names the handle."""

    name = "recall"
    description = (
        "Show the full text of something that was left out of the conversation: a tool result that was cut or reduced, "
        "or messages that were summarized."
    )
    parameters: dict[str, Any] = {  # noqa: RUF012 - a schema is data
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "The handle that the shortened text names"},
            "start": {
                "type": "integer",
                "minimum": 0,
                "description": "Offset of the first character to show; default 0",
            },
        },
        "required": ["handle"],
        "additionalProperties": False,
    }
    retain: Retain = "once"
    effect: Effect = "read"
    counts_as_iteration = False

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return a page of the full text; see `Tool.execute`."""
        handle, start = arguments["handle"], arguments.get("start", 0)
        whole = context.recall(handle)
        if whole is None:
            raise ToolError(f"unknown handle {handle!r}; use a handle from the conversation")
        shown = context.truncate(whole[start : start + _PAGE], reserve=_CONTINUATION)
        left = len(whole) - start - len(shown)
        return (
            f"{shown}\n[... {left:,} more characters; continue with start={start + len(shown)}]" if left > 0 else shown
        )
