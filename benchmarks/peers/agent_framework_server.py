"""agent-framework's adapter for AG-UI."""

from __future__ import annotations

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
)
from agent_framework.observability import ChatTelemetryLayer
from agent_framework_ag_ui import add_agent_framework_fastapi_endpoint
from fastapi import FastAPI

from benchmarks.server_common import pieces, serve


class PacedClient(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        return self._build_response_stream(self._pieces(messages[-1].text))

    async def _pieces(self, question):
        async for text in pieces(question):
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(text)])


if __name__ == "__main__":
    app = FastAPI()
    add_agent_framework_fastapi_endpoint(app, Agent(client=PacedClient(), name="bench"), "/run", single_user=True)
    serve(app)
