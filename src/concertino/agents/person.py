"""Questions of tools to a person: durable waits that any process can answer."""

from __future__ import annotations

import json
from typing import Any

from ..errors import RunError
from ..messages import AssistantMessage, ToolCall, ToolMessage
from ..orchestrator.agent import AgentConfig
from ..orchestrator.outcome import Continue, Fail, Finish, NextStep, Turn
from ..orchestrator.run import RunContext
from ..tools.base import Pending, Tool, ToolContext
from ..waits import ASK_PERSON


class AskPersonTool(Tool):
    """Waits for the answer to a question."""

    name = ASK_PERSON
    description = "Ask a person."
    parameters = {"type": "object"}  # noqa: RUF012 - never changed
    effect = "idempotent"
    remote = True
    timeout = None

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Pending:
        """Wait for the answer."""
        return Pending(arguments.get("seconds"), note=str(arguments.get("message", ""))[:500])


class _Person(AgentConfig[None]):
    """Asks its task of a person, and answers with what they say. No model is involved."""

    name = "person"
    tools = (AskPersonTool(),)
    audience = "internal"

    def should_continue_loop(self, run: RunContext[None]) -> NextStep:
        """Finish with the answer, once it is there."""
        answer = run.messages[-1] if run.messages else None
        if not isinstance(answer, ToolMessage):
            return Continue()
        return Fail(answer.content) if answer.is_error else Finish(answer.content)

    def answer_without_model(self, run: RunContext[None]) -> Turn:
        """Ask."""
        call = ToolCall(f"{run.id}.1", ASK_PERSON, run.chat.message)
        return Turn(AssistantMessage((call,)), (call,))


class _Login(_Person):
    """Waits for a login. Its name is another one, so that no other question of the call gets its answer."""

    name = "login"


_PERSON, _LOGIN = _Person(), _Login()


async def ask_person(context: ToolContext, message: str, *, seconds: float | None = None, **details: Any) -> str | None:
    """Ask a person *message* during a tool call, and return the answer; None if it was refused or came too late.

    The question is a wait of the tool `ask_person`, whose arguments are *message* and *details*: JSON values, such as
    `choices` (texts to choose from), or `schema` (JSON Schema of an object, whose JSON text is the answer).
    `runtime.resolve(scope, wait.key, answer)` answers it, from any process; with `failed=True`, it is refused. Until
    then, the run is suspended. After the answer, the tool runs again from its beginning, and each question that it has
    asked returns its answer. So ask before any effect.

    The chat page and `POST /api/questions/{key}` let the user of the conversation answer. An answer outside the
    choices, or against the schema, is refused, and the question stays open.
    """
    return await _ask(_PERSON, context, {"message": message, "seconds": seconds, **details})


async def ask_login(context: ToolContext, message: str, *, url: str, login: str) -> bool:
    """Wait until the user has logged in at *url* to the server *login*. Return whether they have."""
    return await _ask(_LOGIN, context, {"message": message, "seconds": None, "url": url, "login": login}) is not None


async def _ask(agent: _Person, context: ToolContext, question: dict[str, Any]) -> str | None:
    try:
        return (await context.spawn(agent, json.dumps(question, ensure_ascii=False))).text
    except RunError:
        return None
