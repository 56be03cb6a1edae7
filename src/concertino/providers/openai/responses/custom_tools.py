"""Calls of the Responses API other than function calls that the client answers: custom tools, shells, patches.

Facts are from OpenAI's guides "Function calling" (custom tools), "Shell", "Local shell" and "Apply patch", and the
SDK's item types. Each call is a `ToolCall` whose arguments are the item's object, so the engine's tools can answer it;
the item goes back unmodified, and the result in the item's own form. An entry in `extra["tools"]` declares the API's
own tool: `{"type": "shell"}` replaces the function `shell`.

Calls that run at OpenAI stay opaque: MCP calls, and a shell in OpenAI's container, whose output is in the same answer.
So do approvals of MCP calls and calls of a computer, which a person answers, not a tool.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ....messages import AssistantMessage, Message, ToolCall, ToolMessage
from ...http.encoding import WireMessage, dumps, portable_id

CUSTOM = "custom_tool_call"
_FIELDS = {"shell_call": "action", "local_shell_call": "action", "apply_patch_call": "operation"}
"""The field of the arguments, by item type. The tool's name is the type without `_call`."""


def answered_ids(items: Iterable[dict[str, Any]]) -> frozenset[str]:
    """Return the ids of calls whose output is among *items*, because they ran at the provider."""
    return frozenset(str(item.get("call_id")) for item in items if str(item.get("type")).endswith("_call_output"))


def call_of(item: dict[str, Any], provider: str) -> ToolCall | None:
    """Return *item* as a call, or None for other items and for a shell in OpenAI's container."""
    kind = item.get("type", "")
    if kind == CUSTOM:
        return ToolCall(
            item["call_id"], item["name"], dumps({"input": item["input"]}), raw=dumps(item), provider=provider
        )
    local = (item.get("environment") or {}).get("type", "local") == "local"
    if kind not in _FIELDS or not local:
        return None
    arguments = {name: value for name, value in item[_FIELDS[kind]].items() if value is not None}
    return ToolCall(item["call_id"], kind.removesuffix("_call"), dumps(arguments), raw=dumps(item), provider=provider)


def note(message: AssistantMessage, provider: str) -> str:
    """Return the items of the calls in *message* that are not function calls, by call id, as JSON; "" if none are."""
    found = {}
    for call in message.tool_calls:
        # Most calls are function calls, whose items need no parsing here.
        if call.provider == provider and call.raw is not None and '"type":"function_call"' not in call.raw:
            item = json.loads(call.raw)
            if item.get("type") == CUSTOM or item.get("type") in _FIELDS:
                found[call.id] = item
    return dumps(found) if found else ""


def with_outputs(messages: Sequence[Message], encoded: list[WireMessage]) -> list[WireMessage]:
    """Return *encoded* with each result in the form of its call's item."""
    if not any(form.note for form in encoded):
        return encoded
    open_calls: dict[str, dict[str, Any]] = {}
    found = []
    for message, form in zip(messages, encoded, strict=True):
        if form.note:
            open_calls.update(json.loads(form.note))
        if isinstance(message, ToolMessage) and (item := open_calls.pop(message.call_id, None)) is not None:
            found.append(form._replace(rest=dumps(_output(item, message, json.loads(form.rest)["output"]))))
        else:
            found.append(form)
    return found


def _output(item: dict[str, Any], message: ToolMessage, output: Any) -> dict[str, Any]:
    """Return the result of *item*; *output* is the content that a function's result would have."""
    form: dict[str, Any] = {"type": f"{item['type']}_output", "call_id": portable_id(message.call_id)}
    match item["type"]:
        case "shell_call":
            outcome = {"type": "exit", "exit_code": int(message.is_error)}
            form["output"] = [{"stdout": message.content, "stderr": "", "outcome": outcome}]
            if (limit := item["action"].get("max_output_length")) is not None:
                form["max_output_length"] = limit  # "should always pass it back"
        case "apply_patch_call":
            form |= {"status": "failed" if message.is_error else "completed", "output": message.content}
        case "local_shell_call":
            form["output"] = message.content
        case _:
            form["output"] = output
    return form


def declared_tools(tools: Any) -> dict[str, dict[str, Any]]:
    """Return the tool choice for each tool in `extra["tools"]` that the client answers, by the name of its calls."""
    found: dict[str, dict[str, Any]] = {}
    for tool in tools if isinstance(tools, list) else ():
        kind = tool.get("type")
        if kind == "custom":
            found[tool["name"]] = {"type": kind, "name": tool["name"]}
        elif kind in ("shell", "local_shell", "apply_patch"):
            found[kind] = {"type": kind}
    return found
