"""The waits of a user: approvals, and questions with the forms of their answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ..runtime.question import question_of
from ..waits import Wait
from .endpoint import ApiCall
from .forms import ApprovalForm, Form


class QuestionForm(Form):
    """A question to a person, and the form of its answer."""

    model_config = ConfigDict(serialize_by_alias=True)

    text: str
    form: Annotated[dict[str, Any] | None, Field(alias="schema")]
    """JSON Schema of the answer, an object; null if the answer is a text."""
    choices: list[str]
    """The texts that answer it; empty if any text does, or the schema states the answer."""
    url: str
    """A page to open; empty for none."""
    login: bool
    """True if logging in on that page answers the question."""


class OpenWaitForm(ApprovalForm):
    """A call that waits for the user: for an approval, or for the answer to a question."""

    kind: Literal["approval", "question"]
    """`POST /api/approvals/{key}` answers an approval, `POST /api/questions/{key}` a question."""
    question: QuestionForm | None
    """What is asked; null for an approval, or once the question is erased."""


async def open_waits(call: ApiCall, limit: int) -> list[Wait]:
    """Return the approvals and the questions that the user may answer, the oldest first."""
    runtime, scope = call.runtime, call.scope
    found = [*await runtime.approvals(scope, limit), *await runtime.questions(scope, limit)]
    return sorted(found, key=lambda wait: (wait.opened, wait.key))[:limit]


def open_wait_form(wait: Wait) -> OpenWaitForm:
    """Return the form of a wait that is an approval or a question."""
    fields = ApprovalForm.model_validate(wait).model_dump()
    asked = question_of(wait.tool, wait.kind, wait.arguments)
    kind = "approval" if asked is None and wait.kind == "approval" else "question"
    question = (
        None
        if asked is None
        else {
            "text": asked.text,
            "schema": asked.schema if asked.structured else None,
            "choices": list(asked.choices),
            "url": asked.url,
            "login": asked.login,
        }
    )
    return OpenWaitForm.model_validate({**fields, "kind": kind, "question": question})
