"""Tasks of MCP servers as durable waits: a run waits without a process, and any process looks at its tasks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from time import time
from typing import TYPE_CHECKING, Any

from ..errors import ConcertinoError, RunError, ToolError
from ..messages import AssistantMessage, ToolCall, ToolMessage
from ..orchestrator.agent import AgentConfig
from ..orchestrator.outcome import Continue, Finish, NextStep, Turn
from ..orchestrator.run import RunContext
from ..tools.base import Pending, Tool, ToolContext, ToolResult
from ..waits import ASK_PERSON, Wait
from .person import AskPersonTool

if TYPE_CHECKING:
    from ..tools.mcp import ElicitationAnswer
    from ..tools.mcp.remote_task import RemoteTask

MCP_TASK = "mcp_task"
"""The tool that a task waits under, as `Wait.tool` names it."""
_ANSWER = "answer_mcp_task"
_MOST_QUESTIONS = 20
_AGAIN_SECONDS = 5.0


class _Answered(Exception):  # noqa: N818 - carries a result past the sub-agent, which is not needed
    """The server has answered the call at once."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


class _TaskTool(Tool):
    parameters = {"type": "object"}  # noqa: RUF012 - never changed
    remote = True
    timeout = None
    counts_as_iteration = False

    def __init__(self, task: RemoteTask) -> None:
        self._task = task


class _Look(_TaskTool):
    name = MCP_TASK
    description = "Look at a task."
    effect = "read"

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> Pending | ToolResult:
        """Return the final state of a task, or its new questions; otherwise wait until the next look."""
        from ..tools.mcp.tasks import interval  # noqa: PLC0415 - needs the extra

        if first := arguments["first"]:
            return Pending(first)
        since, answered = max(0.0, time() - arguments["since"]), arguments["answered"]
        limit = self._task.server.task_seconds
        state = await self._task.look(arguments["task"])
        questions = {key: asked for key, asked in state.questions.items() if key not in answered}
        if not state.ended and not questions and since < limit:
            return Pending(min(interval(state.suggested_ms, since), max(limit - since, 1.0)), note=state.note)
        error = state.error
        if not state.ended and (not questions or len(answered) + len(questions) > _MOST_QUESTIONS):
            await self._task.cancel(arguments["task"])
            error = "it asks too much" if questions else f"it did not end within {limit:g} s"
            error = f"{self._task.server.name}: the task was cancelled: {error}"
        found = state.result_form()
        shown = {
            key: {"message": each.message, "schema": each.schema, "url": each.url} for key, each in questions.items()
        }
        data = {"result": found, "error": error, "questions": {} if error else shown}
        return ToolResult("ended" if found or error else "asks", data=data)


class _Answer(_TaskTool):
    name = _ANSWER
    description = "Answer the questions of a task."
    effect = "idempotent"

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str | Pending:
        """Give the server the answers of the user."""
        try:
            answers = {key: elicitation_answer(text) for key, text in arguments["answers"].items()}
            await self._task.answer(arguments["task"], answers)
        except ToolError as error:  # the server has them, or does not want them
            return f"refused: {error}"
        except (ConcertinoError, TimeoutError) as error:
            return Pending(_AGAIN_SECONDS, note=str(error))
        return "answered"


class _TaskAgent(AgentConfig[None]):
    """Looks at one task until it ends, and asks the user what the server asks. No model is involved."""

    name = MCP_TASK
    audience = "internal"

    def __init__(self, task: RemoteTask) -> None:
        self.tools = (_Look(task), AskPersonTool(), _Answer(task))

    def should_continue_loop(self, run: RunContext[None]) -> NextStep:
        """Finish once the task has ended."""
        found = run.data.get(MCP_TASK) or {}
        return Finish("ended") if found.get("result") or found.get("error") else Continue()

    def answer_without_model(self, run: RunContext[None]) -> Turn:
        """Ask the user, answer the server, or look at the task."""
        handle: dict[str, Any] = json.loads(run.chat.message)
        asked: dict[str, ToolMessage] = {}
        answered: list[str] = []
        count = 0
        results = {each.call_id: each for each in run.messages if isinstance(each, ToolMessage)}
        for message in run.messages:
            for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
                count += 1
                given = json.loads(call.arguments)
                if call.name == ASK_PERSON:
                    asked[given["request"]] = results[call.id]
                elif call.name == _ANSWER and not results[call.id].is_error:
                    answered += given["answers"]
        questions = {
            key: each
            for key, each in (run.data.get(MCP_TASK) or {}).get("questions", {}).items()
            if key not in answered
        }
        calls: list[tuple[str, dict[str, Any]]] = [
            (ASK_PERSON, {**question, "request": key}) for key, question in questions.items() if key not in asked
        ]
        if questions and not calls:
            texts = {key: None if asked[key].is_error else asked[key].content for key in questions}
            calls = [(_ANSWER, {"task": handle["task"], "answers": texts})]
        if not calls:
            calls = [(MCP_TASK, {**handle, "answered": answered, "first": 0.0 if count else handle["first"]})]
        made = tuple(
            ToolCall(f"{run.id}.{count + number}", name, json.dumps(arguments, ensure_ascii=False))
            for number, (name, arguments) in enumerate(calls, 1)
        )
        return Turn(AssistantMessage(made), made)


async def follow_task(context: ToolContext, task: RemoteTask, begin: Callable[[], Awaitable[Any]]) -> Any:
    """Make a call with *begin*. If the server runs it as a task, wait for that without a process.

    The wait is one of the tool `mcp_task`, whose deadline is the next look; an answer to it looks at once. Its
    arguments name the server and the task. Raises `ToolError` if the task fails.
    """
    begun: Any = None

    async def start() -> str:
        nonlocal begun
        begun = await begin()
        if (handle := task.handle_of(begun)) is None:
            raise _Answered(begun)
        return json.dumps({**handle, "since": time()})

    try:
        run = await context.spawn(_TaskAgent(task), start)
    except _Answered as answered:
        return answered.result
    except RunError as error:
        raise ToolError(f"{task.server.name}: the task cannot be followed: {error}") from None
    except ToolError:
        if begun is not None:  # a limit of the run allows no sub-agent
            await task.cancel(begun.task_id)
        raise
    data = run.data.get(MCP_TASK) or {"error": f"{task.server.name}: the task cannot be followed any more"}
    return task.read_result(data.get("result"), data["error"])


def task_of(wait: Wait) -> tuple[str, str] | None:
    """Return the server and the id of the task that a run waits for; None if it waits for something else."""
    if wait.tool != MCP_TASK or not wait.arguments:
        return None
    handle = json.loads(wait.arguments)
    return handle["server"], handle["task"]


def elicitation_answer(text: str | None) -> ElicitationAnswer:
    """Return the answer to a question of a server from what a person has answered; None declines it."""
    from ..tools.mcp import ElicitationAnswer  # noqa: PLC0415 - needs the extra

    if text is None:
        return ElicitationAnswer(action="decline")
    try:
        content = json.loads(text) if text else {}
    except ValueError:
        content = None
    return (
        ElicitationAnswer(action="accept", content=content)
        if isinstance(content, dict)
        else ElicitationAnswer(action="cancel")
    )
