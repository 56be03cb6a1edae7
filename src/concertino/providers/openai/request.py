"""A `ModelRequest` as a request of the Responses API.

Facts of the protocol are from OpenAI's API reference ("Create a model response") and its guides on reasoning and
function calling. Nothing is stored at OpenAI (`store` is false), so reasoning comes encrypted and goes back so:

- a `reasoning` item is refused without the item that came after it, and without its encrypted content;
- models that do not reason refuse to be asked for encrypted reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ...messages import (
    AssistantMessage,
    ForcedTool,
    Message,
    Reasoning,
    SystemMessage,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from ..port import ModelRequest
from ..wire import ToolForms, arguments_text, body, dumps

_REASONS = re.compile(r"(o\d|gpt-([5-9]|\d\d)|codex|computer-use|grok-[4-9])(?!.*-chat)")
ENCRYPTED = "reasoning.encrypted_content"


def reasons(model: str) -> bool:
    """Whether *model* is known by its name to be one that reasons; a maker's name before a slash does not count."""
    return _REASONS.match(model.rpartition("/")[2]) is not None


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the API's form. Not strict, which the API is by default: it would forbid optional parameters."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


class Items:
    """Writes messages as input items; *provider* is the one whose encrypted reasoning may go along, "" for none."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._style = f"responses:{provider}"

    def __call__(self, messages: Iterable[Message]) -> list[str]:
        """The items of *messages*, as JSON."""
        forms: Iterable[str] = (message.wire(self._style, self._form) for message in messages)
        return [form for form in forms if form]

    def _form(self, message: Message) -> str:
        match message:
            case UserMessage(text):
                return dumps({"role": "user", "content": text})
            case SystemMessage(text):
                return dumps({"role": "developer", "content": text})
            case ToolMessage(call_id, _, content):
                return dumps({"type": "function_call_output", "call_id": call_id, "output": content})
            case AssistantMessage():
                return ",".join(self._assistant(message))

    def _assistant(self, message: AssistantMessage) -> list[str]:
        items: list[str] = []
        held: list[str] = []  # reasoning that waits for the item it belongs to
        for part in message.parts:
            if part.kind == "reasoning":
                if self._provider and part.provider == self._provider and part.signature:
                    held.append(_reasoning(part))
                continue
            if part.kind == "text":
                if not part.text:
                    continue
                item = dumps({"role": "assistant", "content": part.text})
            else:
                arguments = arguments_text(part.arguments)
                item = dumps({"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments})
            items += [*held, item]
            held = []
        return items


def _reasoning(part: Reasoning) -> str:
    item: dict[str, Any] = {"type": "reasoning"}
    if part.id:
        item["id"] = part.id
    item["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    item["encrypted_content"] = part.signature
    return dumps(item)


def request_body(request: ModelRequest, items: Items, tool_forms: ToolForms, *, encrypted: bool) -> bytes:
    """The finished JSON. *encrypted* asks for reasoning that can be sent back."""
    head: dict[str, Any] = {"model": request.model, "stream": True, "store": False}
    if encrypted:
        head["include"] = [ENCRYPTED]
    if request.system:
        head["instructions"] = request.system
    if request.max_output_tokens is not None:
        head["max_output_tokens"] = request.max_output_tokens
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        lists["tools"] = tool_forms(request.tools)
        if request.tool_choice != "auto":
            head["tool_choice"] = _tool_choice(request.tool_choice)
        if not request.parallel_tool_calls:
            head["parallel_tool_calls"] = False
    lists["input"] = items(request.messages)
    return body(head, request.extra, lists)


def _tool_choice(choice: ToolChoice) -> object:
    return {"type": "function", "name": choice.name} if isinstance(choice, ForcedTool) else choice
