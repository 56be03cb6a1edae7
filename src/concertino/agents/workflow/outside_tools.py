"""A workflow as tools of an outside agent. Its tokens are bound to one step of one run, and count once."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from ...errors import RunEndedError, RunExistsError, ToolError
from ...events import RunResult
from ...orchestrator.chat import Chat
from ...scope import Scope
from ...tools.base import Effect, Tool, ToolContext
from ...waits import Wait
from .completion import completion_problem
from .step_tools import LEAST_NOTES, OUTSIDE


def workflow_tools(runtime: Any, workflow: str, *, secret: str, description: str = "") -> tuple[Tool, Tool]:
    """Return tools with which another agent starts *workflow* and does those of its steps that are `outside`.

    *runtime* is the `Runtime` that knows the workflow; its store keeps the run between the calls.

    `start_workflow` returns the first step with its token, `continue_workflow` takes a token with the completion of its
    step and returns the next one. A token is signed with *secret*, bound to the step, the run and the scope of the
    caller, and refused after its use. Keep the secret outside the conversation, the same in all processes.
    """
    outside = OutsideSteps(runtime, secret)
    return _Start(runtime, workflow, outside, description), _Continue(runtime, outside)


CONTINUE = "Complete the step of a workflow and get the next one."
COMPLETION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "token": {"type": "string", "description": "The token of the step, unchanged"},
        "notes": {"type": "string", "minLength": LEAST_NOTES, "description": "What was done and found"},
        "context": {"type": "object", "description": "The variables that the step sets, by name"},
    },
    "required": ["token", "notes"],
    "additionalProperties": False,
}
"""JSON Schema of the arguments of `continue_workflow`."""


class OutsideSteps:
    """The steps that an outside agent does, each with its token. *secret* signs the tokens."""

    def __init__(self, runtime: Any, secret: str) -> None:
        self._runtime = runtime
        self._secret = secret.encode()

    def shown(self, wait: Wait, scope: Scope) -> dict[str, Any]:
        """Return the step that waits, with its token."""
        return {**json.loads(wait.arguments), "token": self._signed(scope, wait.key)}

    async def complete(self, scope: Scope, token: str, notes: str, context: Mapping[str, Any]) -> Wait:
        """Complete the step of *token*, and return its wait: the run can be resumed.

        Raises `ToolError` for a token that was not issued to *scope* or is used, and for a completion that does not
        meet the requirements of the step; then the token remains valid.
        """
        key = token.rpartition(".")[0]
        if not hmac.compare_digest(self._signed(scope, key).encode(), token.encode("utf-8", "replace")):
            raise ToolError("refused: this token was not issued for a step of yours: use the newest one, unchanged")
        wait: Wait | None = await self._runtime.store.wait(scope, key)
        if wait is None:
            raise ToolError("refused: the run of this token is gone")
        completion = {"notes": notes, "context": dict(context)}
        problem = completion_problem(completion, json.loads(wait.arguments or "{}").get("sets", {}))
        if problem:
            raise ToolError(f"not completed: {problem}")
        if wait.resolution is not None and wait.resolution.content != json.dumps(completion, ensure_ascii=False):
            raise ToolError("refused: this token has been used; its step is completed")
        await self._runtime.resolve(scope, key, completion)
        return wait

    def _signed(self, scope: Scope, key: str) -> str:
        made = hmac.new(self._secret, f"{scope.key}\0{key}".encode(), hashlib.sha256).hexdigest()
        return f"{key}.{made[:32]}"


def _shown(result: RunResult, scope: Scope, outside: OutsideSteps) -> dict[str, Any]:
    """Return what the outside agent reads: the next step with its token, or how the run stands."""
    steps = [wait for wait in result.waiting if wait.tool == OUTSIDE]
    if steps:
        return outside.shown(steps[0], scope)
    shown = {"run": result.run_id, "status": result.status, "answer": result.text}
    if result.waiting:
        shown["waits_for"] = result.waiting[0].note or result.waiting[0].tool
    return shown if result.error is None else {**shown, "error": result.error}


async def _resumed(runtime: Any, scope: Scope, run_id: str) -> RunResult:
    """Return the result of the run until it waits or ends; it may have ended before a crash."""
    try:
        result: RunResult = await (await runtime.resume(scope, run_id)).result()
    except RunEndedError:
        result = await runtime.result(scope, run_id)
    return result


class _Start(Tool):
    name = "start_workflow"
    effect: Effect = "idempotent"
    timeout = None
    parameters = {  # noqa: RUF012 - a constant
        "type": "object",
        "properties": {"goal": {"type": "string", "minLength": 1}},
        "required": ["goal"],
        "additionalProperties": False,
    }

    def __init__(self, runtime: Any, workflow: str, outside: OutsideSteps, description: str) -> None:
        self._runtime, self._workflow, self._outside = runtime, workflow, outside
        self.description = f"Start the workflow {workflow}. {description}".strip()

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Start the run, or find the run of an earlier attempt at this call, and return its first step."""
        run_id = "run_" + hashlib.sha256(context.key.encode()).hexdigest()[:32]
        chat = Chat(arguments["goal"], scope=context.scope)
        try:
            result = await (await self._runtime.start(chat, self._workflow, run_id=run_id)).result()
        except RunExistsError as error:  # the call is repeated after a crash
            result = await _resumed(self._runtime, context.scope, error.run_id)
        return _shown(result, context.scope, self._outside)


class _Continue(Tool):
    name = "continue_workflow"
    description = CONTINUE
    effect: Effect = "idempotent"
    timeout = None
    parameters = COMPLETION

    def __init__(self, runtime: Any, outside: OutsideSteps) -> None:
        self._runtime, self._outside = runtime, outside

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Complete the step of the token. The step's own requirements are checked before the token is used."""
        given = arguments.get("context") or {}
        wait = await self._outside.complete(context.scope, arguments["token"], arguments["notes"], given)
        return _shown(await _resumed(self._runtime, context.scope, wait.run_id), context.scope, self._outside)
