"""A tool of an MCP server as a `Tool`, and its results as values of the library."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Protocol

import mcp_types as types

from ...errors import ToolError
from ...ids import handle_for
from ...messages import Media
from ...scope import Scope
from ..base import Done, Effect, Tool, ToolContext, ToolResult
from .connection import Connection, Dialogue, ElicitationAnswer, McpConnectionError
from .login_tool import LoginToolbox, with_login
from .remote_task import RemoteTask
from .server import McpServer
from .tasks import TaskStarted

FollowTask = Callable[
    [ToolContext, RemoteTask, Callable[[], Awaitable[types.CallToolResult | TaskStarted]]],
    Awaitable[types.CallToolResult],
]
"""Makes a call of a tool, and waits for its task if the server begins one."""

IDEMPOTENCY_KEY = "concertino/idempotency-key"
"""The field of a request's `_meta` with the key of the call, which is the same when the call is repeated."""
_LONGEST_DESCRIPTION = 8_000
_LONGEST_NAME = 64
_MOST_QUESTIONS = 20
_PROGRESS_SECONDS = 0.2
_CONNECTION_LOST = "{}: whether the call took effect is unknown. Find that out before you call it again."


class Toolbox(LoginToolbox, Protocol):
    """The toolbox of a tool."""

    follow: FollowTask | None

    def connection(self, server: McpServer, scope: Scope) -> Connection:
        """Return the connection of *scope* to *server*."""


class _NotBegun(Exception):  # noqa: N818 - a signal, not an error
    """No task of a call is recorded."""


class McpTool(Tool):
    """A tool of a server; `McpToolbox` makes it."""

    def __init__(self, server: McpServer, found: types.Tool, toolbox: Toolbox) -> None:
        self.name = tool_name(server.name, found.name)
        self.description = (found.description or found.title or found.name)[:_LONGEST_DESCRIPTION]
        self.parameters = found.input_schema
        self.timeout = server.timeout
        self.effect = server.effects.get(found.name) or stated_effect(found.annotations)
        hint = found.annotations.destructive_hint if found.annotations is not None else None
        self.destructive = self.effect != "read" and hint is not False
        """True if a person should approve a call: the server does not state that it only reads or adds."""
        self._remote_name = found.name
        self._server = server
        self._toolbox = toolbox

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Call the tool. A call for which the user has answered a question, or has logged in, is repeated.

        Raises `ToolError` with the server's error, and if the server cannot be reached.
        """
        task = self._task(context)

        def begin() -> Awaitable[types.CallToolResult | TaskStarted]:
            return with_login(self._toolbox, self._server, context, lambda: self._answered(arguments, context))

        if (follow := self._toolbox.follow) is not None and context.durable:
            result = await follow(context, task, begin)
        else:
            result = await task.wait(await begin())
        return to_result(result, self._server.name)

    async def probe(self, key: str, context: ToolContext) -> Done | None:
        """Return the result of the task that the server began before a crash; None if the server began none."""

        async def begin() -> TaskStarted:
            raise _NotBegun

        if (follow := self._toolbox.follow) is None:
            return None
        try:
            return Done(to_result(await follow(context, self._task(context), begin), self._server.name))
        except _NotBegun:
            return None

    def _task(self, context: ToolContext) -> RemoteTask:
        return RemoteTask(self._toolbox.connection, self._server, self._remote_name, context.scope)

    async def _answered(self, arguments: dict[str, Any], context: ToolContext) -> types.CallToolResult | TaskStarted:
        """Call the tool until all questions of the server are answered."""
        answers: list[ElicitationAnswer] = []
        show = _Progress(context, self._remote_name)
        while True:
            dialogue = Dialogue(answers)
            try:
                result = await self._call(arguments, context, dialogue, show)
            except ToolError:
                if dialogue.missing is None:
                    raise
            if dialogue.missing is None:
                return result
            ask = self._toolbox.ask
            if ask is None or len(answers) == _MOST_QUESTIONS:
                raise ToolError(f"{self._server.name} asks the user: {dialogue.missing.message:.500}")
            answers.append(await ask(context, dialogue.missing))

    async def _call(
        self, arguments: dict[str, Any], context: ToolContext, dialogue: Dialogue, show: _Progress
    ) -> types.CallToolResult | TaskStarted:
        meta = {IDEMPOTENCY_KEY: context.key}
        for attempt in (1, 2):
            connection = self._toolbox.connection(self._server, context.scope)
            try:
                await connection.client()  # a failure until here has no effect
            except McpConnectionError as error:
                raise ToolError(str(error)) from None
            try:
                return await connection.call(self._remote_name, arguments, dialogue, show, meta)
            except McpConnectionError as error:
                if self.effect == "once":
                    raise ToolError(_CONNECTION_LOST.format(error)) from None
                if attempt == 2:
                    raise ToolError(str(error)) from None
        raise AssertionError


class _Progress:
    """Shows the progress of a call; a server that reports too often is shown now and then."""

    def __init__(self, context: ToolContext, name: str) -> None:
        self._context, self._name = context, name
        self._step: Any = None
        self._next = 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Show *progress*, of *total* if that is known."""
        if monotonic() < self._next and progress != total:
            return
        self._next = monotonic() + _PROGRESS_SECONDS
        self._step = self._step or self._context.progress.begin(self._name)
        share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._step.send(f"{share} {message or ''}".strip())


def tool_name(server: str, name: str) -> str:
    """Return the name of a server's tool, as in `files.read_file`; a name that no model accepts is changed."""
    full = f"{server}.{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}"
    if full == f"{server}.{name}" and len(full) <= _LONGEST_NAME:
        return full
    return f"{full[: _LONGEST_NAME - 8]}_{handle_for(name)}"


def stated_effect(annotations: types.ToolAnnotations | None) -> Effect:
    """Return the effect that the annotations of a tool state; `once` without any."""
    if annotations is not None and annotations.read_only_hint:
        return "read"
    return "idempotent" if annotations is not None and annotations.idempotent_hint else "once"


def to_result(result: types.CallToolResult, server: str) -> ToolResult:
    """Return a result as the engine takes it. Raises `ToolError` if it reports an error."""
    texts: list[str] = []
    media: list[Media] = []
    for block in result.content:
        add_block(block, texts, media)
    text = "\n".join(texts)
    if result.is_error:
        raise ToolError(text or f"{server} reports an error without a text")
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return ToolResult(text, data=result.structured_content, media=tuple(media))


def add_block(block: Any, texts: list[str], media: list[Media]) -> None:
    """Add a block of content to *texts* or *media*."""
    match block:
        case types.TextContent():
            texts.append(block.text)
        case types.ImageContent() | types.AudioContent():
            media.append(Media(block.mime_type, data=block.data))
        case types.EmbeddedResource():
            add_contents(block.resource, texts, media)
        case types.ResourceLink():
            texts.append(f"[{block.title or block.name}]({block.uri})")
        case _:
            texts.append(f"[{type(block).__name__} is not supported]")


def add_contents(contents: Any, texts: list[str], media: list[Media]) -> None:
    """Add the contents of a resource to *texts* or *media*."""
    if isinstance(contents, types.TextResourceContents):
        texts.append(contents.text)
    else:
        name = str(contents.uri).rpartition("/")[2]
        media.append(Media(contents.mime_type or "application/octet-stream", data=contents.blob, name=name))
