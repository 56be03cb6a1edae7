"""concertino's web API and AG-UI on a store in memory. One person per conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from benchmarks.server_common import pieces, serve
from concertino import AgentConfig, Limits, ModelRequest, Resources, Runtime, Scope
from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.server import ServerLimits, create_app
from concertino.server.protocols import ag_ui
from concertino.usage import Tokens


class PacedModel:
    provider = "bench"
    name = "paced"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        question = next(each.text for each in reversed(request.messages) if isinstance(each, UserMessage))
        found = []
        async for text in pieces(question):
            found.append(text)
            yield TextChunk(text)
        message = AssistantMessage((Text("".join(found)),), "end", self.name)
        yield Reply(message, Tokens(prompt=100, completion=len(found)))

    async def close(self) -> None:
        pass


class Desk(AgentConfig[None]):
    name = "desk"


def authenticate(request: Request) -> Scope:
    return Scope("acme", request.headers["x-user"])


def application() -> Starlette:
    limits = Limits(context=100_000_000, output=50_000_000, received=500_000_000)  # a long answer is a figure
    runtime = Runtime([Desk()], Resources(model=PacedModel(), limits=lambda *_: limits))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with runtime:
            yield
        await runtime.store.close()

    requests = ServerLimits(requests=1_000_000, streams=100_000)
    api = create_app(runtime, authenticate, limits=requests, routes={"/agui": ag_ui.routes(runtime)})
    return Starlette(routes=[Mount("", api)], lifespan=lifespan)


if __name__ == "__main__":
    serve(application())
