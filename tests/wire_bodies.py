"""A request as each provider would be sent it, for tests that are not about a wire."""

from __future__ import annotations

from concertino.providers import ModelRequest
from concertino.providers.anthropic import request as anthropic
from concertino.providers.google import request as google
from concertino.providers.http.encoding import ToolForms
from concertino.providers.openai.chat import request as chat_request
from concertino.providers.openai.chat.vendors import OPENAI
from concertino.providers.openai.responses import request as responses


def wire_bodies(request: ModelRequest, *, encrypted: bool = True) -> dict[str, bytes]:
    """The finished JSON, by format."""
    return {
        "anthropic": anthropic.request_body(request, 4096, ToolForms(anthropic.tool_form)).data,
        "google": google.request_body(request, ToolForms(google.tool_form)).data,
        "chat": chat_request.request_body(request, ToolForms(chat_request.tool_form), "openai", OPENAI).data,
        "responses": responses.request_body(
            request, "openai", ToolForms(responses.tool_form), encrypted=encrypted
        ).data,
    }
