"""A server that runs calls as tasks, which are files in a folder: `python tasks_server.py FOLDER`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, RequestParams, ToolAnnotations

FOLDER = Path(sys.argv[1])


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


def note(line: str) -> None:
    with (FOLDER / "log").open("a") as log:
        log.write(f"{line}\n")


def state_of(task_id: str) -> dict[str, Any]:
    """Return the state that a test has written to the file of the task; until then it works."""
    path = FOLDER / f"{task_id}.json"
    if (FOLDER / "gone").exists():
        raise MCPError(INVALID_PARAMS, "Task has expired")
    state = json.loads(path.read_text()) if path.exists() else {"status": "working", "statusMessage": "brewing"}
    shown = {"createdAt": "2026-11-25T10:30:00Z", "lastUpdatedAt": "2026-11-25T10:30:00Z", "ttlMs": None}
    return {**shown, "taskId": task_id, "pollIntervalMs": 10, **state}


class Tasks(Extension):
    identifier = "io.modelcontextprotocol/tasks"

    def methods(self) -> list[MethodBinding]:
        async def get(_: Any, params: TaskParams) -> dict[str, Any]:
            note(f"get {params.task_id}")
            if (FOLDER / "kill").exists():
                (FOLDER / "kill").unlink()
                os.kill(os.getppid(), signal.SIGKILL)
            return state_of(params.task_id)

        async def update(_: Any, params: TaskParams) -> dict[str, Any]:
            note(f"update {json.dumps(params.input_responses, sort_keys=True)}")
            return {}

        async def cancel(_: Any, params: TaskParams) -> dict[str, Any]:
            note(f"cancel {params.task_id}")
            return {}

        found = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}
        return [MethodBinding(method, TaskParams, handler) for method, handler in found.items()]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        key = (params.meta or {}).get("concertino/idempotency-key", "")
        note(f"call {params.name} {key}")
        if params.name == "quick":
            return await call_next(ctx)
        return {"resultType": "task", **state_of("task-1"), "status": "working"}


server = MCPServer("kettle", extensions=[Tasks()])


@server.tool()
def brew(pot: str) -> str:
    """Brew tea."""
    return ""


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def quick() -> str:
    """Answer at once."""
    return "at once"


if __name__ == "__main__":
    server.run("stdio")
