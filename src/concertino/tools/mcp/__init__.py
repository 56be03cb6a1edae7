"""Tools of MCP servers (Model Context Protocol, https://modelcontextprotocol.io), over stdio and streamable HTTP."""

from .connection import Elicitation, ElicitationAnswer
from .oauth.login_values import LoginError, OAuthClient
from .oauth.mcp_oauth import LoginOutcome, McpOAuth
from .server import McpServer
from .toolbox import McpToolbox

__all__ = [
    "Elicitation",
    "ElicitationAnswer",
    "LoginError",
    "LoginOutcome",
    "McpOAuth",
    "McpServer",
    "McpToolbox",
    "OAuthClient",
]
