"""`recall`: shows again what was cut, reduced or summarised, word for word."""

from __future__ import annotations

from typing import Any

from ...errors import ToolError
from ...messages import Retain
from ..base import Effect, Tool, ToolContext

_PAGE = 20_000
"""Characters that are shown at once, at most."""
_TELLING = 40
"""Tokens for the words that more follows."""


class Recall(Tool):
    """The model's way back to what it no longer sees. What stands in the place of it names the handle."""

    name = "recall"
    description = (
        "Show again, word for word, what was left out of the conversation: a tool result that was cut or reduced, or "
        "messages that were summarised."
    )
    parameters: dict[str, Any] = {  # noqa: RUF012 - a schema is data
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "As it stands in the place of what was left out"},
            "start": {"type": "integer", "minimum": 0, "description": "The character to begin at; 0 if not given"},
        },
        "required": ["handle"],
        "additionalProperties": False,
    }
    retain: Retain = "once"
    effect: Effect = "read"
    counts_as_iteration = False

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """See `Tool.execute`."""
        handle, start = arguments["handle"], arguments.get("start", 0)
        whole = context.recall(handle)
        if whole is None:
            raise ToolError(f"nothing was left out under the handle {handle!r}")
        shown = context.beginning(whole[start : start + _PAGE], spare=_TELLING)
        left = len(whole) - start - len(shown)
        return f"{shown}\n[... {left:,} characters follow: start={start + len(shown)}]" if left > 0 else shown
