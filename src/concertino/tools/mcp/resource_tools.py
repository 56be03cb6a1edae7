"""Tools with which a model finds and reads the resources of an MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ...scope import Scope
from ..base import Tool, ToolContext, ToolResult

_MOST_PAGES, _MOST_RESOURCES = 20, 500


class Requests(Protocol):
    """Sends requests to a server in the name of a scope."""

    async def request(self, server: str, scope: Scope | None, send: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return what *send* returns for the server's client. Raises `ToolError`."""

    async def read(self, server: str, uri: str, scope: Scope | None = None) -> ToolResult:
        """Return a resource. Raises `ToolError`."""


class ListResources(Tool):
    """Lists the resources of a server."""

    effect = "read"
    parameters = {"type": "object", "properties": {}, "additionalProperties": False}  # noqa: RUF012 - never changed

    def __init__(self, requests: Requests, server: str) -> None:
        self.name = f"{server}.list_resources"
        self.description = f"List the resources of {server}: their addresses, names and descriptions."
        self._requests, self._server = requests, server

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return one line for each resource, and for each template of addresses."""
        lines: list[str] = []

        async def send(client: Any) -> None:
            cursor: str | None = None
            for _ in range(_MOST_PAGES):
                page = await client.list_resources(cursor=cursor)
                lines.extend(_line(each.uri, each) for each in page.resources)
                cursor = page.next_cursor
                if cursor is None or len(lines) > _MOST_RESOURCES:
                    break
            templates = await client.list_resource_templates()
            lines.extend(_line(each.uri_template, each) for each in templates.resource_templates)

        await self._requests.request(self._server, context.scope, send)
        more = [f"({len(lines) - _MOST_RESOURCES} more)"] if len(lines) > _MOST_RESOURCES else []
        return "\n".join([*lines[:_MOST_RESOURCES], *more]) or "(no resources)"


class ReadResource(Tool):
    """Reads a resource of a server."""

    effect = "read"
    parameters = {  # noqa: RUF012 - never changed
        "type": "object",
        "properties": {"uri": {"type": "string", "minLength": 1, "description": "The address of the resource"}},
        "required": ["uri"],
        "additionalProperties": False,
    }

    def __init__(self, requests: Requests, server: str) -> None:
        self.name = f"{server}.read_resource"
        self.description = f"Read a resource of {server}."
        self._requests, self._server = requests, server

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return the resource."""
        return await self._requests.read(self._server, arguments["uri"], context.scope)


def _line(address: object, resource: Any) -> str:
    return f"{address}  {resource.title or resource.name}: {resource.description or ''}".rstrip(" :")
