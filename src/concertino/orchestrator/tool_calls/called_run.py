"""Calls that a target of a fleet answers: the task of its processes, and the share of their run in the caller's."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from ...errors import DamagedDataError, ErasedError, ToolError
from ...ids import child_run_id
from ...messages import Media
from ...storage.codec import encode_message
from ...targets import tool_run
from ...tools.base import Pending, Tool, ToolResult
from ...waits import Wait
from ..cards import box_of
from ..journal.data_policy import policy_form, policy_of_call
from ..journal.replay import replay
from ..plain import plain
from ..run import RunSession
from .approval import NeedsAnswer

_NOT_KEPT = "the result must not be kept, so it cannot reach the process that called the tool"


async def waiting_call(run: RunSession, ordinal: int | str, pending: Pending, arguments: str) -> NeedsAnswer:
    """Return the signal of a call that waits for its result. Raises `ToolError` if a sub-agent may not start."""
    task = dict(pending.task)
    if cards := task.get("cards"):
        task["cards"] = [encode_message(message) for message in await box_of(run, cards, leaves=True)]
    if "agent" in task and run.journal.on:
        if (why := run.meter.refuse_spawn(run.path)) is not None:
            raise ToolError(why)
        task |= _given(run, ordinal, task["agent"])
    text = json.dumps(task, ensure_ascii=False)
    return NeedsAnswer("result", pending.seconds, (), pending.note, arguments, target=pending.target, task=text)


def handed_over(
    run: RunSession, ordinal: int | str, tool: Tool, arguments: dict[str, Any], written: str
) -> NeedsAnswer:
    """Return the signal of a call that a process of the tool's target runs, with the caller's data policy.

    *written* are the arguments as the model wrote them.
    """
    task: dict[str, Any] = {"agent": tool_run(tool.target, tool.name), "message": json.dumps(arguments)}
    if run.journal.on:
        task |= _given(run, ordinal, tool.name)
        task["limits"]["model_calls"] += 1  # kept for the last step of a run, which this one never takes
        task["policy"] = policy_form(policy_of_call(run.journal.policy, tool.name))
    text = json.dumps(task, ensure_ascii=False)
    note = f"the result of {tool.name}"
    return NeedsAnswer("result", tool.timeout, (), note, written, target=tool.target, task=text)


def _given(run: RunSession, ordinal: int | str, name: str) -> dict[str, Any]:
    """Return what a run in another process is given of the run above."""
    chat, claim = run.chat, run.tree.claim
    assert claim is not None
    return {
        "model": run.model_id,
        "path": f"{run.path}/{name}-{ordinal}",
        "conversation_id": chat.conversation_id,
        "memory": chat.memory_enabled,
        "personalization": chat.personalization_enabled,
        "traceparent": chat.traceparent,
        "payer": claim.payer or claim.root_id,
        "limits": run.meter.left(),
        "patterns": policy_form(run.journal.policy)[4:],
    }


def result_text(content: str, *, is_error: bool, result: ToolResult) -> str:
    """Return a tool's result as the text with which its run answers the call; `handed_back` reads it."""
    if not result.stored:
        content, is_error, result = _NOT_KEPT, True, ToolResult("")
    form: dict[str, Any] = {"error" if is_error else "content": content}
    if result.data is not None:
        form["data"] = plain(result.data)
    if result.summary is not None:
        form["summary"] = result.summary
    if result.media:
        form["media"] = [plain(each) for each in result.media]
    if result.ends_run:
        form["ends_run"] = True
    return json.dumps(form, ensure_ascii=False)


def handed_back(tool: Tool, answer: Wait, content: str, *, is_error: bool) -> tuple[str | ToolResult, bool]:
    """Return the result that the run of a tool's call has answered, and whether it is an error.

    Whatever else has answered the call, such as an agent or the product, its *content* is the result.
    """
    resolution = answer.resolution
    assert resolution is not None
    if is_error or not tool.target or resolution.by != tool_run(tool.target, tool.name):
        return content, is_error
    try:
        form = dict(json.loads(content))
        if "error" in form:
            return str(form["error"]), True
        media = tuple([Media(**each) for each in form.get("media", ())])
        ends_run = form.get("ends_run") is True
        return ToolResult(form["content"], form.get("data"), form.get("summary"), media, ends_run=ends_run), False
    except (ValueError, TypeError, KeyError):
        return "the result was damaged on its way between the processes", True


async def count_called_run(run: RunSession, key: str, tool: Tool) -> None:
    """Add the usage and the tool calls of the run that has worked for the call *key* of *tool*, once."""
    store = run.tree.store
    assert store is not None
    called = child_run_id(key)
    for record in await store.usage(run.scope, called):
        if run.tree.ledger.book(record):
            run.meter.restore_usage([record])
    with suppress(DamagedDataError, ErasedError):  # by its data policy
        journal = await store.load(run.scope, called)
        if journal is None:
            return  # it has not started
        counts = dict(replay(journal).state.tool_calls)
        if tool.target:  # the call itself is counted
            counts.pop(journal.run.start.agent_path, None)
        run.count_calls(counts)
        run.meter.restore_run(counts)
