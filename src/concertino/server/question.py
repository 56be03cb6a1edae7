"""Questions to a person: those of tools (`ask_person`) and those of workflows, with a form for their answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..records import record
from ..waits import ASK_PERSON, WaitKind
from .protocols.values import arguments_of, link_of

DECLINED = "the user has declined"
"""The error of a question that the user has declined."""
_ANSWER = {"type": "string", "title": "Answer"}


@record(kw_only=True)
class PersonQuestion:
    """A question, and the form of its answer."""

    text: str
    arguments: Mapping[str, Any]
    """Those of the waiting call."""
    approval: bool = False
    """True if approving the call answers it, with the argument `answer`: a question of a workflow."""
    schema: Mapping[str, Any] | None
    """JSON Schema of the form's values, an object; None if a page to open answers the question."""
    structured: bool = False
    """True if the values are the answer, as JSON; False if the text of the field `answer` is."""
    url: str = ""
    """A page to open."""
    login: bool = False
    """True if logging in on that page answers the question."""


def question_of(tool: str, kind: WaitKind, arguments: str) -> PersonQuestion | None:
    """Return the question that a waiting call asks; None if it asks none, or its arguments are erased."""
    given = arguments_of(arguments) if tool == ASK_PERSON and arguments else None
    if not isinstance(given, dict):
        return None
    if kind == "approval":
        text = str(given.get("question", ""))
        return PersonQuestion(text=text, arguments=given, approval=True, schema=_schema(_ANSWER, required=False))
    text, schema = str(given.get("message", "")), given.get("schema")
    if given.get("url"):
        url, login = link_of(tool, arguments), bool(given.get("login"))
        return PersonQuestion(text=text, arguments=given, schema=None, url=url, login=login)
    if isinstance(schema, dict):
        return PersonQuestion(text=text, arguments=given, schema=schema, structured=True)
    choices = given.get("choices")
    offered = isinstance(choices, list) and choices and all(isinstance(each, str) for each in choices)
    field = {**_ANSWER, "enum": choices} if offered else _ANSWER
    return PersonQuestion(text=text, arguments=given, schema=_schema(field, required=True))


def _schema(answer: dict[str, Any], *, required: bool) -> dict[str, Any]:
    made = {"type": "object", "properties": {"answer": answer}}
    return {**made, "required": ["answer"]} if required else made
