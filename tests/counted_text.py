"""The text of messages that a provider counts."""

from __future__ import annotations

from concertino import ModelRequest
from concertino.messages import AssistantMessage, Message, ToolCall, ToolMessage


def counted_text(message: Message) -> str:
    """Return the text of *message*: of a call its id, name and arguments, of a result also the id of its call."""
    match message:
        case AssistantMessage():
            return "".join(
                f"{part.id}{part.name}{part.arguments}" if isinstance(part, ToolCall) else getattr(part, "text", "")
                for part in message.parts
            )
        case ToolMessage():
            return message.call_id + message.content
        case _:
            return message.text


def counted_texts(request: ModelRequest) -> list[str]:
    """Return all texts of *request*: the system prompt, the tools and the messages."""
    return [request.system, *(spec.text for spec in request.tools), *map(counted_text, request.messages)]
