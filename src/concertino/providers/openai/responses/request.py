"""Encode a `ModelRequest` for the Responses API.

Facts are from OpenAI's API reference ("Create a model response") and its guides on reasoning and function calling.
Nothing is stored at OpenAI (`store` is false), so items go back unmodified, and reasoning travels encrypted:

- a `reasoning` item is refused without the item that followed it, and without its encrypted content;
- an item with an id is refused without the `reasoning` item that preceded it, and the items of the provider's own tools
  require an id;
- models that do not reason refuse a request for encrypted reasoning;
- there are no stop texts; a key groups prompts with one prefix in the cache, and models before GPT-5.6 know no
  breakpoints; an output limit must be at least 16 tokens.

Servers with open models (DeepSeek) send reasoning as plain `content`, which goes back the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from ....cache_rules import cache_rule
from ....messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    MediaPart,
    Message,
    MessagePart,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from ...base import ModelRequest
from ...catalog import check_lacking, check_settings, supported_efforts
from ...http.encoding import (
    IMAGES,
    NOT_RETURNED,
    RequestBody,
    ToolForms,
    WireMessage,
    arguments_text,
    dropped_content,
    dropped_of,
    dumps,
    encode_body,
    is_object,
    is_text,
    media_placeholder,
    media_refusal,
    media_text,
    media_type,
    media_url,
    portable_id,
    portable_name,
)
from ..chat.cache import BREAKPOINT, EXPLICIT, MAX_BREAKPOINTS, system_content, with_breakpoints
from . import custom_tools

_REASONING_MODEL = re.compile(r"(o\d|gpt-([5-9]|\d\d)|codex|computer-use|grok-[4-9])(?!.*-chat)")
_MIN_OUTPUT = 16
ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
_LACKS = frozenset({"seed", "frequency_penalty", "presence_penalty", "stop"})


def is_reasoning_model(model: str) -> bool:
    """Return whether *model*, without a vendor's name before a slash, is known to reason."""
    return _REASONING_MODEL.match(model.rpartition("/")[2]) is not None


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool declaration in the API's format.

    It is not strict, unlike the API's default, because strict schemas forbid optional parameters.
    """
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def request_body(
    request: ModelRequest, provider: str, tool_forms: ToolForms, *, encrypted: bool, stream: bool = True
) -> RequestBody:
    """Encode *request*; *encrypted* requests reasoning that can be sent back.

    Raises `UnsupportedError` if the model or this adapter cannot take a setting or content.
    """
    check_settings(request, provider)
    check_lacking(request, provider, _LACKS, "the Responses API", 'use api="chat", or leave it out')
    extra = request.extra
    head: dict[str, Any] = {"model": request.model, "stream": stream, "store": False}
    wanted = [ENCRYPTED] * encrypted + [LOGPROBS] * (request.logprobs is not None)
    if wanted:
        head["include"] = wanted
        if missing := [name for name in wanted if name not in extra.get("include", wanted)]:
            extra = {**extra, "include": [*extra["include"], *missing]}
    _add_settings(head, request)
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        own = custom_tools.declared_tools(extra.get("tools"))  # declared there, and answered by the engine's tools
        forms = zip(request.tools, tool_forms(request.tools), strict=True)
        lists["tools"] = [form for tool, form in forms if tool.name not in own]
        if request.tool_choice != "auto":
            head["tool_choice"] = _tool_choice(request.tool_choice, own)
        if not request.parallel_tool_calls:
            head["parallel_tool_calls"] = False
    encoder = ItemEncoder(provider, encrypted=encrypted, stored=extra.get("store") is True)
    messages = encoder.wire(request.messages)
    system: list[str] = []
    takes_breakpoints = provider == "openai" and cache_rule(provider, request.model).breakpoints
    if request.breakpoints is not None and takes_breakpoints:
        head["prompt_cache_options"] = EXPLICIT
        messages = with_breakpoints(messages, request.breakpoints, BREAKPOINT, "input_text")
        if request.system:  # `instructions` cannot have a breakpoint
            mark = BREAKPOINT if len(request.breakpoints) < MAX_BREAKPOINTS else None
            content = system_content(request.system, mark, "input_text")
            system = [dumps({"role": "developer", "content": content})]
    elif request.system:
        head["instructions"] = request.system
    lists["input"] = system + [message.rest for message in messages if message.rest]
    return RequestBody(encode_body(head, extra, lists), dropped_content(messages, provider, "assistant"))


def _add_settings(head: dict[str, Any], request: ModelRequest) -> None:
    if request.max_output_tokens is not None:
        head["max_output_tokens"] = max(request.max_output_tokens, _MIN_OUTPUT)
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.top_p is not None:
        head["top_p"] = request.top_p
    if request.service_tier:
        head["service_tier"] = request.service_tier
    if request.logprobs:
        head["top_logprobs"] = request.logprobs
    if request.effort is not None and supported_efforts(request.model) != ("none",):
        head["reasoning"] = {"effort": request.effort}
    if request.cache_key:
        head["prompt_cache_key"] = request.cache_key
    if request.output_schema is not None:
        schema = request.output_schema
        form = {"type": "json_schema", "name": schema.name, "schema": schema.schema, "strict": schema.strict}
        head["text"] = {"format": form}


def _tool_choice(choice: ToolChoice, own: dict[str, dict[str, Any]]) -> object:
    if not isinstance(choice, ForcedTool):
        return choice
    return own.get(choice.name) or {"type": "function", "name": choice.name}


class ItemEncoder:
    """Encodes messages as input items for *provider*.

    With *encrypted*, encrypted reasoning may be sent; with *stored*, the provider keeps its answers, and reasoning may
    be sent by id.
    """

    def __init__(self, provider: str, *, encrypted: bool, stored: bool = False) -> None:
        self._provider = provider
        self._encrypted = encrypted
        self._stored = stored
        self._style = f"responses:{provider}:{encrypted:d}{stored:d}"

    def wire(self, messages: Sequence[Message]) -> list[WireMessage]:
        """Encode *messages*."""
        encoded = [message.wire(self._style, self._wire) for message in messages]
        return custom_tools.with_outputs(messages, encoded)

    def _wire(self, message: Message) -> WireMessage:
        match message:
            case UserMessage(text, media):
                if not media:
                    return WireMessage("user", "", dumps({"role": "user", "content": text}))
                parts, refused = _media_parts(media)
                parts += [{"type": "input_text", "text": text}] if text else []
                return WireMessage("user", "", dumps({"role": "user", "content": parts}), refused, "; ".join(refused))
            case SystemMessage(text):
                return WireMessage("developer", "", dumps({"role": "developer", "content": text}))
            case ToolMessage(call_id, _, content):
                output: object = content
                refused = ()
                if message.media:
                    parts, refused = _media_parts(message.media)
                    output = ([{"type": "input_text", "text": content}] if content else []) + parts
                item = {"type": "function_call_output", "call_id": portable_id(call_id), "output": output}
                return WireMessage("tool", "", dumps(item), refused, "; ".join(refused))
            case AssistantMessage():
                return self._assistant(message)

    def _assistant(self, message: AssistantMessage) -> WireMessage:
        own = [part for part in message.parts if part.kind == "reasoning" and part.provider == self._provider]
        lost = [part for part in own if not self._can_return(part)]
        without_ids = bool(lost) or not _all_followed(message.parts)
        items: list[str] = []
        pending: list[str] = []  # reasoning whose following item is still to come
        dropped: list[str] = [f"reasoning of {self._provider}"] * sum(bool(part.signature) for part in lost)
        for part in message.parts:
            dropped += dropped_of(part, self._provider)
            if part.kind == "reasoning":
                if part.provider == self._provider and part not in lost:
                    pending.append(_reasoning(part, without_id=without_ids))
                continue
            if part.kind == "media":
                item = self._media(part) if part.provider == self._provider and not lost else ""
                dropped += [f"{part.media.kind} of {part.provider}"] if part.provider == self._provider and lost else []
            elif part.kind == "opaque":
                own_item = part.provider == self._provider and part.type not in NOT_RETURNED
                item = _item(part.raw) if own_item and not lost else ""
                dropped += [f"{part.type} of {part.provider}"] if own_item and lost else []
            else:
                item = self._part(part, without_id=without_ids)
            if item:
                items += [*pending, item]
                pending = []
        dropped += [f"reasoning of {self._provider}"] * len(pending)
        note = custom_tools.note(message, self._provider)
        return WireMessage("assistant", "", ",".join(items), tuple(dropped), note=note)

    @staticmethod
    def _media(part: MediaPart) -> str:
        """Return the call that generated an image, with the image."""
        return _item(part.raw, result=part.media.data) if part.raw is not None else ""

    def _can_return(self, part: Reasoning) -> bool:
        if part.signature and self._encrypted:
            return True
        return (self._stored and part.id is not None) or (part.raw is not None and _is_plain(part.raw))

    def _part(self, part: Text | ToolCall, *, without_id: bool) -> str:
        """Encode a text or call; *without_id* if the reasoning that its id refers to is left out or has no id."""
        raw = part.raw if part.provider == self._provider else None
        if part.kind == "text":
            if raw is not None:
                return _item(raw, id=None) if without_id else _item(raw)
            return dumps({"role": "assistant", "content": part.text}) if part.text else ""
        identity = {"call_id": portable_id(part.id), "name": portable_name(part.name)}
        if raw is not None and is_object(part.arguments):
            if '"name":' not in raw:
                del identity["name"]  # a shell
            return _item(raw, id=None, **identity) if without_id else _item(raw, **identity)
        arguments = arguments_text(part.arguments)
        return dumps({"type": "function_call", **identity, "arguments": arguments})


def _item(raw: str, **fields: Any) -> str:
    """Return an item with *fields* replaced and without nulls, which answers contain and requests may not."""
    item = {**json.loads(raw), **fields}
    return dumps({name: value for name, value in item.items() if value is not None})


def _is_plain(raw: str) -> bool:
    """Return whether a reasoning item has unencrypted content."""
    return bool(json.loads(raw).get("content"))


def _all_followed(parts: Sequence[MessagePart]) -> bool:
    """Return whether the item that followed each reasoning still follows it."""
    pairs = [(part, after) for part, after in pairwise(parts) if part.kind == "reasoning" != after.kind]
    return all(after.raw is not None and after.provider == part.provider for part, after in pairs)


def _reasoning(part: Reasoning, *, without_id: bool) -> str:
    """Encode reasoning; its id would refer to the item that followed it."""
    if part.raw is not None:
        return _item(part.raw, id=None) if without_id and part.signature else _item(part.raw)
    item: dict[str, Any] = {"type": "reasoning"}
    if part.id and not (without_id and part.signature):
        item["id"] = part.id
    item["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    item["encrypted_content"] = part.signature
    return dumps(item)


def _media_parts(media: tuple[Media, ...]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    parts: list[dict[str, Any]] = []
    refused: list[str] = []
    for item in media:
        part = _media_part(item)
        if part is None:
            remedy = 'send text, an image or a document, or use api="chat" for audio'
            refused.append(media_refusal(item, "OpenAI's Responses API", remedy))
        parts.append(part or {"type": "input_text", "text": media_placeholder(item)})
    return parts, tuple(refused)


def _media_part(item: Media) -> dict[str, Any] | None:
    if item.kind == "image" and media_type(item) in IMAGES:
        source = {"file_id": item.file_id} if item.file_id else {"image_url": media_url(item)}
        return {"type": "input_image", "detail": "auto", **source}
    kind = media_type(item)
    ending = _DOCUMENTS.get(kind) or (".txt" if kind.startswith("text/") else "")
    if not ending and is_text(item):
        return {"type": "input_text", "text": f"<document name={dumps(item.name)}>\n{media_text(item)}\n</document>"}
    if not ending:
        return None
    if item.file_id:
        return {"type": "input_file", "file_id": item.file_id}
    if item.url:
        return {"type": "input_file", "file_url": item.url}
    return {"type": "input_file", "filename": item.name or f"document{ending}", "file_data": media_url(item)}


_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS = {
    "application/pdf": ".pdf",
    f"{_OFFICE}.wordprocessingml.document": ".docx",
    f"{_OFFICE}.spreadsheetml.sheet": ".xlsx",
    f"{_OFFICE}.presentationml.presentation": ".pptx",
    "application/msword": ".doc",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/rtf": ".rtf",
    "application/json": ".json",
    "application/xml": ".xml",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
}
"""The documents that the API takes, with the ending by which it knows a file's type ("File inputs")."""
