"""Questions to the user of an MCP client (elicitation), one for each wait of a run that a form can answer."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types

from ...runtime.question import DECLINED, question_of
from ...scope import Scope
from ...waits import Wait
from ..protocols.turn_log import WaitAnswer

_TEXT = {"type": "string"}
_APPROVAL = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "True allows the call, false denies it"},
        "reason": {**_TEXT, "title": "Reason", "description": "For a denial: the agent reads it"},
    },
    "required": ["approve"],
}


def form_of(wait: Wait, scope: Scope) -> types.ElicitRequestFormParams | None:
    """Return the question of *wait*; None if *scope* may not answer it, or a form cannot."""
    if not wait.arguments or (wait.who and scope.by not in wait.who):
        return None
    question = question_of(wait.tool, wait.kind, wait.arguments)
    if question is not None:
        return None if question.schema is None else _form(question.text, dict(question.schema))
    if wait.kind == "approval":
        why = f" {wait.note}" if wait.note else ""
        return _form(f"Allow the call {wait.tool}({wait.arguments})?{why}", _APPROVAL)
    return None


def answer_of(wait: Wait, result: types.ElicitResult) -> WaitAnswer | None:
    """Return the user's answer to the form of *wait*; None leaves the wait open."""
    content = result.content or {}
    if result.action == "decline":
        return WaitAnswer(wait, approved=False, content=DECLINED)
    if result.action != "accept":
        return None
    question = question_of(wait.tool, wait.kind, wait.arguments)
    if question is None:
        return WaitAnswer(wait, approved=content.get("approve") is True, content=str(content.get("reason") or ""))
    if question.structured:
        return WaitAnswer(wait, content=json.dumps(content, ensure_ascii=False))
    text = content.get("answer")
    if question.approval:
        edited = question.answered(text) if text and isinstance(text, str) else None
        return WaitAnswer(wait, arguments=edited)
    return WaitAnswer(wait, content=text) if isinstance(text, str) else None


def _form(message: str, schema: dict[str, Any]) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message=message, requested_schema=schema)
