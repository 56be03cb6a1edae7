"""concertino's web API and AG-UI on a store in memory. One person per conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request

from benchmarks.server_common import pieces
from concertino import AgentConfig, Limits, ModelRequest, Resources, Runtime, Scope
from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.server import ServerLimits, create_app, serve
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


async def main() -> None:
    limits = Limits(context=100_000_000, output=50_000_000, received=500_000_000)  # a long answer is a figure
    async with Runtime([Desk()], Resources(model=PacedModel(), limits=lambda *_: limits)) as runtime:
        most = ServerLimits(requests=1_000_000, streams=100_000)
        app = create_app(runtime, authenticate, limits=most, routes={"/agui": ag_ui.routes(runtime)})
        await serve(app, port=0, grace=0.0, started=lambda url: print(url.rpartition(":")[2], flush=True))


if __name__ == "__main__":
    asyncio.run(main())
