"""langchain's `ClearToolUsesEdit`, in the middleware that applies it: to a deep copy of all messages, each request."""

from __future__ import annotations

from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain.agents.middleware.types import ModelRequest

from benchmarks.peers.langchain_trim import DISTRIBUTIONS, Trim

__all__ = ["DISTRIBUTIONS", "build"]


class Clear(Trim):
    async def fit(self, conversation, new):
        conversation.messages += new
        middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=conversation.budget)])
        request = ModelRequest(model=None, messages=conversation.messages)
        return await middleware.awrap_model_call(request, edited)


async def edited(request):
    return request.messages


def build(_tool):
    return Clear()
