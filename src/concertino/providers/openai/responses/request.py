"""A `ModelRequest` as a request of the Responses API.

Facts of the protocol are from OpenAI's API reference ("Create a model response") and its guides on reasoning and
function calling. Nothing is stored at OpenAI (`store` is false), so items go back as they came, and reasoning comes
encrypted and goes back so:

- a `reasoning` item is refused without the item that came after it, and without its encrypted content;
- an item with an id is refused without the `reasoning` item that came before it, and those of the provider's own
  tools cannot do without an id;
- models that do not reason refuse to be asked for encrypted reasoning;
- there are no stop texts; a key brings prompts with one prefix together in the cache, and models before GPT-5.6 know no
  marks; at least 16 tokens of output may be asked for.

Servers with open models (DeepSeek) give reasoning in plain `content`, and it goes back so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from ....messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    Message,
    Part,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
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
    is_object,
    losses,
    lost,
    plain_id,
    plain_name,
)
from ..chat.cache import BREAKPOINT, EXPLICIT, MOST_MARKS, marked
from ..chat.cache import system as system_content
from . import custom_tools as client_calls

_REASONS = re.compile(r"(o\d|gpt-([5-9]|\d\d)|codex|computer-use|grok-[4-9])(?!.*-chat)")
_LEAST_OUTPUT = 16
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
    """Writes messages as input items for *provider*. *encrypted*: its encrypted reasoning may go along; *stored*: it
    keeps what it answered, so reasoning may go back by its id."""

    def __init__(self, provider: str, *, encrypted: bool, stored: bool = False) -> None:
        self._provider = provider
        self._encrypted = encrypted
        self._stored = stored
        self._style = f"responses:{provider}:{encrypted:d}{stored:d}"

    def __call__(self, messages: Sequence[Message]) -> list[Form]:
        """The forms of *messages*."""
        return client_calls.with_outputs(messages, [message.wire(self._style, self._form) for message in messages])

    def _form(self, message: Message) -> Form:
        match message:
            case UserMessage(text, shown):
                if not shown:
                    return Form("user", "", dumps({"role": "user", "content": text}))
                parts, refused = _shown(shown)
                parts += [{"type": "input_text", "text": text}] if text else []
                return Form("user", "", dumps({"role": "user", "content": parts}), refused, "; ".join(refused))
            case SystemMessage(text):
                return Form("developer", "", dumps({"role": "developer", "content": text}))
            case ToolMessage(call_id, _, content):
                output: object = content
                refused = ()
                if message.media:
                    parts, refused = _shown(message.media)
                    output = ([{"type": "input_text", "text": content}] if content else []) + parts
                item = {"type": "function_call_output", "call_id": plain_id(call_id), "output": output}
                return Form("tool", "", dumps(item), refused)
            case AssistantMessage():
                return self._assistant(message)

    def _assistant(self, message: AssistantMessage) -> Form:
        own = [part for part in message.parts if part.kind == "reasoning" and part.provider == self._provider]
        gone = [part for part in own if not self._returns(part)]
        bare = bool(gone) or not _all_followed(message.parts)
        items: list[str] = []
        held: list[str] = []  # reasoning that waits for the item it belongs to
        dropped: list[str] = [f"reasoning of {self._provider}"] * sum(bool(part.signature) for part in gone)
        for part in message.parts:
            dropped += lost(part, self._provider)
            if part.kind == "reasoning":
                if part.provider == self._provider and part not in gone:
                    held.append(_reasoning(part, bare=bare))
                continue
            if part.kind == "opaque":
                own_item = part.provider == self._provider and part.type not in ASIDE
                item = _bare(part.raw) if own_item and not gone else ""
                dropped += [f"{part.type} of {part.provider}"] if own_item and gone else []
            else:
                item = self._item(part, bare=bare)
            if item:
                items += [*held, item]
                held = []
        dropped += [f"reasoning of {self._provider}"] * len(held)
        mark = client_calls.mark(message, self._provider)
        return Form("assistant", "", ",".join(items), tuple(dropped), mark=mark)

    def _returns(self, part: Reasoning) -> bool:
        if part.signature and self._encrypted:
            return True
        return (self._stored and part.id is not None) or (part.raw is not None and _is_plain(part.raw))

    def _item(self, part: Text | ToolCall, *, bare: bool) -> str:
        """*bare*: without its id, since reasoning that it names is left out, or is bare itself."""
        raw = part.raw if part.provider == self._provider else None
        if part.kind == "text":
            if raw is not None:
                return _bare(raw, id=None) if bare else _bare(raw)
            return dumps({"role": "assistant", "content": part.text}) if part.text else ""
        named = {"call_id": plain_id(part.id), "name": plain_name(part.name)}
        if raw is not None and is_object(part.arguments):
            if '"name":' not in raw:
                del named["name"]  # a shell
            return _bare(raw, id=None, **named) if bare else _bare(raw, **named)
        arguments = arguments_text(part.arguments)
        return dumps({"type": "function_call", **named, "arguments": arguments})


def _bare(raw: str, **fields: Any) -> str:
    """An item as it came, without what is null, which answers have and requests may not."""
    item = {**json.loads(raw), **fields}
    return dumps({name: value for name, value in item.items() if value is not None})


def _is_plain(raw: str) -> bool:
    """Whether a reasoning item says in plain words what it is."""
    return bool(json.loads(raw).get("content"))


def _all_followed(parts: Sequence[Part]) -> bool:
    """Whether what stands behind each reasoning is the very item that came after it."""
    pairs = [(part, after) for part, after in pairwise(parts) if part.kind == "reasoning" != after.kind]
    return all(after.raw is not None and after.provider == part.provider for part, after in pairs)


def _reasoning(part: Reasoning, *, bare: bool) -> str:
    """*bare*: without its id, which would name the item that came after it."""
    if part.raw is not None:
        return _bare(part.raw, id=None) if bare and part.signature else _bare(part.raw)
    item: dict[str, Any] = {"type": "reasoning"}
    if part.id and not (bare and part.signature):
        item["id"] = part.id
    item["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    item["encrypted_content"] = part.signature
    return dumps(item)


def _shown(shown: tuple[Media, ...]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    parts: list[dict[str, Any]] = []
    refused: list[str] = []
    for item in shown:
        part = _media(item)
        if part is None:
            remedy = 'send text, an image or a document, or use api="chat" for audio'
            refused.append(media.refusal(item, "OpenAI's Responses API", remedy))
        parts.append(part or {"type": "input_text", "text": media.placeholder(item)})
    return parts, tuple(refused)


def _media(item: Media) -> dict[str, Any] | None:
    kind = media.kind_of(item)
    if kind == "image":
        where = {"file_id": item.file_id} if item.file_id else {"image_url": media.data_url(item)}
        return {"type": "input_image", "detail": "auto", **where}
    if kind != "document":
        return None
    if item.file_id:
        return {"type": "input_file", "file_id": item.file_id}
    if item.url:
        return {"type": "input_file", "file_url": item.url}
    return {"type": "input_file", "filename": item.name or "document.pdf", "file_data": media.data_url(item)}


def request_body(
    request: ModelRequest, provider: str, tool_forms: ToolForms, *, encrypted: bool, stream: bool = True
) -> Body:
    """The finished JSON. *encrypted* asks for reasoning that can be sent back.

    Raises `UnsupportedError` for what the model cannot do.
    """
    catalogue.check(request, provider)
    extra = request.extra
    head: dict[str, Any] = {"model": request.model, "stream": stream, "store": False}
    if encrypted:
        head["include"] = [ENCRYPTED]
        if ENCRYPTED not in extra.get("include", (ENCRYPTED,)):
            extra = {**extra, "include": [*extra["include"], ENCRYPTED]}
    if request.max_output_tokens is not None:
        head["max_output_tokens"] = max(request.max_output_tokens, _LEAST_OUTPUT)
    _settings(head, request, provider)
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        own = client_calls.declared(extra.get("tools"))  # declared there, and answered by tools of the engine
        forms_of_tools = zip(request.tools, tool_forms(request.tools), strict=True)
        lists["tools"] = [form for tool, form in forms_of_tools if tool.name not in own]
        if request.tool_choice != "auto":
            head["tool_choice"] = _tool_choice(request.tool_choice, own)
        if not request.parallel_tool_calls:
            head["parallel_tool_calls"] = False
    forms = Items(provider, encrypted=encrypted, stored=extra.get("store") is True)(request.messages)
    begins: list[str] = []
    if request.marks is not None and provider == "openai" and catalogue.takes_breakpoints(request.model):
        head["prompt_cache_options"] = EXPLICIT
        forms = marked(forms, request.marks, BREAKPOINT, "input_text")
        if request.system:  # `instructions` could not bear a mark
            mark = BREAKPOINT if len(request.marks) < MOST_MARKS else None
            content = system_content(request.system, mark, "input_text")
            begins = [dumps({"role": "developer", "content": content})]
    elif request.system:
        head["instructions"] = request.system
    lists["input"] = begins + [form.rest for form in forms if form.rest]
    return Body(body(head, extra, lists), losses(forms, provider, "assistant"))


def _settings(head: dict[str, Any], request: ModelRequest, provider: str) -> None:
    if request.stop:
        raise catalogue.unsupported(provider, request.model, "stop over the Responses API", 'use api="chat"')
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.effort is not None and catalogue.efforts(request.model) != ("none",):
        head["reasoning"] = {"effort": request.effort}
    if request.cache_key:
        head["prompt_cache_key"] = request.cache_key
    if request.output_schema is not None:
        named = request.output_schema
        form = {"type": "json_schema", "name": named.name, "schema": named.schema, "strict": named.strict}
        head["text"] = {"format": form}


def _tool_choice(choice: ToolChoice, own: dict[str, dict[str, Any]]) -> object:
    if not isinstance(choice, ForcedTool):
        return choice
    return own.get(choice.name) or {"type": "function", "name": choice.name}
