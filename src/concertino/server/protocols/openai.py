"""The routes of Chat Completions and Responses. Each request is a run of its own, as the client has the history."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from ...errors import RunExistsError, UnknownRunError
from ...events import RunEnded, RunEvent
from ...orchestrator.agent import AgentConfig
from ...providers import Model
from ...runtime import Runtime
from ...storage.types import StoredRun
from ..error_form import error_code
from ..event_source import LogEvents, until_failure
from ..server_state import RETRY_AFTER
from .http import (
    BROKEN_OFF,
    ProtocolRoute,
    agents_of,
    body_of,
    check_streams,
    counted,
    event_stream,
    scope_of,
    text_field,
)
from .openai_chat import ChatStream, Completion, error_body
from .openai_input import chat_of
from .openai_responses import ResponseStream, run_of_response
from .values import BadInputError, JsonObject

TASKS = "tasks"
"""The model for titles, tags and the like, which clients request in addition to each answer."""
_NO_RETRY = {"x-should-retry": "false"}
"""Header that stops OpenAI's clients from starting a failed run again."""
_BROKEN_OFF = error_body(BROKEN_OFF, "server_error", "broken_off")
_Log = AsyncGenerator[LogEvents, None]


class TaskAgent(AgentConfig[Any]):
    """The agent of the model `tasks`: no tools, one short answer."""

    name = TASKS
    prompt = (
        "You do small tasks for a chat application, such as the title of a conversation. Answer with the result only."
    )


def routes(runtime: Runtime, *, task_model: Model | str | None = None) -> list[BaseRoute]:
    """Return the routes, to be mounted under `/v1`.

    Each agent of the runtime is a model. The model `tasks` has no tools, and is answered by *task_model*, a cheap one;
    the default is the model of the resources.
    """
    api = _API(runtime, task_model)
    return [
        ProtocolRoute("/models", api.models, _error, methods=["GET"]),
        ProtocolRoute("/models/{model}", api.model, _error, methods=["GET"]),
        ProtocolRoute("/chat/completions", api.complete, _error, methods=["POST"]),
        ProtocolRoute("/responses", api.respond, _error, methods=["POST"]),
        ProtocolRoute("/responses/{response}", api.response, _error, methods=["GET"]),
        ProtocolRoute("/responses/{response}/cancel", api.cancel, _error, methods=["POST"]),
    ]


class UnknownAgentError(BadInputError):
    """A request names a model that the server does not have."""


def _error(error: Exception, status: int, text: str) -> Response:
    """Return an error in OpenAI's form. A request that was refused before it began may be sent again."""
    if isinstance(error, UnknownAgentError):
        return JSONResponse(error_body(text, "invalid_request_error", "model_not_found", "model"), 404)
    kind = "invalid_request_error" if status < 500 else "server_error"
    if isinstance(error, HTTPException):
        return JSONResponse(error_body(text, kind, error_code(error, status)), status)
    return JSONResponse(error_body(text, kind), status, _NO_RETRY)


def _closed(request: Request) -> Response:
    """Return the answer to a request whose run another process continues: with its key, it may be sent again."""
    retry = {"x-should-retry": "true"} if "idempotency-key" in request.headers else _NO_RETRY
    return JSONResponse(_BROKEN_OFF, 503, RETRY_AFTER | retry)


class _API:
    def __init__(self, runtime: Runtime, task_model: Model | str | None) -> None:
        self._runtime = runtime
        self._task_model = task_model
        own = any(agent.name == TASKS for agent in runtime.agents)
        self._tasks: AgentConfig[Any] | str = TASKS if own else TaskAgent()
        self._created = int(time.time())

    # -- models --------------------------------------------------------------------------------------------------

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._described(name) for name in self._names(request)]})

    async def model(self, request: Request) -> Response:
        return JSONResponse(self._described(self._known(request, request.path_params["model"])))

    def _names(self, request: Request) -> list[str]:
        return [*(name for name in agents_of(request, self._runtime) if name != TASKS), TASKS]

    def _known(self, request: Request, name: str) -> str:
        names = self._names(request)
        if name not in names:
            raise UnknownAgentError(f"there is no model {name!r:.80}: choose from {', '.join(names)}")
        return name

    def _described(self, name: str) -> JsonObject:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "concertino"}

    # -- runs ----------------------------------------------------------------------------------------------------

    async def _start(self, request: Request, body: JsonObject) -> tuple[str, str, _Log]:
        """Start a run. Return its id, its model and its events; with a known `Idempotency-Key`, those of its run."""
        scope, name = scope_of(request), self._known(request, text_field(body, "model"))
        chat, agent = chat_of(body, scope), self._tasks if name == TASKS else name
        if name == TASKS and self._task_model is not None:
            chat = replace(chat, model=self._task_model)
        try:
            run_id = (await self._runtime.start(chat, agent, run_id=request.headers.get("idempotency-key"))).id
        except RunExistsError as exists:
            run_id = exists.run_id
        return run_id, name, self._log(request, run_id)

    async def complete(self, request: Request) -> Response:
        """Answer a request of Chat Completions."""
        body = await body_of(request)
        options = body.get("stream_options")
        streams = bool(body.get("stream"))
        usage = not streams or (isinstance(options, dict) and bool(options.get("include_usage")))
        with counted(request):
            run_id, name, log = await self._start(request, body)
            stream = ChatStream(run_id, name, int(time.time()), usage=usage)
            if streams:
                return event_stream(request, _chunks(stream, log))
            completion = Completion()
            async with aclosing(_chunks(stream, log)) as chunks:
                async for batch in chunks:
                    for chunk in batch:
                        if not isinstance(chunk, str):
                            completion.add(chunk)
        if completion.error == _BROKEN_OFF:
            return _closed(request)
        if completion.error is not None:
            return JSONResponse(completion.error, 500, _NO_RETRY)
        return JSONResponse(completion.body)

    async def respond(self, request: Request) -> Response:
        """Answer a request of Responses."""
        body = await body_of(request)
        with counted(request):
            run_id, name, log = await self._start(request, body)
            stream = ResponseStream(run_id, name, int(time.time()))
            if body.get("stream"):
                return event_stream(request, _events(stream, log))
            response = await _whole(stream, log)
        return _closed(request) if response["status"] == "in_progress" else JSONResponse(response)

    async def response(self, request: Request) -> Response:
        """Return a response by its id; with `stream=true`, its events from the first one on."""
        run_id, query = run_of_response(request.path_params["response"]), request.query_params
        if "starting_after" in query:
            raise BadInputError(
                "'starting_after' is not supported, because stored pieces of an answer are joined, which changes the "
                "numbers of events: leave it out to get all events from the first one on"
            )
        if query.get("stream", "").lower() not in ("true", "1"):
            return JSONResponse(await self._stored(request, run_id))
        check_streams(request)
        stream = self._stream(await self._run(request, run_id))
        return event_stream(request, _events(stream, self._log(request, run_id)))

    async def cancel(self, request: Request) -> Response:
        """Stop the run of a response."""
        run_id = run_of_response(request.path_params["response"])
        await self._runtime.stop(scope_of(request), run_id)
        return JSONResponse(await self._stored(request, run_id))

    async def _stored(self, request: Request, run_id: str) -> JsonObject:
        """Return a response as it is now: without its output while it is in progress."""
        stored = await self._run(request, run_id)
        stream = self._stream(stored)
        return stream.response if stored.state == "running" else await _whole(stream, self._log(request, run_id))

    async def _run(self, request: Request, run_id: str) -> StoredRun:
        stored = await self._runtime.store.run(scope_of(request), run_id)
        if stored is None:
            raise UnknownRunError(f"there is no response {request.path_params['response']!r}")
        return stored

    def _stream(self, stored: StoredRun) -> ResponseStream:
        return ResponseStream(stored.start.run_id, stored.start.agent, int(stored.start.started))

    def _log(self, request: Request, run_id: str) -> _Log:
        return _one_end(self._runtime.event_batches(scope_of(request), run_id, until="suspended"), run_id)


async def _one_end(log: _Log, run_id: str) -> _Log:
    """Leave out the suspensions of a run that are over: an answer ends once."""
    held: LogEvents = ()  # a suspension, as long as no event follows it
    async with aclosing(log):
        async for batch in log:
            shown: list[tuple[int, RunEvent]] = []
            held = ()
            for numbered in batch:  # no calls: this runs for each delta
                event = numbered[1]
                if isinstance(event, RunEnded) and event.run_id == run_id and event.result.status == "suspended":
                    held = (numbered,)
                else:
                    held = ()
                    shown.append(numbered)
            del batch, numbered, event  # as in `one_by_one`
            yield shown
    if held:
        yield held


async def _chunks(stream: ChatStream, log: _Log) -> AsyncGenerator[Sequence[JsonObject | str], None]:
    yield [stream.start()]
    async with until_failure(log):
        async for batch in log:
            yield [chunk for number, event in batch for chunk in stream.take(number, event)]
    if not stream.ended:
        yield [_BROKEN_OFF]
    yield ["[DONE]"]


async def _events(stream: ResponseStream, log: _Log) -> AsyncGenerator[Sequence[JsonObject], None]:
    yield list(stream.start())
    async with until_failure(log):
        async for batch in log:
            yield [event for number, logged in batch for event in stream.take(number, logged)]
    if stream.response["status"] == "in_progress":
        yield [stream.error(BROKEN_OFF)]


async def _whole(stream: ResponseStream, log: _Log) -> JsonObject:
    async with aclosing(_events(stream, log)) as events:
        async for _ in events:
            pass
    return stream.response
