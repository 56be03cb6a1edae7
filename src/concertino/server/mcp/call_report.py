"""The state of a run as the result of an MCP tool call, and its events as progress."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types

from ...agents.workflow.outside_tools import OutsideSteps
from ...agents.workflow.step_tools import OUTSIDE
from ...events import CallWaiting, RunEvent, RunProgress, RunResult, RunStarted, ToolProgress, ToolStarted
from ...scope import Scope
from ...waits import Wait
from ..protocols.values import failure_of, output_of

LATER = "get_run reads it later"


def ended_report(result: RunResult) -> types.CallToolResult:
    """Return the result of a run that has ended."""
    shown: dict[str, Any] = {"run": result.run_id, "status": result.status, "answer": result.text}
    if (output := output_of(result)) is not None:
        shown["output"] = output
    if result.status in ("failed", "limited"):
        shown["error"] = failure_of(result)
    is_error = result.status in ("failed", "cancelled")
    return report(shown, text=result.text if result.status == "completed" else None, is_error=is_error)


def waiting_report(run_id: str, waits: list[Wait], outside: OutsideSteps, scope: Scope) -> types.CallToolResult:
    """Return the state of a run that waits: for the next step of a workflow, with its token, or for an answer."""
    shown: dict[str, Any] = {"run": run_id, "status": "suspended"}
    steps = [wait for wait in waits if wait.tool == OUTSIDE and wait.arguments]
    if steps:
        return report({**shown, "step": outside.shown(steps[0], scope)})
    waits_for = [
        {"tool": each.tool, "for": each.kind, "arguments": each.arguments, "note": each.note} for each in waits
    ]
    return report({**shown, "waits_for": waits_for, "note": f"it continues when this is answered; {LATER}"})


def running_report(run_id: str) -> types.CallToolResult:
    """Return the state of a run that takes longer than its call."""
    return report({"run": run_id, "status": "running", "note": f"it continues without this call; {LATER}"})


def report(shown: dict[str, Any], *, text: str | None = None, is_error: bool = False) -> types.CallToolResult:
    """Return a result with structured content; its *text* is by default the same as JSON."""
    written = json.dumps(shown, ensure_ascii=False) if text is None else text
    return types.CallToolResult(content=[types.TextContent(text=written)], structured_content=shown, is_error=is_error)


def error_report(text: str) -> types.CallToolResult:
    """Return an error that the client's model reads."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def progress_of(event: RunEvent) -> str:
    """Return the line of progress about *event*; "" for none."""
    match event:
        case RunStarted():
            return f"{event.agent}: {'resumed' if event.resumed else 'started'} ({event.run_id})"
        case ToolStarted() | CallWaiting():
            return f"{event.name}: {'waits' if isinstance(event, CallWaiting) else 'called'}"
        case ToolProgress() | RunProgress():
            return str(event.step.get("name", ""))
        case _:
            return ""
