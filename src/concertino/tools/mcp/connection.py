"""A connection to an MCP server. A task of its own keeps it open, and a lost connection is made again."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio

from ..._version import __version__
from ...errors import ConcertinoError, ToolError
from ...extras import extra
from ...records import record
from ...scope import Scope
from .oauth.refused_requests import refusals
from .server import McpServer
from .tasks import TasksExtension, TaskSignal, TaskStarted

with extra("mcp", "a connection to an MCP server"):
    import httpx2
    import mcp_types as types
    from mcp import Client, MCPError, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

if TYPE_CHECKING:
    from typing import TextIO

T = TypeVar("T")

_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_MOST_EVENT_BYTES = 32_000_000
_HTTP_SECONDS, _STREAM_SECONDS = 30.0, 300.0
"""Most seconds of a step of a request, and between two pieces of an answer: a stream may be idle for long."""
_LONGEST_PROBLEM = 500
_STDERR_BYTES = 2_000


@record(kw_only=True)
class Elicitation:
    """A question of a server to the user, in the course of a call."""

    message: str
    schema: dict[str, Any] | None = None
    """JSON Schema of the answer, an object without nesting; None if the user is to open *url*."""
    url: str = ""
    """An address to open, such as a login page. Show it in full, and never open it without consent."""
    login: str = ""
    """The name of the server, if *url* is the page on which the user logs in to it."""


@record(kw_only=True)
class ElicitationAnswer:
    """The user's answer to an `Elicitation`."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    """The values of the form."""


@record(frozen=False)
class Dialogue:
    """The questions of one call. The server has got the *answers* to the first ones; *missing* is the next."""

    answers: list[ElicitationAnswer]
    missing: Elicitation | None = None
    asked: int = 0

    def answer(self, question: Elicitation) -> ElicitationAnswer | None:
        """Return the answer to the call's next question; None if it is missing."""
        self.asked += 1
        if self.asked <= len(self.answers):
            return self.answers[self.asked - 1]
        self.missing = self.missing or question
        return None


_current: ContextVar[Dialogue | None] = ContextVar("concertino_mcp_dialogue", default=None)


class McpConnectionError(ConcertinoError):
    """A server cannot be reached, or has closed the connection."""


class McpRequestError(ToolError):
    """A server has answered a request with an error."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Connection:
    """The connection of one scope to one server; it is made at first use."""

    def __init__(self, server: McpServer, scope: Scope, changed: Callable[[], None]) -> None:
        self.server = server
        self._scope = scope
        self._changed = changed
        self._ready: asyncio.Future[Client]
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._dialogues: list[Dialogue] = []
        self._turns = asyncio.Lock()
        self._one_at_a_time = False
        """Whether calls wait for each other: before protocol 2026-07-28 a question does not name its call."""

    @property
    def idle(self) -> bool:
        """True if no call is open."""
        return not self._dialogues

    async def client(self) -> Client:
        """Return the client, and connect if necessary. Raises `McpConnectionError` and `LoginRequiredError`."""
        try:
            async with asyncio.timeout(self.server.connect_seconds):
                while (last := self._task) is not None and self._closing.is_set():
                    await asyncio.wait([last])
                    if self._task is last:
                        self._task = None
                if self._task is None:
                    self._closing = asyncio.Event()
                    self._ready = asyncio.get_running_loop().create_future()
                    self._task = asyncio.create_task(self._keep(self._ready, self._closing))
                    self._task.add_done_callback(partial(self._ended, self._ready, self._closing))
                return await asyncio.shield(self._ready)
        except TimeoutError:
            self._give_up()
            raise McpConnectionError(
                f"MCP server {self.server.name!r} did not answer within {self.server.connect_seconds:g} s"
            ) from None

    async def close(self) -> None:
        """Close the connection. It is made again at the next use."""
        self._give_up()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _give_up(self) -> None:
        """End the task that keeps the connection. It is cancelled once at most: the SDK closes a server in its time."""
        if self._task is not None and not self._closing.is_set():
            self._closing.set()
            if not self._ready.done():
                self._task.cancel()

    async def call(
        self, tool: str, arguments: dict[str, Any], dialogue: Dialogue, progress: Any, meta: dict[str, Any]
    ) -> types.CallToolResult | TaskStarted:
        """Call a tool and return the server's result, or the task that it has begun. Raises as `request`."""

        async def send(client: Client) -> types.CallToolResult | TaskStarted:
            try:
                made: Any = meta
                return await client.call_tool(tool, arguments, progress_callback=progress, meta=made)
            except TaskSignal as signal:
                return signal.started

        return await self.request(send, dialogue)

    async def request(self, send: Callable[[Client], Awaitable[T]], dialogue: Dialogue | None = None) -> T:
        """Return what *send* returns for the client.

        Raises `McpConnectionError` if the connection is lost, `ToolError` for an error or an invalid result, and
        `LoginRequiredError`.
        """
        client, closing = await self.client(), self._closing
        async with self._turn(dialogue or Dialogue([])):
            try:
                return await send(client)
            except MCPError as error:
                if error.code == types.CONNECTION_CLOSED:
                    closing.set()
                    raise McpConnectionError(f"MCP server {self.server.name!r} closed the connection") from None
                raise McpRequestError(f"{self.server.name}: {error.message:.2000}", error.code) from None
            except (httpx2.HTTPError, OSError, ExceptionGroup, *_CLOSED) as error:
                closing.set()
                raise McpConnectionError(self._problem(error)) from None
            except (RuntimeError, ValueError) as error:  # the SDK's own checks, and pydantic's
                raise ToolError(
                    f"{self.server.name}: invalid result: {type(error).__name__}: {error!s:.{_LONGEST_PROBLEM}}"
                ) from None

    @asynccontextmanager
    async def _turn(self, dialogue: Dialogue) -> AsyncIterator[None]:
        async with self._turns if self._one_at_a_time else nullcontext():
            self._dialogues.append(dialogue)
            token = _current.set(dialogue)
            try:
                with refusals(self.server.name):
                    yield
            finally:
                _current.reset(token)
                self._dialogues.remove(dialogue)

    # -- the task that keeps the connection ----------------------------------------------------------------------

    async def _keep(self, ready: asyncio.Future[Client], closing: asyncio.Event) -> None:
        errors: deque[str] = deque(maxlen=1)
        try:
            with refusals(self.server.name):
                await self._serve(ready, closing, errors)
        except ConcertinoError as error:
            if not ready.done():
                ready.set_exception(error)
        except Exception as error:  # noqa: BLE001 - every failure of a server is an error of its own calls only
            if not ready.done():
                written = f"; it wrote: {errors[-1]}" if errors else ""
                ready.set_exception(McpConnectionError(self._problem(error) + written))

    async def _serve(self, ready: asyncio.Future[Client], closing: asyncio.Event, errors: deque[str]) -> None:
        """Open the connection, and keep it open until *closing* is set."""
        async with self._open(errors) as client:
            if not ready.done():
                ready.set_result(client)
            listening = asyncio.create_task(self._listen(client))
            try:
                await closing.wait()
            finally:
                listening.cancel()

    def _ended(self, ready: asyncio.Future[Client], closing: asyncio.Event, _: asyncio.Task[None]) -> None:
        if not ready.done():  # the task was cancelled; the calls that wait for it were not
            ready.set_exception(McpConnectionError(f"the connection to MCP server {self.server.name!r} was closed"))
        ready.exception()  # retrieved here, in case no call waits any more
        closing.set()

    @asynccontextmanager
    async def _open(self, errors: deque[str]) -> AsyncIterator[Client]:
        server = self.server
        common: dict[str, Any] = {
            "elicitation_callback": self._elicit,
            "message_handler": self._notified,
            "cache": None,
            "extensions": [TasksExtension()],
            "client_info": types.Implementation(name="concertino", version=__version__),
        }
        if server.command:
            program, *arguments = server.command
            parameters = StdioServerParameters(command=program, args=arguments, env=dict(server.env))
            with _stderr(errors) as log:
                async with Client(stdio_client(parameters, errlog=log), **common) as client:
                    yield client
            return
        headers = server.headers(self._scope) if callable(server.headers) else server.headers
        headers = await headers if isinstance(headers, Awaitable) else headers
        auth = server.authorization(self._scope)
        timeout = httpx2.Timeout(_HTTP_SECONDS, read=_STREAM_SECONDS)
        async with httpx2.AsyncClient(headers=dict(headers), auth=auth, timeout=timeout) as http:
            transport = streamable_http_client(server.url, http_client=http, max_sse_event_size=_MOST_EVENT_BYTES)
            async with Client(transport, **common) as client:
                yield client

    async def _listen(self, client: Client) -> None:
        """Follow changes of the tools (2026-07-28). Older servers notify through `_notified`."""
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError, httpx2.HTTPError):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._changed()

    async def _notified(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed()

    async def _elicit(self, _: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        """Answer a question of the server from the dialogue of its call."""
        dialogue = _current.get()
        if dialogue is None:  # before 2026-07-28 a question does not name its call
            self._one_at_a_time = True
            dialogue = self._dialogues[0] if len(self._dialogues) == 1 else None
        if dialogue is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="several calls are open: ask again in the next")
        answer = dialogue.answer(question_of(params))
        if answer is None:
            why = "the user has been asked; the call will be repeated"
            return types.ErrorData(code=types.INVALID_REQUEST, message=why)
        try:
            return types.ElicitResult(action=answer.action, content=answer.content)
        except ValueError:
            return types.ErrorData(code=types.INVALID_PARAMS, message="the user's answer does not fit the form")

    def _problem(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        problem = f"{type(error).__name__}: {error!s:.{_LONGEST_PROBLEM}}"
        return f"MCP server {self.server.name!r} cannot be reached: {problem}"


def question_of(params: Any) -> Elicitation:
    """Return the question of a request of a server."""
    if isinstance(params, types.ElicitRequestURLParams):
        return Elicitation(message=params.message, url=params.url)
    schema = params.requested_schema
    return Elicitation(message=params.message, schema=schema if isinstance(schema, dict) else schema.model_dump())


@contextmanager
def _stderr(last: deque[str]) -> Iterator[TextIO]:
    """Return a file for a server's error output, whose end is kept in *last*."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    loop, tail = asyncio.get_running_loop(), bytearray()

    def read() -> None:
        with suppress(BlockingIOError):
            tail.extend(os.read(reading, 65_536))
            del tail[:-_STDERR_BYTES]
            last.append(tail.decode(errors="replace").strip())

    with os.fdopen(writing, "w") as log:
        try:
            loop.add_reader(reading, read)
        except NotImplementedError:  # Windows: the output is lost once the pipe is full
            os.set_blocking(writing, False)
        try:
            yield log
        finally:
            with suppress(NotImplementedError):
                loop.remove_reader(reading)
            with suppress(OSError):
                read()
            os.close(reading)
