"""Tasks of MCP servers (extension `io.modelcontextprotocol/tasks`): calls that a server answers later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

from ...extras import extra

with extra("mcp", "a connection to an MCP server"):
    import mcp_types as types
    from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim

_SHORTEST, _LONGEST = 1.0, 300.0
"""Bounds of the seconds between two looks at a task that a server may suggest."""
_SHARE = 5
"""A task that runs for long is looked at after a fifth of that time: about sixty times a day."""

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskStarted(types.Result):
    """The answer to a call that the server runs as a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: Any = None


class TaskReport(types.Result):
    """The state of a task."""

    task_id: str
    status: TaskStatus
    status_message: str | None = None
    poll_interval_ms: Any = None
    input_requests: dict[str, types.ElicitRequest] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _TaskParams(types.RequestParams):
    task_id: str


class _AnswerParams(_TaskParams):
    input_responses: dict[str, types.ElicitResult]


class GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    """Asks for the state of a task."""

    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"

    @classmethod
    def of(cls, task_id: str) -> GetTask:
        """Return the request for one task."""
        return cls(params=_TaskParams(task_id=task_id))


class CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    """Cancels a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"

    @classmethod
    def of(cls, task_id: str) -> CancelTask:
        """Return the request for one task."""
        return cls(params=_TaskParams(task_id=task_id))


class AnswerTask(types.Request[_AnswerParams, Literal["tasks/update"]]):
    """Answers questions of a task. The server ignores an answer that it has already."""

    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"

    @classmethod
    def of(cls, task_id: str, answers: Mapping[str, types.ElicitResult]) -> AnswerTask:
        """Return the request for one task."""
        return cls(params=_AnswerParams(task_id=task_id, input_responses=dict(answers)))


class TaskSignal(Exception):  # noqa: N818 - carries the answer of a call out of the SDK, not an error
    """The server runs the call as a task."""

    def __init__(self, started: TaskStarted) -> None:
        super().__init__(started.task_id)
        self.started = started


class TasksExtension(ClientExtension):
    """Tells servers that calls may become tasks."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """See `ClientExtension.claims`."""
        return (ResultClaim(result_type="task", model=TaskStarted, resolve=_signal),)


async def _signal(started: TaskStarted, _: ClaimContext) -> NoReturn:
    raise TaskSignal(started)


def interval(suggested_ms: object, since: float) -> float:
    """Return the seconds until a task that began *since* seconds ago is looked at again."""
    suggested = min(suggested_ms, _LONGEST * 1_000) / 1_000 if isinstance(suggested_ms, int | float) else 0.0
    return max(_SHORTEST, suggested, since / _SHARE)
