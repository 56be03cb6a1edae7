"""A `ModelRequest` as a request of `models.streamGenerateContent`.

Facts of the protocol are from the Gemini API reference ("Generating content", "Function calling", "Thought
signatures"). What it asks for beyond the obvious:

- There are two roles, and all results of one turn's calls stand together right after the calls.
- A signature goes back in the very part in which it came. Gemini 3 and later refuse calls without one; for calls
  that another model made the guide names a value that says so.
- There is no switch for parallel calls: `parallel_tool_calls=False` has no effect.
- Reasoning is told by a level since Gemini 3, by a budget of tokens before ("Thinking").
- Results may show images and documents since Gemini 3 ("Multimodal function responses"); before, they stand beside it.
- Prefixes are cached without marks ("Context caching"); caches of one's own making go in `extra["cachedContent"]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ...messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    Message,
    SystemMessage,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from .. import catalog as catalogue
from ..base import ModelRequest
from ..http import encoding as media
from ..http.encoding import ASIDE, Body, Form, ToolForms, arguments_object, body, dumps, losses, lost, turns

PROVIDER = "google"
_STRICT = re.compile(r"(^|.*/)gemini-(?:[3-9]|\d\d)")
_FOREIGN_CALL = "skip_thought_signature_validator"
_BUDGETS = {"none": 0, "minimal": 512, "low": 2_048, "medium": 8_192, "high": 24_576}


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the API's form."""
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}


_GO_ON = dumps({"text": "(The conversation goes on.)"})
"""For a conversation that begins or ends with the model: the API wants the user's turn first and last."""


def request_body(request: ModelRequest, tool_forms: ToolForms) -> Body:
    """The finished JSON. The model's name is in the URL. Raises `UnsupportedError` for what the model cannot do."""
    catalogue.check(request, PROVIDER)
    strict = _STRICT.match(request.model) is not None
    head: dict[str, Any] = {}
    if request.system:
        head["systemInstruction"] = {"parts": [{"text": request.system}]}
    if settings := _settings(request, strict=strict):
        head["generationConfig"] = settings
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        lists["tools"] = [f'{{"functionDeclarations":[{",".join(tool_forms(request.tools))}]}}']
        if request.tool_choice != "auto":
            head["toolConfig"] = {"functionCallingConfig": _calling(request.tool_choice)}
    style, build = ("google-strict", _strict_form) if strict else (PROVIDER, _form)
    forms = [message.wire(style, build) for message in request.messages]
    written = turns(forms, "parts", _GO_ON)
    if written and written[-1].startswith('{"role":"model"'):
        written.append(f'{{"role":"user","parts":[{_GO_ON}]}}')
    lists["contents"] = written
    return Body(body(head, request.extra, lists), losses(forms, PROVIDER, "model"))


def _settings(request: ModelRequest, *, strict: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if request.max_output_tokens is not None:
        settings["maxOutputTokens"] = request.max_output_tokens
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if request.stop:
        settings["stopSequences"] = request.stop
    if request.output_schema is not None:
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = request.output_schema.schema
    if request.effort is not None and catalogue.efforts(request.model) != ("none",):
        level: dict[str, Any] = {"thinkingBudget": _BUDGETS[request.effort]}
        settings["thinkingConfig"] = {"thinkingLevel": request.effort.upper()} if strict else level
    return settings


def _calling(choice: ToolChoice) -> dict[str, Any]:
    if isinstance(choice, ForcedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": {"required": "ANY", "none": "NONE", "auto": "AUTO"}[choice]}


def _strict_form(message: Message) -> Form:
    return _form(message, strict=True)


def _form(message: Message, *, strict: bool = False) -> Form:
    match message:
        case UserMessage(text, shown):
            parts, refused = _shown(shown)
            parts += [{"text": text}] if text or not shown else []
            return Form("user", "", ",".join(map(dumps, parts)), refused, "; ".join(refused))
        case SystemMessage(text):
            return Form("user", "", dumps({"text": f"<system>\n{text}\n</system>"}))
        case ToolMessage(call_id, name, content):
            result: dict[str, Any] = {"id": call_id, "name": name}
            result["response"] = {"error" if message.is_error else "output": content}
            parts, refused = _shown(message.media)
            if parts and strict:
                result["parts"] = parts
                parts = []
            return Form("user", dumps({"functionResponse": result}), ",".join(map(dumps, parts)), refused)
        case AssistantMessage():
            parts = _assistant(message)
            if strict and message.tool_calls and not any(call.signature for call in message.tool_calls):
                next(part for part in parts if "functionCall" in part)["thoughtSignature"] = _FOREIGN_CALL
            dropped = tuple(word for part in message.parts for word in lost(part, PROVIDER))
            return Form("model", "", ",".join(map(dumps, parts)), dropped)


def _assistant(message: AssistantMessage) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        raw = json.loads(part.raw) if part.raw is not None and part.provider == PROVIDER else {}
        if part.kind == "tool_call":
            parts.append(_call(part, raw))
        elif raw:
            if part.kind != "opaque" or part.type not in ASIDE:
                parts.append(raw)
        elif part.kind == "text":
            parts += [{"text": part.text}] if part.text else []
        elif part.kind == "reasoning" and part.provider == PROVIDER:
            signed = {"thoughtSignature": part.signature} if part.signature else {}
            parts.append({"text": part.text, "thought": True, **signed})
    return parts


def _call(part: ToolCall, raw: dict[str, Any]) -> dict[str, Any]:
    call = {"id": part.id, "name": part.name, "args": arguments_object(part.arguments)}
    form = {**raw, "functionCall": {**call, **raw.get("functionCall", {}), "id": part.id}}
    if part.signature and part.provider in ("", PROVIDER):
        form["thoughtSignature"] = part.signature
    return form


def _shown(shown: tuple[Media, ...]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    parts: list[dict[str, Any]] = []
    refused: list[str] = []
    for item in shown:
        if item.data is not None:
            parts.append({"inlineData": {"mimeType": item.media_type, "data": item.data}})
        elif where := item.url or item.file_id:
            parts.append({"fileData": {"mimeType": item.media_type, "fileUri": where}})
        else:
            refused.append(media.refusal(item, "Google's API", "give it data, a url or a file_id"))
            parts.append({"text": media.placeholder(item)})
    return parts, tuple(refused)
