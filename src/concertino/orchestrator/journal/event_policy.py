"""The data policy of events: what observers and the log of events may see of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, assert_never

from ... import events
from ...messages import AssistantMessage
from ...waits import Wait
from .data_policy import (
    NOTHING,
    DataPolicy,
    Treatment,
    _arguments,
    _bare,
    _filtered,
    _refusing,
    _stays,
    _stricter,
    _tool,
    _treated,
    once_text,
    stored_text,
    tool_name,
)

_STEP = ("id", "name", "icon", "ended")  # the structure of a progress step


def observed_event(policy: DataPolicy, event: events.RunEvent) -> events.RunEvent | None:
    """Return *event* for observers, or None to hide it. A policy that keeps everything returns the same object.

    Observers cannot forget, so `KeepFor` counts as `redact`. The structure of dropped content is still shown: that a
    tool was called, but not with which arguments. Structured data and progress are shown unchanged or not at all.
    Deltas of hashed or dropped content are hidden.
    """
    return event if _is_shown_whole(policy, event) else _filtered_event(_stricter(policy), event)


def stored_event(policy: DataPolicy, event: events.RunEvent) -> events.RunEvent | None:
    """Return *event* for the log in the store, as `observed_event` does, but with what is kept for a time.

    The log of a run is erased with its journal. If that happens at the run's end, `RunEnded` arrives afterwards, and
    nothing would erase it. A `once` result is reduced as its message will be.
    """
    if isinstance(event, events.ToolDone) and event.summary is not None:
        event = replace(event, content=once_text(policy, event.name, event.content, event.summary), summary=None)
    if _is_shown_whole(policy, event):
        return event
    late = isinstance(event, events.RunEnded) and policy.erase_after == 0.0
    return _filtered_event(_stricter(policy) if late else policy, event)


def _is_shown_whole(policy: DataPolicy, event: events.RunEvent) -> bool:
    """Return whether all of *event* is under a policy that keeps everything.

    A sub-agent's wait is under its own policy, and a result may refuse to be stored.
    """
    if not policy.keeps_everything:
        return False
    if isinstance(event, events.RunEnded):
        return not _waits_below(event.result) and all(message.stored for message in event.result.messages)
    return not isinstance(event, events.ToolDone) or event.stored


def _filtered_event(  # noqa: C901, PLR0911, PLR0912 - one case per event
    policy: DataPolicy, event: events.RunEvent
) -> events.RunEvent | None:
    """Return *event* without the content that *policy* forbids, or None to hide it."""
    where = "tool" if isinstance(event, events.CustomEvent) else "name"
    name, key = getattr(event, where, ""), policy.hash_key
    tool = _tool(policy, name)
    if name and (mark := tool_name(policy, name)) != name:
        event = replace(event, **{where: mark})  # type: ignore[arg-type]  # any other event's name is a tool's
    match event:
        case (
            events.StepStarted()
            | events.UsageRecorded()
            | events.Notice()
            | events.ContextEdited()
            | events.CacheMiss()
            | events.Voided()
        ):
            return event
        case events.AttemptFailed():
            return replace(event, error=_treated(policy.text, event.error, key))
        case events.TextDelta() | events.ReasoningDelta():
            how = policy.text if isinstance(event, events.TextDelta) else policy.reasoning
            return replace(event, text=_treated(how, event.text, key)) if _has_pieces(how) else None
        case events.QuestionAnswered():
            return replace(event, text=stored_text(policy, event.text))
        case events.PartialOutput():
            return event if _stays(policy.text) else None
        case events.ToolCallDelta():
            piece = _treated(tool.arguments, event.arguments, key)
            return replace(event, arguments=piece) if _has_pieces(tool.arguments) else None
        case events.ToolStreamed():
            piece = _treated(tool.results, event.content, key)
            return replace(event, content=piece) if _has_pieces(tool.results) else None
        case events.RunStarted():
            return replace(event, task=stored_text(policy, event.task))
        case events.Steered():
            return replace(event, text=stored_text(policy, event.text))
        case events.TurnCompleted(message=message):
            left = _filtered(policy, message)
            return replace(event, message=left if isinstance(left, AssistantMessage) else replace(message, parts=()))
        case events.ToolsSelected(calls=calls):
            return replace(event, calls=tuple([_bare(policy, call) for call in calls]))
        case events.ToolStarted():
            return replace(event, arguments=_arguments(tool.arguments, event.arguments, key))
        case events.CallWaiting():
            note = _treated(tool.arguments, event.note, key)
            return replace(event, arguments=_arguments(tool.arguments, event.arguments, key), note=note)
        case events.ToolProgress():
            return event if _stays(tool.results) else replace(event, step=_bare_step(event.step))
        case events.RunProgress():
            return event if _stays(policy.text) else replace(event, step=_bare_step(event.step))
        case events.CustomEvent():
            return event if _stays(tool.results if name else policy.text) else replace(event, data=None)
        case events.ToolDone():
            how = _refusing(tool.results, event.stored)
            data, media = (event.data, event.media) if _stays(how) else (None, ())
            if not _stays(policy.media):  # a digest tells who has the same file
                media = ()
            content, summary = _treated(how, event.content, key), event.summary and _treated(how, event.summary, key)
            return replace(event, content=content, data=data, media=media, summary=summary)
        case events.ToolFailed():
            return replace(event, error=_treated(tool.results, event.error, key))
        case events.RunEnded():
            return replace(event, result=_shown_result(policy, event.result))
        case _:
            assert_never(event)


def _bare_step(step: dict[str, Any]) -> dict[str, Any]:
    return {name: step[name] for name in _STEP if name in step} | {"parts": []}


def _shown_result(policy: DataPolicy, result: events.RunResult) -> events.RunResult:
    return replace(
        result,
        text=stored_text(policy, result.text),
        output=result.output if _stays(policy.text) else None,
        error=None if result.error is None else stored_text(policy, result.error),
        data={name: data for name, data in result.data.items() if _stays(policy.tool(name).results)},
        messages=tuple(left for message in result.messages if (left := _filtered(policy, message))),
        # A sub-agent's policy is unknown here and may be stricter.
        waiting=tuple(_shown_wait(policy if w.run_id == result.run_id else NOTHING, w) for w in result.waiting),
        receipt=None if result.receipt is None else _shown_receipt(policy, result),
        context=None,  # it contains extracts and summaries
    )


def _shown_receipt(policy: DataPolicy, result: events.RunResult) -> events.StopReceipt:
    assert result.receipt is not None
    receipt, path = result.receipt, result.agent_path

    def shown_work(works: Iterable[events.StoppedWork]) -> tuple[events.StoppedWork, ...]:
        return tuple(
            [
                replace(work, name=tool_name(policy, work.name))
                if (work.what, work.agent_path) == ("tool", path)
                else work
                for work in works
            ]
        )

    return events.StopReceipt(
        stopped=shown_work(receipt.stopped),
        not_stopped=shown_work(receipt.not_stopped),
        unknown=shown_work(receipt.unknown),
    )


def _waits_below(result: events.RunResult) -> bool:
    return any(wait.run_id != result.run_id for wait in result.waiting)


def _shown_wait(policy: DataPolicy, wait: Wait) -> Wait:
    how, key = policy.tool(wait.tool).arguments, policy.hash_key
    wait = replace(wait, task="")  # it is for the process that does the work
    if _stays(how):
        return wait
    arguments, note = _arguments(how, wait.arguments, key), _treated(how, wait.note, key)
    # Remove the hash: it has no key, so short arguments could be guessed from it.
    return replace(wait, tool=tool_name(policy, wait.tool), arguments=arguments, arguments_hash="", note=note)


def _has_pieces(how: Treatment) -> bool:
    """Return whether text may be shown in pieces. A hash covers the whole text, so pieces cannot be hashed."""
    return _stays(how) or how == "redact"
