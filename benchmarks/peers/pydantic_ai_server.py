"""pydantic-ai's adapter for AG-UI."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.routing import Route

from benchmarks.server_common import pieces, serve


async def answer(messages, _info):
    async for text in pieces(messages[-1].parts[-1].content):
        yield text


agent = Agent(FunctionModel(stream_function=answer))


async def run(request):
    return await AGUIAdapter.dispatch_request(request, agent=agent)


if __name__ == "__main__":
    serve(Starlette(routes=[Route("/run", run, methods=["POST"])]))
