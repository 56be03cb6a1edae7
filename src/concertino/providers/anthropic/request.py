"""Encode a `ModelRequest` for the Messages API.

Facts are from Anthropic's API reference ("Create a Message", "Tool use", "Extended thinking") and the SDK's parameter
types. Its less obvious rules:

- `max_tokens` is required.
- All results of one turn's calls come first in the user message right after the calls.
- The conversation begins with a user message. Blank text blocks and answers that end in reasoning are refused.
- Ids of calls and names of tools consist of `[a-zA-Z0-9_-]`; those of other providers, or invented by a model, may not.
- Calls and results in the history require declared tools, even if none may be called.
- At most four blocks are marked for caching; the API looks for a cached prefix about 20 blocks back ("Prompt caching").
  Reasoning and empty blocks cannot be marked.
- Reasoning excludes temperature, and reasoning with a token budget a tool choice other than `auto` or `none`
  ("Extended thinking").
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ...messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    Message,
    MessagePart,
    SystemMessage,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from ..base import ModelRequest
from ..catalog import check_lacking, check_settings, reasons_by_effort, unsupported
from ..http.encoding import (
    IMAGES,
    RequestBody,
    ToolForms,
    WireMessage,
    arguments_object,
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
    portable_id,
    portable_name,
    replace_fields,
    turns,
)
from ..http.image_scaling import scaled

PROVIDER = "anthropic"
REDACTED = "redacted"
"""The id of a `Reasoning` whose signature is the data of a `redacted_thinking` block."""
CONTAINER = "container"
"""The type of an `Opaque` with the container of the provider's own tools, a field of the request, not a message."""

_NO_TOOL = dumps({"name": "unavailable", "description": "No tool may be used now.", "input_schema": {"type": "object"}})
_OPENING = dumps({"type": "text", "text": "(The conversation continues.)"})
_EDGE = 2_576
"""Pixels of an image's longer side that a model uses at most ("Vision": Opus 4.7 and later; 1,568 before)."""
_MAX_BREAKPOINTS = 4
_BREAKPOINT = ',"cache_control":{"type":"ephemeral"}'
_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 24_576}
_MIN_BUDGET = 1_024
_HAS_CALLS = "tools"
"""In a message's `note`: it contains calls or results. A container may follow after a space, then its expiry."""
_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "stop": "stop_sequences", "service_tier": "service_tier"}
_LACKS = frozenset({"seed", "frequency_penalty", "presence_penalty", "logprobs"})
_THINKING = ('{"type":"thinking"', '{"type":"redacted_thinking"')


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool declaration in the API's format."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def request_body(request: ModelRequest, max_tokens: int, tool_forms: ToolForms, *, stream: bool = True) -> RequestBody:
    """Encode *request*; *max_tokens* applies if it sets no limit.

    Raises `UnsupportedError` if the model cannot take a setting or content.
    """
    check_settings(request, PROVIDER)
    check_lacking(request, PROVIDER, _LACKS, "the Messages API")
    messages = [message.wire(PROVIDER, _wire) for message in request.messages]
    for index in request.breakpoints or ():
        messages[index] = _with_breakpoint(messages[index])
    limit = request.max_output_tokens or max_tokens
    head: dict[str, Any] = {"model": request.model, "max_tokens": limit, "stream": stream}
    lists: dict[str, Iterable[str]] = {}
    _add_beginning(head, lists, request, tool_forms)
    _add_settings(head, request, limit, messages)
    if not request.tools and any(message.note for message in messages):
        lists["tools"] = [_NO_TOOL]
        head["tool_choice"] = {"type": "none"}
    if "tools" in request.extra and (container := _container(messages)):
        head["container"] = container
    lists["messages"] = turns(messages, "content", _OPENING)
    dropped = dropped_content(messages, PROVIDER, "assistant")
    return RequestBody(encode_body(head, request.extra, lists), dropped)


def _add_beginning(
    head: dict[str, Any], lists: dict[str, Iterable[str]], request: ModelRequest, tool_forms: ToolForms
) -> None:
    """Add system prompt and tools, with a breakpoint at their end if the messages leave one."""
    mark = request.breakpoints is not None and len(request.breakpoints) < _MAX_BREAKPOINTS
    if request.system:
        head["system"] = request.system
        if mark:
            head["system"] = [{"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}]
    if request.tools:
        tools = tool_forms(request.tools)
        if mark and not request.system:
            tools = [*tools[:-1], tools[-1][:-1] + _BREAKPOINT + "}"]
        lists["tools"] = tools
        choice = _tool_choice(request.tool_choice, parallel=request.parallel_tool_calls)
        if choice != {"type": "auto"}:
            head["tool_choice"] = choice


def _add_settings(head: dict[str, Any], request: ModelRequest, limit: int, messages: Sequence[WireMessage]) -> None:
    for name, wire in _SETTINGS.items():
        if (value := getattr(request, name)) not in (None, "", ()):
            head[wire] = value
    output: dict[str, Any] = {}
    if request.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": request.output_schema.schema}
    if request.effort not in (None, "none"):
        if request.temperature not in (None, 1):
            raise unsupported(PROVIDER, request.model, "temperature together with reasoning", "leave one of them out")
        if reasons_by_effort(request.model):
            head["thinking"] = {"type": "adaptive"}
            output["effort"] = request.effort
        elif not _loop_without_thinking(messages):
            head["thinking"] = {"type": "enabled", "budget_tokens": _budget(request, limit)}
    if output:
        head["output_config"] = output


def _budget(request: ModelRequest, limit: int) -> int:
    """Return the thinking budget of an answer limited to *limit* tokens."""
    if request.tools and (request.tool_choice == "required" or isinstance(request.tool_choice, ForcedTool)):
        remedy = 'choose tool_choice="auto" or effort="none"'
        raise unsupported(PROVIDER, request.model, "a forced tool together with reasoning", remedy)
    budget = max(min(_BUDGETS[request.effort or "low"], limit // 2), _MIN_BUDGET)
    if budget >= limit:
        field = f"effort={request.effort!r} with max_output_tokens={limit}"
        raise unsupported(PROVIDER, request.model, field, f"set max_output_tokens above {_MIN_BUDGET}")
    return budget


def _loop_without_thinking(messages: Sequence[WireMessage]) -> bool:
    """Return whether the tool loop at the end began without thinking, as another model's does.

    A model with a thinking budget cannot start to think inside a tool loop ("Extended thinking", "Toggling thinking
    modes in conversations").
    """
    first = None
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "assistant":
            if not message.note.startswith(_HAS_CALLS):
                break
            first = message
        elif message.rest and not (index and messages[index - 1].first):  # a user turn, not text next to results
            break
    return first is not None and not first.rest.startswith(_THINKING)


def _tool_choice(choice: ToolChoice, *, parallel: bool) -> dict[str, Any]:
    if choice == "none":
        return {"type": "none"}
    if isinstance(choice, ForcedTool):
        form: dict[str, Any] = {"type": "tool", "name": choice.name}
    else:
        form = {"type": "any" if choice == "required" else "auto"}
    if not parallel:
        form["disable_parallel_tool_use"] = True
    return form


def _with_breakpoint(message: WireMessage) -> WireMessage:
    """Return *message* with a cache breakpoint on its last block."""
    if message.rest:
        return message._replace(rest=f"{message.rest[:-1]}{_BREAKPOINT}}}")
    return message._replace(first=f"{message.first[:-1]}{_BREAKPOINT}}}") if message.first else message


def _container(messages: list[WireMessage]) -> str:
    """Return the newest container, or "" without one, or if it has expired."""
    for message in reversed(messages):
        _, _, container = message.note.partition(" ")
        if container:
            name, _, expiry = container.partition(" ")
            alive = not expiry or datetime.fromisoformat(expiry).timestamp() > time.time()
            return name if alive else ""
    return ""


def _wire(message: Message) -> WireMessage:
    match message:
        case UserMessage(text, media):
            texts = [] if media and not text.strip() else [_text(text if text.strip() else "(empty)")]
            blocks, refused = _media_blocks(media)
            return WireMessage("user", "", ",".join([*blocks, *texts]), refused, "; ".join(refused))
        case SystemMessage(text):
            # Not every model takes the role `system` inside the conversation, so it is tagged text of the user turn.
            return WireMessage("user", "", _text(f"<system>\n{text}\n</system>"))
        case ToolMessage():
            return _tool_result(message)
        case AssistantMessage():
            return _assistant(message)


def _tool_result(message: ToolMessage) -> WireMessage:
    content = message.content
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": portable_id(message.call_id), "content": content}
    if message.is_error:
        result["is_error"] = True
    if not message.media:
        return WireMessage("user", dumps(result), "", note=_HAS_CALLS)
    del result["content"]
    blocks, refused = _media_blocks(message.media)
    inner = ",".join(([_text(content)] if content.strip() else []) + blocks)
    first = f'{dumps(result)[:-1]},"content":[{inner}]}}'
    return WireMessage("user", first, "", refused, "; ".join(refused), _HAS_CALLS)


def _assistant(message: AssistantMessage) -> WireMessage:
    blocks = [(part.kind, block) for part in message.parts if (block := _block(part))]
    dropped = [description for part in message.parts for description in dropped_of(part, PROVIDER)]
    while blocks and blocks[-1][0] == "reasoning":
        blocks.pop()
        dropped.append(f"reasoning of {PROVIDER}")
    content = ",".join(block for _, block in blocks)
    return WireMessage("assistant", "", content, tuple(dropped), note=_note(message))


def _note(message: AssistantMessage) -> str:
    note = _HAS_CALLS if message.tool_calls else ""
    for part in message.parts:
        if part.kind == "opaque" and part.provider == PROVIDER and part.type == CONTAINER:
            container = json.loads(part.raw)
            note += f" {container['id']} {container.get('expires_at') or ''}"
    return note


def _block(part: MessagePart) -> str:
    """Return a part as a block, or "" if it is not sent."""
    if part.kind == "tool_call":
        return _call(part)
    if part.raw is not None and part.provider == PROVIDER:
        return "" if part.kind == "opaque" and part.type == CONTAINER else part.raw
    if part.kind == "text":
        return _text(part.text) if part.text.strip() else ""
    if part.kind != "reasoning" or part.provider != PROVIDER or not part.signature:
        return ""
    if part.id == REDACTED:
        return dumps({"type": "redacted_thinking", "data": part.signature})
    return dumps({"type": "thinking", "thinking": part.text, "signature": part.signature})


def _call(part: ToolCall) -> str:
    identity = {"id": portable_id(part.id), "name": portable_name(part.name)}
    if part.raw is not None and part.provider == PROVIDER and is_object(part.arguments):
        return replace_fields(part.raw, **identity)
    return dumps({"type": "tool_use", **identity, "input": arguments_object(part.arguments)})


def _media_blocks(media: tuple[Media, ...]) -> tuple[list[str], tuple[str, ...]]:
    """Return blocks for *media*, with placeholders for what the API cannot take, and the refusals' messages."""
    blocks: list[str] = []
    refused: list[str] = []
    for item in media:
        form = _media_block(item)
        if form is None:
            refused.append(media_refusal(item, "Anthropic's API", "send text, an image or a PDF, or ask Google"))
        blocks.append(_text(media_placeholder(item)) if form is None else dumps(form))
    return blocks, tuple(refused)


def _media_block(item: Media) -> dict[str, Any] | None:
    """Return a block, or None if the API takes no such media."""
    source = _source(item)
    if source is None:
        return None
    block: dict[str, Any] = {"type": item.kind, "source": source}
    if item.kind == "document" and item.name:
        block["title"] = item.name
    return block


def _source(item: Media) -> dict[str, Any] | None:
    """Return the source of an image, a PDF or a text. The API fetches images and PDFs only."""
    kind = media_type(item)
    if kind in IMAGES or kind == "application/pdf":
        if item.data is not None:
            sent = scaled(item, _EDGE) if kind in IMAGES else item
            return {"type": "base64", "media_type": kind, "data": sent.data}
        if item.url:
            return {"type": "url", "url": item.url}
        return {"type": "file", "file_id": item.file_id} if item.file_id else None
    if is_text(item):
        return {"type": "text", "media_type": "text/plain", "data": media_text(item)}
    return {"type": "file", "file_id": item.file_id} if item.file_id and kind == "text/plain" else None


def _text(text: str) -> str:
    return dumps({"type": "text", "text": text})
