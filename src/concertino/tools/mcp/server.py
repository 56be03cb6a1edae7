"""`McpServer`: the connection settings of a server, and the product's decisions about its tools."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, get_args

from ...errors import ConfigurationError
from ...records import record
from ...scope import Scope
from ..base import DEFAULT_TIMEOUT, Effect
from ..web.addresses import is_local

if TYPE_CHECKING:
    import httpx2

    from .oauth.mcp_oauth import McpOAuth

HeaderSource = Mapping[str, str] | Callable[[Scope], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""The headers of all requests, or a function that returns those of a user."""

_NAME = re.compile(r"[A-Za-z0-9-]{1,24}")
"""Without `_`: models see `server_tool`, which two servers could otherwise share."""


@record(kw_only=True)
class McpServer:
    """An MCP server, given as the *command* of a local process or as the *url* of its endpoint.

    Raises `ConfigurationError` if a field is invalid.
    """

    name: str
    """The first part of its tools' names, as in `files.read_file`: up to 24 letters, digits and `-`."""
    command: Sequence[str] = ()
    """The program and its arguments. Its environment has `PATH`, `HOME`, a few other variables, and those of *env*."""
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    """The endpoint for streamable HTTP. Redirects to another origin are refused."""
    headers: HeaderSource = field(default_factory=dict)
    """Headers such as `Authorization`. With a function, each scope has its own connection."""
    auth: Callable[[Scope], httpx2.Auth] | None = None
    """A function that returns the authorization of a scope, such as the MCP SDK's `OAuthClientProvider`."""
    oauth: McpOAuth | None = None
    """Logins of users. Each user then has their own tools, and logs in when the server requires it."""
    tools: Collection[str] | None = None
    """The server's names of the tools to offer; None for all."""
    effects: Mapping[str, Effect] = field(default_factory=dict)
    """Effects by the server's name of a tool. They override the server's annotations."""
    timeout: float = DEFAULT_TIMEOUT
    """Time limit of a call, in seconds."""
    task_seconds: float = 86_400.0
    """Time limit of a call that the server runs as a task, in seconds. After it, the task is cancelled."""
    connect_seconds: float = 30.0
    """Time limit for connecting and listing the tools."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"invalid MCP server name {self.name!r:.80}: use 1 to 24 letters, digits and '-'")
        if isinstance(self.command, str) or not all(isinstance(each, str) for each in self.command):
            raise ConfigurationError(f"MCP server {self.name!r}: command is a list, such as ['npx', '-y', 'package']")
        if bool(self.command) == bool(self.url):
            raise ConfigurationError(f"MCP server {self.name!r}: give either a command or a url")
        if self.url and not re.match(r"https?://[^/]", self.url):
            raise ConfigurationError(f"MCP server {self.name!r}: invalid url {self.url!r:.80}: use http:// or https://")
        if self.command and (self.headers or self.auth or self.oauth):
            raise ConfigurationError(f"MCP server {self.name!r}: a command has no headers and no auth; use env")
        self._check_oauth()
        for tool, effect in self.effects.items():
            if effect not in get_args(Effect):
                raise ConfigurationError(
                    f"MCP server {self.name!r}: invalid effect {effect!r} of {tool!r}: "
                    "use 'read', 'idempotent' or 'once'"
                )
        for setting in ("timeout", "task_seconds", "connect_seconds"):
            value = getattr(self, setting)
            if not isinstance(value, int | float) or not value > 0:
                raise ConfigurationError(f"MCP server {self.name!r}: invalid {setting} {value!r}: use seconds above 0")

    def _check_oauth(self) -> None:
        if self.oauth is None:
            return
        if self.auth is not None:
            raise ConfigurationError(f"MCP server {self.name!r}: give either auth or oauth")
        if not self.url.startswith("https://") and not is_local(self.url):
            raise ConfigurationError(f"MCP server {self.name!r}: use https://, because oauth sends tokens")

    @property
    def per_scope(self) -> bool:
        """True if each scope has a connection of its own."""
        return callable(self.headers) or self.auth is not None or self.oauth is not None

    def authorization(self, scope: Scope) -> httpx2.Auth | None:
        """Return the authorization of the requests of *scope*."""
        if self.oauth is not None:
            return self.oauth.auth(self, scope)
        return None if self.auth is None else self.auth(scope)
