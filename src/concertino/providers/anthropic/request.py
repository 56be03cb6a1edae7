"""A `ModelRequest` as a request of the Messages API.

Facts of the protocol are from Anthropic's API reference ("Create a Message", "Tool use", "Extended thinking") and
the SDK's parameter types. What it asks for beyond the obvious:

- `max_tokens` is required.
- All results of one turn's calls stand together at the beginning of the user message right after the calls.
- The conversation begins with a user message; blank text blocks are refused.
- Ids of calls are of `[a-zA-Z0-9_-]`, which those of other providers need not be.
- Calls and results in the history want tools to be defined, even where none may be called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...messages import (
    AssistantMessage,
    ForcedTool,
    Message,
    Part,
    SystemMessage,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from ..port import ModelRequest
from ..wire import ToolForms, arguments_object, body, dumps

PROVIDER = "anthropic"
REDACTED = "redacted"
"""The id of a `Reasoning` whose signature is the data of a `redacted_thinking` block."""

_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_NO_TOOL = dumps({"name": "unavailable", "description": "No tool may be used now.", "input_schema": {"type": "object"}})


class _Form(NamedTuple):
    """A message as blocks. Consecutive messages of one role become one, *results* before *blocks*."""

    role: str
    results: str
    blocks: str
    has_tools: bool


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the API's form."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def request_body(request: ModelRequest, max_tokens: int, tool_forms: ToolForms) -> bytes:
    """The finished JSON; *max_tokens* is for a request that sets no limit itself."""
    forms = [message.wire(PROVIDER, _form) for message in request.messages]
    head: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_output_tokens or max_tokens,
        "stream": True,
    }
    if request.system:
        head["system"] = request.system
    lists: dict[str, Iterable[str]] = {}
    if request.tools:
        lists["tools"] = tool_forms(request.tools)
        choice = _tool_choice(request.tool_choice, parallel=request.parallel_tool_calls)
        if choice != {"type": "auto"}:
            head["tool_choice"] = choice
    elif any(form.has_tools for form in forms):
        lists["tools"] = [_NO_TOOL]
        head["tool_choice"] = {"type": "none"}
    lists["messages"] = _turns(forms)
    return body(head, request.extra, lists)


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


def _turns(forms: list[_Form]) -> list[str]:
    """Messages as the API wants them: user first, and of one role only one in a row."""
    turns: list[str] = []
    role = ""
    results: list[str] = []
    blocks: list[str] = []
    for form in forms:
        if not form.results and not form.blocks:
            continue
        if form.role != role:
            if role:
                turns.append(_turn(role, results + blocks))
            elif form.role == "assistant":
                turns.append(_turn("user", [_text("(The conversation goes on.)")]))
            role, results, blocks = form.role, [], []
        if form.results:
            results.append(form.results)
        if form.blocks:
            blocks.append(form.blocks)
    if role:
        turns.append(_turn(role, results + blocks))
    return turns


def _turn(role: str, blocks: list[str]) -> str:
    return f'{{"role":"{role}","content":[{",".join(blocks)}]}}'


def _form(message: Message) -> _Form:
    match message:
        case UserMessage(text):
            return _Form("user", "", _text(text if text.strip() else "(empty)"), has_tools=False)
        case SystemMessage(text):
            # Not every model takes the role `system` inside the conversation, so it is marked text of the user's turn.
            return _Form("user", "", _text(f"<system>\n{text}\n</system>"), has_tools=False)
        case ToolMessage(call_id, _, content):
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _call_id(call_id), "content": content}
            if message.is_error:
                result["is_error"] = True
            return _Form("user", dumps(result), "", has_tools=True)
        case AssistantMessage(parts):
            blocks = [block for part in parts if (block := _block(part))]
            return _Form("assistant", "", ",".join(blocks), has_tools=bool(message.tool_calls))


def _block(part: Part) -> str:
    """A part as a block; "" for one that is not sent."""
    if part.kind == "text":
        return _text(part.text) if part.text.strip() else ""
    if part.kind == "tool_call":
        return dumps(
            {
                "type": "tool_use",
                "id": _call_id(part.id),
                "name": part.name,
                "input": arguments_object(part.arguments),
            }
        )
    if part.provider != PROVIDER or not part.signature:
        return ""
    if part.id == REDACTED:
        return dumps({"type": "redacted_thinking", "data": part.signature})
    return dumps({"type": "thinking", "thinking": part.text, "signature": part.signature})


def _text(text: str) -> str:
    return dumps({"type": "text", "text": text})


def _call_id(call_id: str) -> str:
    return _ODD.sub("_", call_id)
