"""Questions to a person: those of tools (`ask_person`) and those of workflows, with a form for their answer."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ..errors import ConfigurationError
from ..records import record
from ..tools.schema import JsonSchema
from ..waits import ASK_PERSON, Wait, WaitKind

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
    choices: tuple[str, ...] = ()
    """The texts that answer it; empty if any text does, or the schema states the answer."""
    structured: bool = False
    """True if the values are the answer, as JSON; False if the text of the field `answer` is."""
    url: str = ""
    """A page to open."""
    login: bool = False
    """True if logging in on that page answers the question."""

    def answered(self, text: str) -> dict[str, Any]:
        """Return the arguments with which an approval answers the question."""
        return {**self.arguments, "answer": text}


def question_of(tool: str, kind: WaitKind, arguments: str) -> PersonQuestion | None:
    """Return the question that a waiting call asks; None if it asks none, or its arguments are erased."""
    given = _asked(tool, arguments)
    if given is None:
        return None
    if kind == "approval":
        text = str(given.get("question", ""))
        return PersonQuestion(text=text, arguments=given, approval=True, schema=_schema(_ANSWER, required=False))
    text, schema = str(given.get("message", "")), given.get("schema")
    if given.get("url"):
        return PersonQuestion(text=text, arguments=given, schema=None, url=_link(given), login=bool(given.get("login")))
    if isinstance(schema, dict):
        return PersonQuestion(text=text, arguments=given, schema=schema, structured=True)
    choices = given.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(each, str) for each in choices):
        return PersonQuestion(text=text, arguments=given, schema=_schema(_ANSWER, required=True))
    form = _schema({**_ANSWER, "enum": choices}, required=True)
    return PersonQuestion(text=text, arguments=given, schema=form, choices=tuple(choices))


def link_of(tool: str, arguments: str) -> str:
    """Return the address that a question asks the user to open, such as a login page; "" if it asks for none."""
    return _link(_asked(tool, arguments) or {})


async def check_answer(wait: Wait, text: str) -> None:
    """Raise `ConfigurationError`, which names the field, if *text* does not answer the question of *wait*.

    Only the first answer counts, so an invalid one must not be recorded. The answers of other waits are not checked.
    """
    question = question_of(wait.tool, wait.kind, wait.arguments)
    if question is None or question.schema is None:
        return

    def refused(problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"invalid answer to {wait.key}: {problem}; the question stays open: correct the answer, or decline"
        )

    try:
        values = json.loads(text, parse_constant=_no_number) if question.structured else {"answer": text}
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise refused("its question has a schema: use a JSON object")
    try:
        schema = JsonSchema(dict(question.schema), "the question", "values", refused)
    except ConfigurationError as error:  # the schema is too large, or refers to another document
        raise refused(str(error)) from None
    checked = schema.validate(values)
    if inspect.isawaitable(checked):
        await checked


def _schema(answer: dict[str, Any], *, required: bool) -> dict[str, Any]:
    made = {"type": "object", "properties": {"answer": answer}}
    return {**made, "required": ["answer"]} if required else made


def _asked(tool: str, arguments: str) -> dict[str, Any] | None:
    """Return the arguments of a question; None if the call asks none, or they are erased or malformed."""
    try:
        given = json.loads(arguments) if tool == ASK_PERSON and arguments else None
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def _link(given: Mapping[str, Any]) -> str:
    url = given.get("url")
    return url if isinstance(url, str) and re.match(r"https?://", url) else ""


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
