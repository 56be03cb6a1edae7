"""Tools of MCP servers (Model Context Protocol, https://modelcontextprotocol.io), over stdio and streamable HTTP."""

from .connection import Elicitation, ElicitationAnswer
from .server import McpServer
from .toolbox import McpToolbox

__all__ = ["Elicitation", "ElicitationAnswer", "McpServer", "McpToolbox"]
