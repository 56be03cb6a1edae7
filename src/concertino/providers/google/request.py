"""Encode a `ModelRequest` for `models.streamGenerateContent`.

Facts are from the Gemini API reference ("Generating content", "Function calling", "Thought signatures"). Its less
obvious rules:

- There are two roles, and all results of one turn's calls come together, right after the calls.
- A signature goes back in the part in which it came. Gemini 3 and later refuse calls without one; the guide names a
  value for calls that another model made.
- Parallel calls cannot be switched off: `parallel_tool_calls=False` has no effect.
- Gemini 3 and later take a reasoning level, earlier models a token budget ("Thinking").
- Since Gemini 3, results may contain some images and documents, but no text ("Multimodal function responses"); other
  media, and all of earlier models, follow the result as parts of their own.
- Prefixes are cached without breakpoints ("Context caching"); an explicit cache goes in `extra["cachedContent"]`.
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
from ..base import ModelRequest
from ..catalog import check_settings, supported_efforts
from ..http.encoding import (
    NOT_RETURNED,
    RequestBody,
    ToolForms,
    WireMessage,
    arguments_object,
    dropped_content,
    dropped_of,
    dumps,
    encode_body,
    is_text,
    media_placeholder,
    media_refusal,
    media_type,
    portable_name,
    turns,
)

PROVIDER = "google"
_SIGNED_CALLS = re.compile(r"(^|.*/)gemini-(?:[3-9]|\d\d)")
_FOREIGN_CALL = "skip_thought_signature_validator"
_BUDGETS = {"none": 0, "minimal": 512, "low": 2_048, "medium": 8_192, "high": 24_576}

_CONTINUE = dumps({"text": "(The conversation continues.)"})
"""A user turn for conversations that begin or end with the model, because the API requires one first and last."""


_SETTINGS = {
    "max_output_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "stop": "stopSequences",
}


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool declaration in the API's format."""
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def request_body(request: ModelRequest, tool_forms: ToolForms) -> RequestBody:
    """Encode *request*; the model's name is part of the URL.

    Raises `UnsupportedError` if the model cannot take a setting or content.
    """
    check_settings(request, PROVIDER)
    signed = _SIGNED_CALLS.match(request.model) is not None
    head: dict[str, Any] = {}
    if request.system:
        head["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.service_tier:
        head["serviceTier"] = request.service_tier
    if settings := _settings(request, levels=signed):
        head["generationConfig"] = settings
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        lists["tools"] = [f'{{"functionDeclarations":[{",".join(tool_forms(request.tools))}]}}']
        if request.tool_choice != "auto":
            head["toolConfig"] = {"functionCallingConfig": _tool_choice(request.tool_choice)}
    style, build = ("google-signed", _signed_wire) if signed else (PROVIDER, _wire)
    messages = [message.wire(style, build) for message in request.messages]
    contents = turns(messages, "parts", _CONTINUE)
    if contents and contents[-1].startswith('{"role":"model"'):
        contents.append(f'{{"role":"user","parts":[{_CONTINUE}]}}')
    lists["contents"] = contents
    return RequestBody(encode_body(head, request.extra, lists), dropped_content(messages, PROVIDER, "model"))


def _settings(request: ModelRequest, *, levels: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        wire: value for name, wire in _SETTINGS.items() if (value := getattr(request, name)) is not None and value != ()
    }
    if request.logprobs is not None:
        settings["responseLogprobs"] = True
        if request.logprobs:
            settings["logprobs"] = request.logprobs
    if request.output_schema is not None:
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = request.output_schema.schema
    if request.effort is not None and supported_efforts(request.model) != ("none",):
        budget: dict[str, Any] = {"thinkingBudget": _BUDGETS[request.effort]}
        settings["thinkingConfig"] = {"thinkingLevel": request.effort.upper()} if levels else budget
    return settings


def _tool_choice(choice: ToolChoice) -> dict[str, Any]:
    if isinstance(choice, ForcedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": {"required": "ANY", "none": "NONE", "auto": "AUTO"}[choice]}


def _signed_wire(message: Message) -> WireMessage:
    return _wire(message, signed=True)


def _wire(message: Message, *, signed: bool = False) -> WireMessage:
    match message:
        case UserMessage(text, media):
            parts, refused = _media_parts(media)
            parts += [{"text": text}] if text or not media else []
            return WireMessage("user", "", ",".join(map(dumps, parts)), refused, "; ".join(refused))
        case SystemMessage(text):
            return WireMessage("user", "", dumps({"text": f"<system>\n{text}\n</system>"}))
        case ToolMessage(call_id, name, content):
            result: dict[str, Any] = {"id": call_id, "name": portable_name(name)}
            result["response"] = {"error" if message.is_error else "output": content}
            parts, refused = _media_parts(message.media)
            if signed and (inside := [part for part in parts if _fits_result(part)]):
                result["parts"] = inside
                parts = [part for part in parts if not _fits_result(part)]
            first, rest = dumps({"functionResponse": result}), ",".join(map(dumps, parts))
            return WireMessage("user", first, rest, refused, "; ".join(refused))
        case AssistantMessage():
            parts = _assistant_parts(message)
            if signed and message.tool_calls and not any(call.signature for call in message.tool_calls):
                next(part for part in parts if "functionCall" in part)["thoughtSignature"] = _FOREIGN_CALL
            dropped = tuple(description for part in message.parts for description in dropped_of(part, PROVIDER))
            return WireMessage("model", "", ",".join(map(dumps, parts)), dropped)


def _assistant_parts(message: AssistantMessage) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        raw = json.loads(part.raw) if part.raw is not None and part.provider == PROVIDER else {}
        if part.kind == "tool_call":
            parts.append(_call(part, raw))
        elif part.kind == "media":
            if part.provider == PROVIDER:
                parts.append({**raw, "inlineData": {"mimeType": part.media.media_type, "data": part.media.data}})
        elif raw:
            if part.kind != "opaque" or part.type not in NOT_RETURNED:
                parts.append(raw)
        elif part.kind == "text":
            parts += [{"text": part.text}] if part.text else []
        elif part.kind == "reasoning" and part.provider == PROVIDER:
            signature = {"thoughtSignature": part.signature} if part.signature else {}
            parts.append({"text": part.text, "thought": True, **signature})
    return parts


def _call(part: ToolCall, raw: dict[str, Any]) -> dict[str, Any]:
    call = {"id": part.id, "name": portable_name(part.name), "args": arguments_object(part.arguments)}
    form = {**raw, "functionCall": {**call, **raw.get("functionCall", {}), "id": part.id}}
    if part.signature and part.provider in ("", PROVIDER):
        form["thoughtSignature"] = part.signature
    return form


_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
"""The images that the API takes ("Image understanding", "Supported image formats")."""

_IN_RESULTS = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
"""The media that a result may contain ("Multimodal function responses")."""


def _fits_result(part: dict[str, Any]) -> bool:
    content = part.get("inlineData") or part.get("fileData")
    return content is not None and content["mimeType"] in _IN_RESULTS


def _media_parts(media: tuple[Media, ...]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return parts for *media*, with placeholders for what the API cannot take, and the refusals' messages."""
    parts: list[dict[str, Any]] = []
    refused: list[str] = []
    for item in media:
        if remedy := _remedy(item):
            refused.append(media_refusal(item, "Google's API", remedy))
            parts.append({"text": media_placeholder(item)})
        else:
            parts.append(_media_part(item))
    return parts, tuple(refused)


def _remedy(item: Media) -> str:
    """Return what to send in place of *item*, or "" if the API takes it."""
    kind = media_type(item)
    if item.kind == "document" and kind != "application/pdf" and not kind.startswith("text/") and not is_text(item):
        return "send text or a PDF"
    if item.kind == "image" and kind not in _IMAGES:
        return "send a PNG, JPEG, WebP, HEIC or HEIF image"
    return "" if item.data is not None or item.url or item.file_id else "give it data, a url or a file_id"


def _media_part(item: Media) -> dict[str, Any]:
    kind = media_type(item)
    if item.data is None:
        return {"fileData": {"mimeType": kind, "fileUri": item.url or item.file_id}}
    if item.kind == "audio":
        kind = item.media_type  # with the rate of raw samples
    elif is_text(item) and not kind.startswith("text/"):
        kind = "text/plain"
    return {"inlineData": {"mimeType": kind, "data": item.data}}
