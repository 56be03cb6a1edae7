"""The agents of a runtime as an MCP server (Model Context Protocol), over stdio and streamable HTTP."""

from ...extras import extra

with extra("mcp", "an MCP server"):
    from .agent_server import AgentServer

__all__ = ["AgentServer"]
