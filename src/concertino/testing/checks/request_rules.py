"""The rules of requests that every provider has."""

from __future__ import annotations

from ...messages import AssistantMessage, ForcedTool, ToolMessage
from ...providers.base import ModelRequest


def request_problem(request: ModelRequest) -> str:
    """Return why providers refuse *request*; empty if they accept it."""
    names = [spec.name for spec in request.tools]
    choice, most = request.tool_choice, request.max_output_tokens
    forced = choice.name if isinstance(choice, ForcedTool) else None
    rules = (
        (not request.messages, "a request has no messages"),
        (request.messages and isinstance(request.messages[-1], AssistantMessage), "a request ends with an answer"),
        (len(set(names)) < len(names), f"a request offers two tools with the same name: {names}"),
        (forced is not None and forced not in names, f"a request forces the tool {forced!r}, which it does not offer"),
        (choice == "required" and not names, "a request requires a call and offers no tools"),
        (most is not None and most < 1, f"a request allows {most} tokens for the answer"),
    )
    return next((problem for broken, problem in rules if broken), "") or _pairs(request)


def _pairs(request: ModelRequest) -> str:
    """Return how the calls and results of *request* do not match."""
    open_calls: dict[str, str] = {}
    for message in request.messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in open_calls:
                return f"a request has a result of {message.name} without its call directly before"
            del open_calls[message.call_id]
            continue
        if open_calls:
            return f"a request has no result for the call of {next(iter(open_calls.values()))}"
        if isinstance(message, AssistantMessage):
            open_calls = {call.id: call.name for call in message.tool_calls}
            if len(open_calls) < len(message.tool_calls):
                return "a request has two calls with the same id"
            if not message.parts:
                return "a request has an empty answer of the model"
    return f"a request has no result for the call of {next(iter(open_calls.values()))}" if open_calls else ""
