"""`recall`: search and show what was cut, reduced, summarized or omitted."""

from __future__ import annotations

from typing import Any

from ...errors import ToolError
from ...messages import Retain
from ..base import Effect, Tool, ToolContext

_PAGE = 20_000
"""Largest number of characters per call."""
_SHOWN = 80
"""Characters shown of a query without a match."""
_CONTINUATION = 40
"""Tokens reserved for the note on the remaining characters."""


class Recall(Tool):
    """The model's access to text that has left its view.

    The engine adds it to the tools in the request that carries the first edit. The replacement text names the handle.
    """

    name = "recall"
    description = (
        "Look up what was left out of the conversation: results that were cut or reduced, and messages that were "
        "summarized. With `query`, find the passages that contain its words; with `handle`, read the text whole."
    )
    parameters: dict[str, Any] = {  # noqa: RUF012 - a schema is data
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words to search for, such as a name, an id or a path"},
            "handle": {"type": "string", "description": "The handle that the shortened text names"},
            "start": {
                "type": "integer",
                "minimum": 0,
                "description": "Offset of the first character to show; default 0",
            },
        },
        "additionalProperties": False,
    }
    retain: Retain = "once"
    effect: Effect = "read"
    counts_as_iteration = False

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return the passages that match the query, or a page of the full text; see `Tool.execute`."""
        handle, query, start = (
            arguments.get("handle", ""),
            arguments.get("query", "").strip(),
            arguments.get("start", 0),
        )
        if query:
            return self._found(query, handle, context)
        if not handle:
            raise ToolError("give a query, or a handle from the conversation")
        whole = context.recall(handle)
        if whole is None:
            raise ToolError(f"unknown handle {handle!r}; use a handle from the conversation, or a query")
        shown = context.truncate(whole[start : start + _PAGE], reserve=_CONTINUATION)
        left = len(whole) - start - len(shown)
        return (
            f"{shown}\n[... {left:,} more characters; continue with start={start + len(shown)}]" if left > 0 else shown
        )

    def _found(self, query: str, handle: str, context: ToolContext) -> str:
        found = context.recall(handle, query)
        return (
            context.truncate(found)
            if found
            else f"Nothing that was left out contains {query[:_SHOWN]!r}; try other words."
        )
