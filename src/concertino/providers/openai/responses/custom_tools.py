"""Calls of the Responses API that are no functions', and that the client answers: free text, shells, patches.

Facts are from OpenAI's guides "Function calling" (custom tools), "Shell", "Local shell" and "Apply patch", and the
SDK's types of items. Each is a `ToolCall` whose arguments are the item's object, so a tool of the engine can answer
it; the item goes back as it came, and the result in the form that belongs to it. A tool is declared as the API's own by
naming it in `extra["tools"]`: `{"type": "shell"}` takes the place of the function `shell`.

What runs at OpenAI stays opaque: MCP calls, and a shell in its container, whose output is in the same answer. So do
approvals for MCP servers and calls of a computer, which want a person's word, not a tool's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ....messages import AssistantMessage, Message, ToolCall, ToolMessage
from ...http.encoding import Form, dumps, plain_id

CUSTOM = "custom_tool_call"
_FIELDS = {"shell_call": "action", "local_shell_call": "action", "apply_patch_call": "operation"}
"""Where the arguments are, by the type of the item. The tool is called as the item is, without `_call`."""


def answered(items: Iterable[dict[str, Any]]) -> frozenset[str]:
    """The ids of the calls that *items* answer: those ran at the provider."""
    return frozenset(str(item.get("call_id")) for item in items if str(item.get("type")).endswith("_call_output"))


def call_of(item: dict[str, Any], provider: str) -> ToolCall | None:
    """The call that *item* is; None for an item of another kind, and for a shell in OpenAI's container."""
    kind = item.get("type", "")
    if kind == CUSTOM:
        return ToolCall(
            item["call_id"], item["name"], dumps({"input": item["input"]}), raw=dumps(item), provider=provider
        )
    at_home = (item.get("environment") or {}).get("type", "local") == "local"
    if kind not in _FIELDS or not at_home:
        return None
    given = {name: value for name, value in item[_FIELDS[kind]].items() if value is not None}
    return ToolCall(item["call_id"], kind.removesuffix("_call"), dumps(given), raw=dumps(item), provider=provider)


def mark(message: AssistantMessage, provider: str) -> str:
    """The calls in *message* that go back as items of their own kind, by id, as JSON; "" if there are none."""
    found = {}
    for call in message.tool_calls:
        # Most calls are functions': their items are not parsed for this.
        if call.provider == provider and call.raw is not None and '"type":"function_call"' not in call.raw:
            item = json.loads(call.raw)
            if item.get("type") == CUSTOM or item.get("type") in _FIELDS:
                found[call.id] = item
    return dumps(found) if found else ""


def with_outputs(messages: Sequence[Message], forms: list[Form]) -> list[Form]:
    """*forms* with each result in the form that belongs to its call."""
    if not any(form.mark for form in forms):
        return forms
    open_calls: dict[str, dict[str, Any]] = {}
    found = []
    for message, form in zip(messages, forms, strict=True):
        if form.mark:
            open_calls.update(json.loads(form.mark))
        if isinstance(message, ToolMessage) and (item := open_calls.pop(message.call_id, None)) is not None:
            found.append(form._replace(rest=dumps(_output(item, message, json.loads(form.rest)["output"]))))
        else:
            found.append(form)
    return found


def _output(item: dict[str, Any], message: ToolMessage, output: Any) -> dict[str, Any]:
    """The result of *item*; *output* is what a function's result would say."""
    form: dict[str, Any] = {"type": f"{item['type']}_output", "call_id": plain_id(message.call_id)}
    match item["type"]:
        case "shell_call":
            outcome = {"type": "exit", "exit_code": int(message.is_error)}
            form["output"] = [{"stdout": message.content, "stderr": "", "outcome": outcome}]
            if (most := item["action"].get("max_output_length")) is not None:
                form["max_output_length"] = most  # "should always pass it back"
        case "apply_patch_call":
            form |= {"status": "failed" if message.is_error else "completed", "output": message.content}
        case "local_shell_call":
            form["output"] = message.content
        case _:
            form["output"] = output
    return form


def declared(tools: Any) -> dict[str, dict[str, Any]]:
    """How a choice names the tools in `extra["tools"]` that the client answers, by the names of their calls."""
    found: dict[str, dict[str, Any]] = {}
    for tool in tools if isinstance(tools, list) else ():
        kind = tool.get("type")
        if kind == "custom":
            found[tool["name"]] = {"type": kind, "name": tool["name"]}
        elif kind in ("shell", "local_shell", "apply_patch"):
            found[kind] = {"type": kind}
    return found
