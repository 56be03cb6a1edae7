"""A tool call that its server runs as a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from time import monotonic
from typing import Any

import mcp_types as types
from mcp import Client

from ...errors import ConcertinoError, ToolError
from ...records import record
from ...scope import Scope
from .connection import Connection, Elicitation, ElicitationAnswer, McpRequestError, question_of
from .server import McpServer
from .tasks import AnswerTask, CancelTask, GetTask, TaskReport, TaskStarted, interval

_CANCEL_SECONDS = 5.0
_GONE = (
    "{}: the task has expired ({}): whether the call took effect is unknown. Find that out before you call it again."
)


@record(kw_only=True)
class TaskState:
    """A task as its server describes it. Without a result, an error and questions, it is in progress."""

    result: types.CallToolResult | None = None
    error: str = ""
    questions: Mapping[str, Elicitation] = field(default_factory=dict)
    """The questions to the user that are open, by the server's names."""
    note: str = ""
    suggested_ms: object = None

    @property
    def ended(self) -> bool:
        """True if the task has its final state."""
        return self.result is not None or bool(self.error)

    def result_form(self) -> dict[str, Any] | None:
        """Return the result as JSON."""
        return None if self.result is None else self.result.model_dump(mode="json", by_alias=True, exclude_none=True)


class RemoteTask:
    """A call of a *tool* of a server for *scope*, as a task."""

    def __init__(
        self, connect: Callable[[McpServer, Scope], Connection], server: McpServer, tool: str, scope: Scope
    ) -> None:
        self.server = server
        self._tool = tool
        self._scope = scope
        self._connect = connect

    async def wait(self, begun: types.CallToolResult | TaskStarted) -> types.CallToolResult:
        """Return the result of a call, and wait for its task in this process. The task is cancelled with the caller.

        Raises `ToolError` if the task fails, or asks the user.
        """
        if isinstance(begun, types.CallToolResult):
            return begun
        start, suggested = monotonic(), begun.poll_interval_ms
        try:
            while True:
                await asyncio.sleep(interval(suggested, monotonic() - start))
                state = await self.look(begun.task_id)
                if state.ended:
                    return self.result_of(state)
                if state.questions:
                    break
                suggested = state.suggested_ms
        except asyncio.CancelledError:
            await asyncio.shield(self.cancel(begun.task_id))
            raise
        await self.cancel(begun.task_id)
        question = next(iter(state.questions.values()))
        raise ToolError(f"{self.server.name} asks the user: {question.message:.500}")

    def handle_of(self, begun: types.CallToolResult | TaskStarted) -> dict[str, Any] | None:
        """Return what finds the task of a call again, as JSON; None if the call is answered."""
        if isinstance(begun, types.CallToolResult):
            return None
        first = min(interval(begun.poll_interval_ms, 0.0), self.server.task_seconds)
        return {"server": self.server.name, "task": begun.task_id, "first": first}

    def read_result(self, form: dict[str, Any] | None, error: str) -> types.CallToolResult:
        """Return a result from its `TaskState.result_form`. Raises `ToolError` with *error* without one."""
        return self.result_of(
            TaskState(result=None if form is None else types.CallToolResult.model_validate(form), error=error)
        )

    def result_of(self, state: TaskState) -> types.CallToolResult:
        """Return the result of a task that has ended. Raises `ToolError` if it has none."""
        if state.result is None:
            raise ToolError(state.error)
        return state.result

    async def look(self, task_id: str) -> TaskState:
        """Return the state of a task; in progress, as far as is known, while the server cannot be reached."""
        try:
            async with asyncio.timeout(self.server.timeout):
                return await self._connect(self.server, self._scope).request(
                    lambda client: self._state(client, task_id)
                )
        except McpRequestError as error:
            if error.code == types.INVALID_PARAMS:
                return TaskState(error=_GONE.format(self.server.name, str(error)))
            return TaskState(note=str(error))
        except ConcertinoError as error:
            return TaskState(note=str(error))
        except TimeoutError:
            return TaskState(note=f"{self.server.name} did not answer within {self.server.timeout:g} s")

    async def answer(self, task_id: str, answers: Mapping[str, ElicitationAnswer]) -> None:
        """Answer questions of a task. Raises `ConcertinoError`, `TimeoutError`."""
        given = {
            key: types.ElicitResult(action=answer.action, content=answer.content) for key, answer in answers.items()
        }
        request = AnswerTask.of(task_id, given)
        async with asyncio.timeout(self.server.timeout):
            await self._connect(self.server, self._scope).request(
                lambda client: client.session.send_request(request, types.EmptyResult)
            )

    async def cancel(self, task_id: str) -> None:
        """Ask the server to end a task; a server that cannot be reached is not asked again."""
        request = CancelTask.of(task_id)
        with suppress(ConcertinoError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._connect(self.server, self._scope).request(
                    lambda client: client.session.send_request(request, types.EmptyResult)
                )

    async def _state(self, client: Client, task_id: str) -> TaskState:
        report = await client.session.send_request(GetTask.of(task_id), TaskReport)
        note = (report.status_message or "")[:500]
        match report.status:
            case "completed":
                try:
                    result = types.CallToolResult.model_validate(report.result)
                    if not result.is_error:
                        await client.session.validate_tool_result(self._tool, result)
                except (RuntimeError, ValueError) as error:
                    return TaskState(
                        error=f"{self.server.name}: invalid result: {type(error).__name__}: {error!s:.500}"
                    )
                return TaskState(result=result)
            case "failed" | "cancelled":
                why = (report.error or {}).get("message") or note or "no reason was given"
                return TaskState(error=f"{self.server.name}: the task was {report.status}: {why!s:.2000}")
            case _:
                questions = {key: question_of(asked.params) for key, asked in (report.input_requests or {}).items()}
                return TaskState(
                    questions=questions if report.status == "input_required" else {},
                    note=note,
                    suggested_ms=report.poll_interval_ms,
                )
