"""A `ModelRequest` as a request of Chat Completions.

Facts of the protocol are from OpenAI's API reference ("Create chat completion"); how others differ is in `vendors`.
Other servers know fewer settings, so nothing is sent that says what is the default anyway. Reasoning goes back where
the vendor has a place for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from ....messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    Message,
    SystemMessage,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from ... import catalog as catalogue
from ...base import ModelRequest
from ...http import encoding as media
from ...http.encoding import (
    ASIDE,
    Body,
    Form,
    ToolForms,
    arguments_text,
    body,
    dumps,
    losses,
    lost,
    plain_id,
    plain_name,
)
from .cache import BREAKPOINT, CACHE_CONTROL, EXPLICIT, MOST_MARKS, marked
from .cache import system as system_content
from .vendors import Vendor

_SHORT = re.compile(r"[a-zA-Z0-9]{9}")
_LONGEST_ID = 40  # of OpenAI
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def label(provider: str) -> str:
    """Whose the parts are that come over this API: what Chat Completions gives, the Responses API cannot take."""
    return f"{provider}/chat"


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the API's form."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def request_body(
    request: ModelRequest, tool_forms: ToolForms, provider: str, vendor: Vendor, *, stream: bool = True
) -> Body:
    """The finished JSON. Raises `UnsupportedError` for what the model or the vendor cannot do."""
    catalogue.check(request, provider, chat=vendor.name in ("openai", "azure"))
    head: dict[str, Any] = {"model": request.model, "stream": stream}
    if stream and vendor.asks_usage:
        head["stream_options"] = {"include_usage": True}
    if request.max_output_tokens is not None:
        head[vendor.limit] = request.max_output_tokens
    _settings(head, request, provider, vendor)
    lists: dict[str, Iterable[str]] = {}
    if request.tools and (request.tool_choice != "none" or "none" in vendor.choices):
        lists["tools"] = tool_forms(request.tools)
        if request.tool_choice != "auto":
            head["tool_choice"] = _tool_choice(request.tool_choice, request.model, provider, vendor)
        if not request.parallel_tool_calls and vendor.parallel_switch:
            head["parallel_tool_calls"] = False
    writer = _Writer(provider, vendor)
    forms = [message.wire(writer.style, writer.form) for message in request.messages]
    mark, marks = _mark(request.model, provider, vendor), request.marks
    if mark is not None and marks is not None:
        forms = marked(forms, marks, mark, "text")
        if mark is BREAKPOINT:
            head["prompt_cache_options"] = EXPLICIT
    system: list[str] = []
    if request.system:
        begins = mark if marks is not None and len(marks) < MOST_MARKS else None
        system = [dumps({"role": "system", "content": system_content(request.system, begins, "text")})]
    lists["messages"] = system + _in_order(forms, vendor.bridge)
    return Body(body(head, request.extra, lists), losses(forms, provider, "assistant"))


def _settings(head: dict[str, Any], request: ModelRequest, provider: str, vendor: Vendor) -> None:
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.stop:
        head["stop"] = request.stop
    if request.cache_key and vendor.cache_key:
        head["prompt_cache_key"] = request.cache_key
    if request.output_schema is not None:
        if not vendor.schemas:
            raise catalogue.unsupported(provider, request.model, "output_schema", "force a tool with this schema")
        named = request.output_schema
        form = {"name": named.name, "schema": named.schema, "strict": named.strict}
        head["response_format"] = {"type": "json_schema", "json_schema": form}
    if request.effort is not None and catalogue.efforts(request.model) != ("none",):
        if not vendor.effort:
            raise catalogue.unsupported(provider, request.model, f"effort={request.effort!r}", "leave it out")
        objects = vendor.effort == "reasoning"
        head[vendor.effort] = {"effort": request.effort} if objects else request.effort


def _mark(model: str, provider: str, vendor: Vendor) -> dict[str, Any] | None:
    if vendor.breakpoints:
        return CACHE_CONTROL
    return BREAKPOINT if provider == "openai" and catalogue.takes_breakpoints(model) else None


def _tool_choice(choice: ToolChoice, model: str, provider: str, vendor: Vendor) -> object:
    forced = isinstance(choice, ForcedTool)
    if ("forced" if forced else choice) not in vendor.choices:
        raise catalogue.unsupported(provider, model, "tool_choice", 'leave it at "auto", or send no tools')
    if isinstance(choice, ForcedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return vendor.required if choice == "required" else choice


def _in_order(forms: list[Form], bridge: str) -> list[str]:
    """The messages, with what results show behind the last of them: nothing may stand between results. *bridge* is what
    stands between these and the user's."""
    between = [dumps({"role": "assistant", "content": bridge})] if bridge else []
    found: list[str] = []
    waiting: list[str] = []
    last = ""
    for form in forms:
        if form.role == "tool":
            found.append(form.first)
            if form.rest:
                waiting.append(form.rest)
        else:
            if last == "tool" and (waiting or form.role != "assistant"):
                found += between
            found += waiting
            waiting = []
            found.append(form.rest)
        last = form.role
    return found + between + waiting if waiting else found


class _Writer:
    """Writes messages for a vendor."""

    def __init__(self, provider: str, vendor: Vendor) -> None:
        self._label = label(provider)
        self._vendor = vendor
        self.style = f"chat:{vendor.name}:{provider}"

    def form(self, message: Message) -> Form:
        """A message in the vendor's form."""
        match message:
            case UserMessage(text, shown):
                if not shown:
                    return Form("user", "", dumps({"role": "user", "content": text}))
                parts, refused = self._shown(shown)
                parts += [{"type": "text", "text": text}] if text else []
                return Form("user", "", dumps({"role": "user", "content": parts}), refused, "; ".join(refused))
            case SystemMessage(text):
                role, said = (
                    ("system", text) if self._vendor.system_inside else ("user", f"<system>\n{text}\n</system>")
                )
                return Form(role, "", dumps({"role": role, "content": said}))
            case ToolMessage(call_id, name, content):
                first = dumps({"role": "tool", "tool_call_id": self._id(call_id), "content": content})
                if not message.media:
                    return Form("tool", first, "")
                parts, refused = self._shown(message.media)
                parts.append({"type": "text", "text": f"(This is what {name} returned.)"})
                return Form("tool", first, dumps({"role": "user", "content": parts}), refused)
            case AssistantMessage():
                return self._assistant(message)

    def _assistant(self, message: AssistantMessage) -> Form:
        form: dict[str, Any] = {"role": "assistant", "content": None}
        calls: list[dict[str, Any]] = []
        texts: list[str] = []
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            own = part.provider == self._label
            if part.kind == "tool_call":
                function = {"name": plain_name(part.name), "arguments": arguments_text(part.arguments)}
                more = json.loads(part.raw) if own and part.raw else {}
                calls.append({"id": self._id(part.id), "type": "function", "function": function, **more})
            elif part.kind == "text":
                if own and part.raw:
                    form.update(json.loads(part.raw))
                else:
                    texts.append(part.text)
            elif part.kind == "reasoning":
                self._think(form, parts, part.text, part.raw, own=own)
            elif own and part.type not in ASIDE:
                form.update(json.loads(part.raw))
        text = "".join(texts)
        if parts:
            form["content"] = [*parts, {"type": "text", "text": text}] if text else parts
        else:
            form["content"] = text or (None if calls or len(form) > 2 else "")
        if calls:
            form["tool_calls"] = calls
            if self._vendor.reasoned_calls:
                form.setdefault(self._vendor.reasoning, "")
        dropped = tuple(word for part in message.parts for word in lost(part, self._label))
        return Form("assistant", "", dumps(form), dropped)

    def _think(
        self, form: dict[str, Any], parts: list[dict[str, Any]], text: str, raw: str | None, *, own: bool
    ) -> None:
        field = self._vendor.reasoning
        if not own or not field:
            return
        if field == "parts":
            parts.append(json.loads(raw) if raw else _thinking(text))
        elif field == "reasoning_details":
            form.update(json.loads(raw) if raw else {"reasoning": form.get("reasoning", "") + text})
        else:
            form[field] = form.get(field, "") + text

    def _shown(self, shown: tuple[Media, ...]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        parts: list[dict[str, Any]] = []
        refused: list[str] = []
        for item in shown:
            part = self._media(item)
            if part is None:
                remedy = "send it in another form, or ask a provider that takes it"
                refused.append(media.refusal(item, f"{self._vendor.name} over Chat Completions", remedy))
                part = {"type": "text", "text": media.placeholder(item)}
            parts.append(part)
        return parts, tuple(refused)

    def _media(self, item: Media) -> dict[str, Any] | None:
        if item.media_type.startswith("text/") and item.data is not None:
            return {"type": "text", "text": f"<document name={dumps(item.name)}>\n{media.text_of(item)}\n</document>"}
        kind = media.kind_of(item)
        part: dict[str, Any] | None = None
        if kind not in self._vendor.media:
            return part
        if kind == "image" and item.file_id is None:
            part = {"type": "image_url", "image_url": {"url": media.data_url(item)}}
        elif kind == "audio" and item.data is not None and item.media_type in _AUDIO:
            part = {"type": "input_audio", "input_audio": {"data": item.data, "format": _AUDIO[item.media_type]}}
        elif kind == "document" and item.file_id is not None:
            part = {"type": "file", "file": {"file_id": item.file_id}}
        elif kind == "document" and item.data is not None:
            file = {"filename": item.name or "document.pdf", "file_data": media.data_url(item)}
            part = {"type": "file", "file": file}
        return part

    def _id(self, call_id: str) -> str:
        if not self._vendor.short_ids:
            return plain_id(call_id, _LONGEST_ID) if self._vendor.plain_ids or not call_id else call_id
        if _SHORT.fullmatch(call_id):
            return call_id
        return blake2b(call_id.encode("utf-8", "replace"), digest_size=5).hexdigest()[:9]


def _thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
