"""Endpoints of runs and of calls that wait for an approval."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..errors import ConfigurationError, RunStateError, UnknownRunError, UnknownWaitError
from ..messages import AssistantMessage, Media, Message, ToolMessage, UserMessage
from ..runtime import AnswerOutcome
from ..runtime.answers import approval_of
from ..runtime.question import DECLINED, PersonQuestion, question_of
from ..runtime.timeline import Timeline, read_timeline
from ..storage.types import StoredRun
from .conversation_endpoints import event_source, is_over
from .endpoint import ApiCall, Endpoints
from .event_source import EVENT_STREAM, event_frames
from .forms import (
    AnswerForm,
    ApprovalAnswer,
    ApprovalForm,
    EventsQuery,
    LimitQuery,
    ListForm,
    QuestionAnswer,
    ReceiptForm,
    ResumeHeaders,
    RunForm,
    SteeringMessage,
    TimelineForm,
    UsageForm,
)
from .open_waits import OpenWaitForm, open_wait_form, open_waits

runs = Endpoints("runs")
approvals = Endpoints("approvals")
_ONE = "/api/runs/{run}"
_INLINE = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BYTES = "application/octet-stream"


@runs("GET", "/api/runs")
async def list_runs(call: ApiCall, query: LimitQuery) -> ListForm[RunForm]:
    """List the runs, the newest first, without those of sub-agents."""
    found = await call.runtime.store.runs(call.scope, roots=True, limit=query.limit)
    return ListForm(items=[run_form(each) for each in found])


@runs("GET", _ONE)
async def read_run(call: ApiCall, run: str) -> RunForm:
    """Read a run."""
    return run_form(await stored_run(call, run))


@runs("GET", f"{_ONE}/events", content=EVENT_STREAM)
async def follow_run(call: ApiCall, run: str, headers: ResumeHeaders, query: EventsQuery) -> Response:
    """Stream the events of a run and of its sub-agents."""
    await stored_run(call, run)
    after = query.after if headers.last is None else headers.last
    if await is_over(call, run, after):
        return Response(status_code=204)
    return event_source(call, event_frames(call.runtime.event_batches(call.scope, run, after, until=query.until)))


@runs("GET", f"{_ONE}/tree")
async def read_tree(call: ApiCall, run: str) -> ListForm[RunForm]:
    """List the runs of a tree: the root and its sub-agents, the newest first."""
    root_id = (await stored_run(call, run)).start.root_id
    found = await call.runtime.store.runs(call.scope, root_id=root_id, limit=1000)
    return ListForm(items=[run_form(each) for each in found])


@runs("GET", f"{_ONE}/timeline")
async def timeline(call: ApiCall, run: str) -> TimelineForm:
    """Read the steps of a run, with their attempts and calls."""
    return TimelineForm.model_validate(await timeline_of(call, run))


@runs("GET", f"{_ONE}/usage")
async def run_usage(call: ApiCall, run: str) -> ListForm[UsageForm]:
    """List the usage records of a tree, in the order of their booking."""
    root_id = (await stored_run(call, run)).start.root_id
    records = await call.runtime.store.usage(call.scope, root_id)
    return ListForm(items=[UsageForm.model_validate(each) for each in records])


@runs("GET", f"{_ONE}/media/{{digest}}", content=(*_INLINE, _BYTES))
async def read_media(call: ApiCall, run: str, digest: str) -> Response:
    """Read an image or a file of a run's messages. All but images is an attachment."""
    await stored_run(call, run)
    for stored in await call.runtime.store.messages(call.scope, run):
        for media in _media_of(stored.message):
            if media.digest == digest and media.data is not None:
                inline = media.essence in _INLINE
                name = quote(media.name or digest[:12], safe="")
                headers = {
                    "Content-Type": media.essence if inline else _BYTES,
                    "Content-Disposition": f"{'inline' if inline else 'attachment'}; filename*=UTF-8''{name}",
                    "Content-Security-Policy": "default-src 'none'; sandbox",
                    "Cache-Control": "private, max-age=86400",
                }
                return Response(base64.b64decode(media.data), headers=headers)
    raise HTTPException(404, f"run {run} has no media {digest!r:.80}")


@runs("GET", f"{_ONE}/receipt")
async def receipt(call: ApiCall, run: str) -> ReceiptForm:
    """Read what a stop has found in progress."""
    found = (await timeline_of(call, run)).receipt
    if found is None:
        raise RunStateError(f"run {run} was not stopped: it has no receipt")
    return ReceiptForm.model_validate(found)


@runs("POST", f"{_ONE}/stop")
async def stop_run(call: ApiCall, run: str) -> ReceiptForm:
    """Stop a run and everything below it, in whichever process it is. Partial text is kept."""
    return ReceiptForm.model_validate(await call.runtime.stop(call.scope, run))


@runs("POST", f"{_ONE}/steer")
async def steer_run(call: ApiCall, run: str, body: SteeringMessage) -> None:
    """Add a message to a run in progress: the agent sees it before its next step."""
    await call.runtime.steer(call.scope, run, body.text)


@approvals("GET", "/api/approvals")
async def list_approvals(call: ApiCall, query: LimitQuery) -> ListForm[ApprovalForm]:
    """List the calls that the user may approve, the oldest first."""
    found = await call.runtime.approvals(call.scope, query.limit)
    return ListForm(items=[ApprovalForm.model_validate(each) for each in found])


@approvals("GET", "/api/waits")
async def list_waits(call: ApiCall, query: LimitQuery) -> ListForm[OpenWaitForm]:
    """List the approvals and the questions that wait for the user, the oldest first."""
    return ListForm(items=[open_wait_form(each) for each in await open_waits(call, query.limit)])


@approvals("POST", "/api/approvals/{key}")
async def answer_approval(call: ApiCall, key: str, body: ApprovalAnswer) -> AnswerForm:
    """Approve a call, with other arguments if given, or deny it. The first answer counts."""
    if body.decision == "approve":
        outcome = await call.runtime.approve(call.scope, key, arguments=body.arguments, remember=body.remember)
    else:
        outcome = await call.runtime.deny(call.scope, key, body.reason)
    return _answer_form(outcome)


@approvals("POST", "/api/questions/{key}")
async def answer_question(call: ApiCall, key: str, body: QuestionAnswer) -> AnswerForm:
    """Answer a question of a tool or of a workflow, or decline it. The first answer counts."""
    wait = await call.runtime.store.wait(call.scope, key)
    if wait is None:  # a workflow may ask people who do not own the run
        _, wait = await approval_of(call.runtime.store, call.scope, key)
    question = question_of(wait.tool, wait.kind, wait.arguments)
    if question is None:
        raise UnknownWaitError(f"no question waits under {key!r:.200}")
    if question.approval:
        return _answer_form(await _decide(call, key, question, body.answer))
    if body.answer is None:
        return _answer_form(await call.runtime.resolve(call.scope, key, DECLINED, failed=True))
    if question.login:
        raise RunStateError("the login answers this question: open its page")
    return _answer_form(await call.runtime.resolve(call.scope, key, body.answer))


async def _decide(
    call: ApiCall, key: str, question: PersonQuestion, answer: str | dict[str, Any] | None
) -> AnswerOutcome:
    """Answer the question of a workflow: an answer approves its call."""
    if answer is None:
        return await call.runtime.deny(call.scope, key)
    if not isinstance(answer, str):
        raise ConfigurationError("invalid answer: this question has no schema: use a text")
    return await call.runtime.approve(call.scope, key, arguments=question.answered(answer))


def _answer_form(outcome: AnswerOutcome) -> AnswerForm:
    resolution = outcome.wait.resolution
    assert resolution is not None
    return AnswerForm(won=outcome.won, verdict=resolution.verdict, by=resolution.by)


async def stored_run(call: ApiCall, run: str) -> StoredRun:
    """Return a run of the scope. Raises `UnknownRunError`."""
    found = await call.runtime.store.run(call.scope, run)
    if found is None:
        raise UnknownRunError(f"there is no run {run!r}")
    return found


def run_form(stored: StoredRun) -> RunForm:
    """Return the form of a run."""
    end = stored.end
    fields: dict[str, object] = {
        "id": stored.start.run_id,
        "state": stored.state,
        "answer": "",
        "error": None,
        "ended": None,
    }
    if end is not None:
        fields |= {"answer": end.answer, "error": end.error, "ended": end.ended}
    names = ("root_id", "parent_id", "agent", "agent_path", "conversation_id", "task", "started")
    return RunForm.model_validate({name: getattr(stored.start, name) for name in names} | fields)


async def timeline_of(call: ApiCall, run: str) -> Timeline:
    """Return the timeline of a run. Raises `UnknownRunError`."""
    store = call.runtime.store
    journal = await store.load(call.scope, run)
    if journal is None:
        raise UnknownRunError(f"there is no run {run!r}")
    usage = await store.usage(call.scope, journal.run.start.root_id)
    waits = await store.waits(call.scope, run_id=run, open=False, limit=1000)
    return read_timeline(journal, usage, waits, await store.operations(call.scope, run_id=run))


def _media_of(message: Message) -> Sequence[Media]:
    return message.media if isinstance(message, UserMessage | AssistantMessage | ToolMessage) else ()
