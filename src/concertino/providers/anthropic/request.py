"""A `ModelRequest` as a request of the Messages API.

Facts of the protocol are from Anthropic's API reference ("Create a Message", "Tool use", "Extended thinking") and
the SDK's parameter types. What it asks for beyond the obvious:

- `max_tokens` is required.
- All results of one turn's calls stand together at the beginning of the user message right after the calls.
- The conversation begins with a user message; blank text blocks are refused, and answers that end in reasoning.
- Ids of calls and names of tools are of `[a-zA-Z0-9_-]`, which those of others, and what a model makes up, need not be.
- Calls and results in the history want tools to be defined, even where none may be called.
- What is to be cached is marked, in at most four places; the API looks for a cached prefix some 20 blocks back
  ("Prompt caching"). Blocks of reasoning and empty ones may not be marked.
- Reasoning takes no temperature, and with a budget only a tool choice of `auto` or `none` ("Extended thinking").
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
    Part,
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
from ..http.encoding import (
    Body,
    Form,
    ToolForms,
    arguments_object,
    body,
    dumps,
    is_object,
    losses,
    lost,
    plain_id,
    plain_name,
    spliced,
    turns,
)

PROVIDER = "anthropic"
REDACTED = "redacted"
"""The id of a `Reasoning` whose signature is the data of a `redacted_thinking` block."""
CONTAINER = "container"
"""The type of an `Opaque` that names where the provider's own tools ran; it goes back beside the messages."""

_NO_TOOL = dumps({"name": "unavailable", "description": "No tool may be used now.", "input_schema": {"type": "object"}})
_OPENING = dumps({"type": "text", "text": "(The conversation goes on.)"})
_MOST_MARKS = 4
_MARK = ',"cache_control":{"type":"ephemeral"}'
_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 24_576}
_LEAST_BUDGET = 1_024
_CALLS = "tools"  # in a form's mark: it has calls or results
_THINKING = ('{"type":"thinking"', '{"type":"redacted_thinking"')


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the API's form."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def request_body(request: ModelRequest, max_tokens: int, tool_forms: ToolForms, *, stream: bool = True) -> Body:
    """The finished JSON; *max_tokens* is for a request that sets no limit itself.

    Raises `UnsupportedError` for what the model cannot do.
    """
    catalogue.check(request, PROVIDER)
    forms = [message.wire(PROVIDER, _form) for message in request.messages]
    begins = request.marks is not None and len(request.marks) < _MOST_MARKS
    for place in request.marks or ():
        forms[place] = _marked(forms[place])
    most = request.max_output_tokens or max_tokens
    head: dict[str, Any] = {"model": request.model, "max_tokens": most, "stream": stream}
    if request.system:
        head["system"] = request.system
        if begins:
            head["system"] = [{"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}]
    _settings(head, request, most, forms)
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        tools = tool_forms(request.tools)
        if begins and not request.system:
            tools = [*tools[:-1], tools[-1][:-1] + _MARK + "}"]
        lists["tools"] = tools
        choice = _tool_choice(request.tool_choice, parallel=request.parallel_tool_calls)
        if choice != {"type": "auto"}:
            head["tool_choice"] = choice
    elif any(form.mark for form in forms):
        lists["tools"] = [_NO_TOOL]
        head["tool_choice"] = {"type": "none"}
    if "tools" in request.extra and (container := _container(forms)):
        head["container"] = container
    written = turns(forms, "content", _OPENING)
    lists["messages"] = written
    return Body(body(head, request.extra, lists), losses(forms, PROVIDER, "assistant"))


def _settings(head: dict[str, Any], request: ModelRequest, most: int, forms: Sequence[Form]) -> None:
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.stop:
        head["stop_sequences"] = request.stop
    output: dict[str, Any] = {}
    if request.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": request.output_schema.schema}
    if request.effort not in (None, "none"):
        if request.temperature not in (None, 1):
            raise catalogue.unsupported(
                PROVIDER, request.model, "temperature beside reasoning", "leave one of them out"
            )
        if catalogue.reasons_by_effort(request.model):
            head["thinking"] = {"type": "adaptive"}
            output["effort"] = request.effort
        elif not _begun_without_thinking(forms):
            head["thinking"] = {"type": "enabled", "budget_tokens": _budget(request, most)}
    if output:
        head["output_config"] = output


def _budget(request: ModelRequest, most: int) -> int:
    """The tokens to think in, where *most* are for all of the answer."""
    if request.tools and (request.tool_choice == "required" or isinstance(request.tool_choice, ForcedTool)):
        remedy = 'choose tool_choice="auto", or effort="none"'
        raise catalogue.unsupported(PROVIDER, request.model, "a forced tool beside reasoning", remedy)
    budget = max(min(_BUDGETS[request.effort or "low"], most // 2), _LEAST_BUDGET)
    if budget >= most:
        field = f"effort={request.effort!r} with max_output_tokens={most}"
        raise catalogue.unsupported(PROVIDER, request.model, field, f"give it more than {_LEAST_BUDGET} tokens")
    return budget


def _begun_without_thinking(forms: Sequence[Form]) -> bool:
    """Whether the loop of tools at the end began without thinking, as another model's does: a model with a budget for
    thinking cannot begin to think in the middle of one ("Extended thinking", toggling modes in conversations)."""
    first = None
    for place in range(len(forms) - 1, -1, -1):
        form = forms[place]
        if form.role == "assistant":
            if not form.mark.startswith(_CALLS):
                break
            first = form
        elif form.rest and not (place and forms[place - 1].first):  # the user's own turn, not a word beside results
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


def _marked(form: Form) -> Form:
    """*form* with a mark for the cache on its last block."""
    if form.rest:
        return form._replace(rest=f"{form.rest[:-1]}{_MARK}}}")
    return form._replace(first=f"{form.first[:-1]}{_MARK}}}") if form.first else form


def _container(forms: list[Form]) -> str:
    """The newest container that has not expired; "" for none."""
    for form in reversed(forms):
        _, _, named = form.mark.partition(" ")
        if named:
            name, _, until = named.partition(" ")
            alive = not until or datetime.fromisoformat(until).timestamp() > time.time()
            return name if alive else ""
    return ""


def _form(message: Message) -> Form:
    match message:
        case UserMessage(text, shown):
            said = [] if shown and not text.strip() else [_text(text if text.strip() else "(empty)")]
            blocks, refused = _shown(shown)
            return Form("user", "", ",".join([*blocks, *said]), refused, "; ".join(refused))
        case SystemMessage(text):
            # Not every model takes the role `system` inside the conversation, so it is marked text of the user's turn.
            return Form("user", "", _text(f"<system>\n{text}\n</system>"))
        case ToolMessage(call_id, _, content):
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": plain_id(call_id), "content": content}
            if message.is_error:
                result["is_error"] = True
            if not message.media:
                return Form("user", dumps(result), "", mark=_CALLS)
            del result["content"]
            blocks, refused = _shown(message.media)
            inner = ",".join(([_text(content)] if content.strip() else []) + blocks)
            return Form("user", f'{dumps(result)[:-1]},"content":[{inner}]}}', "", refused, mark=_CALLS)
        case AssistantMessage(parts):
            written = [(part.kind, block) for part in parts if (block := _block(part))]
            dropped = [word for part in parts for word in lost(part, PROVIDER)]
            while written and written[-1][0] == "reasoning":
                written.pop()
                dropped.append(f"reasoning of {PROVIDER}")
            content = ",".join(block for _, block in written)
            return Form("assistant", "", content, tuple(dropped), mark=_mark(message))


def _mark(message: AssistantMessage) -> str:
    """Whether tools must be defined, and after a space the container, with when it expires."""
    mark = _CALLS if message.tool_calls else ""
    for part in message.parts:
        if part.kind == "opaque" and part.provider == PROVIDER and part.type == CONTAINER:
            held = json.loads(part.raw)
            mark += f" {held['id']} {held.get('expires_at') or ''}"
    return mark


def _block(part: Part) -> str:
    """A part as a block; "" for one that is not sent."""
    if part.kind == "tool_call":
        return _call(part)
    if part.raw is not None and part.provider == PROVIDER:
        return "" if part.kind == "opaque" and part.type == CONTAINER else part.raw
    if part.kind == "text":
        return _text(part.text) if part.text.strip() else ""
    if part.kind == "opaque" or part.provider != PROVIDER or not part.signature:
        return ""
    if part.id == REDACTED:
        return dumps({"type": "redacted_thinking", "data": part.signature})
    return dumps({"type": "thinking", "thinking": part.text, "signature": part.signature})


def _call(part: ToolCall) -> str:
    named = {"id": plain_id(part.id), "name": plain_name(part.name)}
    if part.raw is not None and part.provider == PROVIDER and is_object(part.arguments):
        return spliced(part.raw, **named)
    return dumps({"type": "tool_use", **named, "input": arguments_object(part.arguments)})


def _shown(shown: tuple[Media, ...]) -> tuple[list[str], tuple[str, ...]]:
    """Blocks of images and documents, and why some are none; those leave a word in their place."""
    blocks: list[str] = []
    refused: list[str] = []
    for item in shown:
        form = _media(item)
        if form is None:
            refused.append(media.refusal(item, "Anthropic's API", "send text, an image or a PDF, or ask Google"))
        blocks.append(_text(media.placeholder(item)) if form is None else dumps(form))
    return blocks, tuple(refused)


def _media(item: Media) -> dict[str, Any] | None:
    kind = media.kind_of(item)
    if kind not in ("image", "document"):
        return None
    block: dict[str, Any] = {"type": kind}
    if item.data is None:
        block["source"] = {"type": "url", "url": item.url} if item.url else {"type": "file", "file_id": item.file_id}
    elif kind == "image" or item.media_type == "application/pdf":
        block["source"] = {"type": "base64", "media_type": item.media_type, "data": item.data}
    elif item.media_type.startswith("text/") or item.media_type == "application/json":
        block["source"] = {"type": "text", "media_type": "text/plain", "data": media.text_of(item)}
    else:
        return None
    if kind == "document" and item.name:
        block["title"] = item.name
    return block


def _text(text: str) -> str:
    return dumps({"type": "text", "text": text})
