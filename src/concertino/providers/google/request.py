"""A `ModelRequest` as a request of `models.streamGenerateContent`.

Facts of the protocol are from the Gemini API reference ("Generating content", "Function calling", "Thought
signatures"). What it asks for beyond the obvious:

- There are two roles, and all results of one turn's calls stand together right after the calls.
- A signature goes back in the very part in which it came. Gemini 3 and later refuse calls without one; for calls
  that another model made the guide names a value that says so.
- There is no switch for parallel calls: `parallel_tool_calls=False` has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

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
from ..wire import ToolForms, arguments_object, body, dumps

PROVIDER = "google"
TEXT_SIGNATURE = "text"
"""The id of a `Reasoning` without text whose signature belongs to the text part before it."""
EMPTY_SIGNATURE = "empty"
"""The id of a `Reasoning` whose signature came in a text part of its own, without text."""

_STRICT = re.compile(r"gemini-(?:[3-9]|\d\d)")
_FOREIGN_CALL = "skip_thought_signature_validator"


class _Form(NamedTuple):
    role: str
    results: str
    parts: str


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the API's form."""
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def request_body(request: ModelRequest, tool_forms: ToolForms) -> bytes:
    """The finished JSON. The model's name is in the URL."""
    head: dict[str, Any] = {}
    if request.system:
        head["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.max_output_tokens is not None:
        head["generationConfig"] = {"maxOutputTokens": request.max_output_tokens}
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        lists["tools"] = [f'{{"functionDeclarations":[{",".join(tool_forms(request.tools))}]}}']
        if request.tool_choice != "auto":
            head["toolConfig"] = {"functionCallingConfig": _calling(request.tool_choice)}
    strict = _STRICT.match(request.model) is not None
    style, build = ("google-strict", _strict_form) if strict else ("google", _form)
    lists["contents"] = _contents(message.wire(style, build) for message in request.messages)
    return body(head, request.extra, lists)


def _calling(choice: ToolChoice) -> dict[str, Any]:
    if isinstance(choice, ForcedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": {"required": "ANY", "none": "NONE", "auto": "AUTO"}[choice]}


def _contents(forms: Iterable[_Form]) -> list[str]:
    """Messages as contents, of one role only one in a row, results before all else."""
    contents: list[str] = []
    role = ""
    results: list[str] = []
    parts: list[str] = []
    for form in forms:
        if not form.results and not form.parts:
            continue
        if form.role != role:
            if role:
                contents.append(_content(role, results + parts))
            role, results, parts = form.role, [], []
        if form.results:
            results.append(form.results)
        if form.parts:
            parts.append(form.parts)
    if role:
        contents.append(_content(role, results + parts))
    return contents


def _content(role: str, parts: list[str]) -> str:
    return f'{{"role":"{role}","parts":[{",".join(parts)}]}}'


def _strict_form(message: Message) -> _Form:
    return _form(message, strict=True)


def _form(message: Message, *, strict: bool = False) -> _Form:
    match message:
        case UserMessage(text):
            return _Form("user", "", dumps({"text": text}))
        case SystemMessage(text):
            return _Form("user", "", dumps({"text": f"<system>\n{text}\n</system>"}))
        case ToolMessage(call_id, name, content):
            result = {"id": call_id, "name": name, "response": {"error" if message.is_error else "output": content}}
            return _Form("user", dumps({"functionResponse": result}), "")
        case AssistantMessage():
            parts = _assistant(message)
            if strict and message.tool_calls and not any(call.signature for call in message.tool_calls):
                next(part for part in parts if "functionCall" in part)["thoughtSignature"] = _FOREIGN_CALL
            return _Form("model", "", ",".join(map(dumps, parts)))


def _assistant(message: AssistantMessage) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if part.kind == "text":
            if part.text:
                parts.append({"text": part.text})
        elif part.kind == "tool_call":
            call = {"id": part.id, "name": part.name, "args": arguments_object(part.arguments)}
            parts.append({"functionCall": call})
            if part.signature:
                parts[-1]["thoughtSignature"] = part.signature
        elif part.provider == PROVIDER and part.signature:
            if part.id == TEXT_SIGNATURE and parts and "text" in parts[-1]:
                parts[-1]["thoughtSignature"] = part.signature
            elif part.id == EMPTY_SIGNATURE:
                parts.append({"text": "", "thoughtSignature": part.signature})
            else:
                parts.append({"text": part.text, "thought": True, "thoughtSignature": part.signature})
    return parts
