"""A `ModelRequest` as a request of Chat Completions.

Facts of the protocol are from OpenAI's API reference ("Create chat completion"). Other servers that speak it know
fewer settings, so nothing is sent that says what is the default anyway, and the room for the answer is `max_tokens`
there, which OpenAI's own models no longer take (`max_completion_tokens`). Reasoning is not sent back: the format has
no place for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...messages import (
    AssistantMessage,
    ForcedTool,
    Message,
    SystemMessage,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from ..port import ModelRequest
from ..wire import ToolForms, arguments_text, body, dumps

STYLE = "chat"


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the API's form."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def request_body(request: ModelRequest, tool_forms: ToolForms, limit_name: str) -> bytes:
    """The finished JSON. *limit_name* is this server's name for the room of the answer."""
    head: dict[str, Any] = {"model": request.model, "stream": True, "stream_options": {"include_usage": True}}
    if request.max_output_tokens is not None:
        head[limit_name] = request.max_output_tokens
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        lists["tools"] = tool_forms(request.tools)
        if request.tool_choice != "auto":
            head["tool_choice"] = _tool_choice(request.tool_choice)
        if not request.parallel_tool_calls:
            head["parallel_tool_calls"] = False
    system = [dumps({"role": "system", "content": request.system})] if request.system else []
    lists["messages"] = system + [message.wire(STYLE, _form) for message in request.messages]
    return body(head, request.extra, lists)


def _tool_choice(choice: ToolChoice) -> object:
    if isinstance(choice, ForcedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def _form(message: Message) -> str:
    match message:
        case UserMessage(text):
            return dumps({"role": "user", "content": text})
        case SystemMessage(text):
            return dumps({"role": "system", "content": text})
        case ToolMessage(call_id, _, content):
            return dumps({"role": "tool", "tool_call_id": call_id, "content": content})
        case AssistantMessage():
            return _assistant(message)


def _assistant(message: AssistantMessage) -> str:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
        }
        for call in message.tool_calls
    ]
    form: dict[str, Any] = {"role": "assistant", "content": message.text or (None if calls else "")}
    if calls:
        form["tool_calls"] = calls
    return dumps(form)
