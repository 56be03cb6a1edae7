"""Questions to the user of an MCP client (elicitation), one for each wait of a run that a form can answer."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types

from ...scope import Scope
from ...waits import ASK_PERSON, Wait
from ..protocols.turn_log import WaitAnswer
from ..protocols.values import arguments_of

_TEXT = {"type": "string"}
_APPROVAL = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "True allows the call, false denies it"},
        "reason": {**_TEXT, "title": "Reason", "description": "For a denial: the agent reads it"},
    },
    "required": ["approve"],
}
_ANSWER = {"type": "object", "properties": {"answer": {**_TEXT, "title": "Answer"}}}


def form_of(wait: Wait, scope: Scope) -> types.ElicitRequestFormParams | None:
    """Return the question of *wait*; None if *scope* may not answer it, or a form cannot."""
    given = arguments_of(wait.arguments)
    if not isinstance(given, dict) or not wait.arguments or (wait.who and scope.by not in wait.who):
        return None
    if wait.kind == "approval" and wait.tool != ASK_PERSON:
        why = f" {wait.note}" if wait.note else ""
        return _form(f"Allow the call {wait.tool}({wait.arguments})?{why}", _APPROVAL)
    if wait.kind == "approval":  # a question of a workflow
        return _form(str(given.get("question", "")), _ANSWER)
    if wait.tool == ASK_PERSON and not given.get("url"):
        schema = given.get("schema")
        return _form(str(given.get("message", "")), schema if isinstance(schema, dict) else _required_answer())
    return None


def answer_of(wait: Wait, result: types.ElicitResult) -> WaitAnswer | None:
    """Return the user's answer to the form of *wait*; None leaves the wait open."""
    content = result.content or {}
    if result.action == "decline":
        return WaitAnswer(wait, approved=False, content="the user has declined")
    if result.action != "accept":
        return None
    if wait.kind == "approval" and wait.tool != ASK_PERSON:
        return WaitAnswer(wait, approved=content.get("approve") is True, content=str(content.get("reason") or ""))
    given, text = arguments_of(wait.arguments), content.get("answer")
    if wait.kind == "approval":
        return WaitAnswer(wait, arguments={**given, "answer": text} if text and isinstance(text, str) else None)
    if isinstance(given.get("schema"), dict):
        return WaitAnswer(wait, content=json.dumps(content, ensure_ascii=False))
    return WaitAnswer(wait, content=text) if isinstance(text, str) else None


def _form(message: str, schema: dict[str, Any]) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message=message, requested_schema=schema)


def _required_answer() -> dict[str, Any]:
    return {**_ANSWER, "required": ["answer"]}
