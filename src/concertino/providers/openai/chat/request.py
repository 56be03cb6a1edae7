"""Encode a `ModelRequest` for Chat Completions.

Facts are from OpenAI's API reference ("Create chat completion"); `vendors` has the deviations of other servers. They
know fewer settings, so defaults are not sent. Reasoning goes back to the vendors that accept it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from ....cache_rules import cache_rule
from ....messages import (
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
from ...base import ModelRequest
from ...catalog import check_lacking, check_settings, supported_efforts, unsupported
from ...http.encoding import (
    IMAGES,
    RequestBody,
    ToolForms,
    WireMessage,
    arguments_text,
    dropped_content,
    dropped_of,
    dumps,
    encode_body,
    is_text,
    media_placeholder,
    media_refusal,
    media_text,
    media_type,
    media_url,
    portable_id,
    portable_name,
)
from .cache import BREAKPOINT, CACHE_CONTROL, EXPLICIT, MAX_BREAKPOINTS, system_content, with_breakpoints
from .vendors import Vendor

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
_LONGEST_ID = 40  # OpenAI's limit
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


_SETTINGS = (
    "max_output_tokens",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "stop",
    "service_tier",
)


def part_owner(provider: str) -> str:
    """Return the provider of parts that arrive over this API, because the Responses API cannot take them back."""
    return f"{provider}/chat"


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool declaration in the API's format."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def request_body(
    request: ModelRequest, tool_forms: ToolForms, provider: str, vendor: Vendor, *, stream: bool = True
) -> RequestBody:
    """Encode *request*. Raises `UnsupportedError` if the model or the vendor cannot take a setting or content."""
    check_settings(request, provider, chat=vendor.name in ("openai", "azure"))
    if vendor.lacks:
        check_lacking(request, provider, vendor.lacks, f"{vendor.name}'s Chat Completions")
    head: dict[str, Any] = {"model": request.model, "stream": stream}
    if stream and vendor.asks_usage:
        head["stream_options"] = {"include_usage": True}
    _add_settings(head, request, provider, vendor)
    lists: dict[str, Iterable[str]] = {}
    if request.tools and (request.tool_choice != "none" or "none" in vendor.choices):
        lists["tools"] = tool_forms(request.tools)
        if request.tool_choice != "auto":
            head["tool_choice"] = _tool_choice(request.tool_choice, request.model, provider, vendor)
        if not request.parallel_tool_calls and vendor.parallel_switch:
            head["parallel_tool_calls"] = False
    encoder = MessageEncoder(provider, vendor)
    messages = [message.wire(encoder.style, encoder.wire) for message in request.messages]
    mark, marks = _breakpoint(request.model, provider, vendor), request.breakpoints
    if mark is not None and marks is not None:
        messages = with_breakpoints(messages, marks, mark, "text")
        if mark is BREAKPOINT:
            head["prompt_cache_options"] = EXPLICIT
    system: list[str] = []
    if request.system:
        system_mark = mark if marks is not None and len(marks) < MAX_BREAKPOINTS else None
        system = [dumps({"role": "system", "content": system_content(request.system, system_mark, "text")})]
    lists["messages"] = system + _in_order(messages, vendor.bridge)
    return RequestBody(encode_body(head, request.extra, lists), dropped_content(messages, provider, "assistant"))


def _add_settings(head: dict[str, Any], request: ModelRequest, provider: str, vendor: Vendor) -> None:
    named = {"max_output_tokens": vendor.limit, "seed": vendor.seed}
    for name in _SETTINGS:
        if (value := getattr(request, name)) not in (None, "", ()):
            head[named.get(name, name)] = value
    if request.logprobs is not None:
        head["logprobs"] = True
        if request.logprobs:
            head["top_logprobs"] = request.logprobs
    if request.cache_key and vendor.cache_key:
        head["prompt_cache_key"] = request.cache_key
    if request.output_schema is not None:
        if not vendor.schemas:
            raise unsupported(provider, request.model, "output_schema", "force a tool with this schema")
        schema = request.output_schema
        form = {"name": schema.name, "schema": schema.schema, "strict": schema.strict}
        head["response_format"] = {"type": "json_schema", "json_schema": form}
    if request.effort is not None and supported_efforts(request.model) != ("none",):
        if not vendor.effort:
            raise unsupported(provider, request.model, f"effort={request.effort!r}", "leave it out")
        head[vendor.effort] = {"effort": request.effort} if vendor.effort == "reasoning" else request.effort


def _breakpoint(model: str, provider: str, vendor: Vendor) -> dict[str, Any] | None:
    if vendor.breakpoints:
        return CACHE_CONTROL
    return BREAKPOINT if provider == "openai" and cache_rule(provider, model).breakpoints else None


def _tool_choice(choice: ToolChoice, model: str, provider: str, vendor: Vendor) -> object:
    forced = isinstance(choice, ForcedTool)
    if ("forced" if forced else choice) not in vendor.choices:
        raise unsupported(provider, model, "tool_choice", 'leave it at "auto", or send no tools')
    if isinstance(choice, ForcedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return vendor.required if choice == "required" else choice


def _in_order(messages: list[WireMessage], bridge: str) -> list[str]:
    """Return the messages' JSON, with the media of tool results after the last of consecutive results.

    Nothing may separate consecutive results. *bridge* is the text of an assistant message between results and a user
    message, for vendors that require one.
    """
    between = [dumps({"role": "assistant", "content": bridge})] if bridge else []
    ordered: list[str] = []
    media: list[str] = []
    last = ""
    for message in messages:
        if message.role == "tool":
            ordered.append(message.first)
            if message.rest:
                media.append(message.rest)
        else:
            if last == "tool" and (media or message.role != "assistant"):
                ordered += between
            ordered += media
            media = []
            ordered.append(message.rest)
        last = message.role
    return ordered + between + media if media else ordered


class MessageEncoder:
    """Encodes messages for a vendor; `style` identifies the encoding."""

    def __init__(self, provider: str, vendor: Vendor) -> None:
        self._owner = part_owner(provider)
        self._vendor = vendor
        self.style = f"chat:{vendor.name}:{provider}"

    def wire(self, message: Message) -> WireMessage:
        """Encode *message*."""
        match message:
            case UserMessage(text, media):
                if not media:
                    return WireMessage("user", "", dumps({"role": "user", "content": text}))
                parts, refused = self._media_parts(media)
                parts += [{"type": "text", "text": text}] if text else []
                return WireMessage("user", "", dumps({"role": "user", "content": parts}), refused, "; ".join(refused))
            case SystemMessage(text):
                role, content = "system", text
                if not self._vendor.system_inside:
                    role, content = "user", f"<system>\n{text}\n</system>"
                return WireMessage(role, "", dumps({"role": role, "content": content}))
            case ToolMessage(call_id, name, content):
                first = dumps({"role": "tool", "tool_call_id": self._id(call_id), "content": content})
                if not message.media:
                    return WireMessage("tool", first, "")
                parts, refused = self._media_parts(message.media)
                parts.append({"type": "text", "text": f"(This is what {name} returned.)"})
                form = dumps({"role": "user", "content": parts})
                return WireMessage("tool", first, form, refused, "; ".join(refused))
            case AssistantMessage():
                return self._assistant(message)

    def _assistant(self, message: AssistantMessage) -> WireMessage:
        form: dict[str, Any] = {"role": "assistant", "content": None}
        calls: list[dict[str, Any]] = []
        texts: list[str] = []
        thoughts: list[dict[str, Any]] = []
        for part in message.parts:
            own = part.provider == self._owner
            if part.kind == "tool_call":
                calls.append(self._call(part, own=own))
            elif part.kind == "reasoning":
                if own:
                    self._add_reasoning(form, thoughts, part.text, part.raw)
            elif part.kind == "text" and not (own and part.raw):
                texts.append(part.text)
            elif own and part.raw and part.kind != "opaque":  # an opaque part is metadata
                form.update(json.loads(part.raw))
        text = "".join(texts)
        if thoughts:
            form["content"] = [*thoughts, {"type": "text", "text": text}] if text else thoughts
        else:
            form["content"] = text or (None if calls or len(form) > 2 else "")
        if calls:
            form["tool_calls"] = calls
            if self._vendor.reasoned_calls:
                form.setdefault(self._vendor.reasoning, "")
        return WireMessage("assistant", "", dumps(form), tuple(self._dropped(message)))

    def _dropped(self, message: AssistantMessage) -> Iterator[str]:
        for part in message.parts:
            if part.kind == "media":  # no server takes images of an assistant; a recording's transcript is sent
                yield f"{part.media.kind} of an answer"
                continue
            yield from dropped_of(part, self._owner)
            if part.kind == "reasoning" and part.provider == self._owner and part.text and not self._vendor.reasoning:
                yield f"reasoning of {self._vendor.name}"

    def _call(self, part: ToolCall, *, own: bool) -> dict[str, Any]:
        function = {"name": portable_name(part.name), "arguments": arguments_text(part.arguments)}
        extras = json.loads(part.raw) if own and part.raw else {}
        return {"id": self._id(part.id), "type": "function", "function": function, **extras}

    def _add_reasoning(self, form: dict[str, Any], thoughts: list[dict[str, Any]], text: str, raw: str | None) -> None:
        field = self._vendor.reasoning
        if field == "parts":
            thoughts.append(
                json.loads(raw) if raw else {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            )
        elif field == "reasoning_details":
            form.update(json.loads(raw) if raw else {"reasoning": form.get("reasoning", "") + text})
        elif field:
            form[field] = form.get(field, "") + text

    def _media_parts(self, media: tuple[Media, ...]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        parts: list[dict[str, Any]] = []
        refused: list[str] = []
        for item in media:
            part = self._media_part(item)
            if part is None:
                remedy = "send it in another form, or ask a provider that takes it"
                refused.append(media_refusal(item, f"{self._vendor.name} over Chat Completions", remedy))
                part = {"type": "text", "text": media_placeholder(item)}
            parts.append(part)
        return parts, tuple(refused)

    def _media_part(self, item: Media) -> dict[str, Any] | None:
        if is_text(item):
            return {"type": "text", "text": f"<document name={dumps(item.name)}>\n{media_text(item)}\n</document>"}
        return _media_form(item) if item.kind in self._vendor.media else None

    def _id(self, call_id: str) -> str:
        if not self._vendor.short_ids:
            return portable_id(call_id, _LONGEST_ID) if self._vendor.plain_ids or not call_id else call_id
        if _SHORT_ID.fullmatch(call_id):
            return call_id
        return blake2b(call_id.encode("utf-8", "replace"), digest_size=5).hexdigest()[:9]


def _media_form(item: Media) -> dict[str, Any] | None:
    """Return a content part, or None if the format has none for this type and source."""
    kind, given = item.kind, item.data is not None
    if kind == "image" and media_type(item) in IMAGES and (given or item.url):
        return {"type": "image_url", "image_url": {"url": media_url(item)}}
    if kind == "video" and (given or item.url):
        return {"type": "video_url", "video_url": {"url": media_url(item)}}
    if kind == "audio" and given and media_type(item) in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": item.data, "format": _AUDIO[media_type(item)]}}
    if media_type(item) == "application/pdf" and (given or item.file_id is not None):
        file = {"filename": item.name or "document.pdf", "file_data": media_url(item)}
        return {"type": "file", "file": file if item.file_id is None else {"file_id": item.file_id}}
    return None
