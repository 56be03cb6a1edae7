"""The entries of a journal: what each of them says of a run. `record` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...events import RunStatus
from ...messages import ToolCall
from ...providers.base import Model, ModelRequest, model_id
from ...storage.codec import encode_message
from ...storage.types import Reservation
from ...token_engine.edits import Edit, encode_edit
from ..journal.replay import SETTINGS, chosen, outcome_fields, spec_text
from ..outcome import Finish, Outcome, StepOutcome, Turn
from ..plain import dump_state, plain
from ..run import Run


def _standing(run: Run[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where the run stands, as the journal needs it: structure, and content."""
    state, journal = run.state, run.journal
    body: dict[str, Any] = {
        "state": {
            "step": state.step,
            "iteration": state.iteration,
            "has_tool_calls": state.has_tool_calls,
            "errored_tools": state.errored_tools,
            "disabled_tools": state.disabled_tools,
            "limit_reached": state.limit_reached,
            "budget_reached": state.budget_reached,
        },
        "index": run.index.value,
        "attempts": run.attempts,
    }
    if state.tool_choice != "auto":
        body["choice"] = chosen(state.tool_choice)
    if journal.changed("rent", rent := run.window.carrying_cost):
        body["rent"] = rent
    if journal.changed("commands", journal.seen):
        body["commands"] = journal.seen
    content: dict[str, Any] = {}
    journal.says_text(state.text, content)
    return body, content


def _keep_agent_state(run: Run[Any], content: dict[str, Any]) -> None:
    agent_state = dump_state(run.agent_state)
    if run.journal.changed("agent", agent_state):
        content["agent"] = agent_state


async def note_asking(
    run: Run[Any],
    usage: str,
    model: Model,
    request: ModelRequest,
    reserve: Reservation | None = None,
    *,
    side: bool = False,
    own_messages: bool = False,
) -> None:
    """On record before it is sent: all that led to *request*, and that it is about to be sent.

    Raises `BudgetError` if an account has no room for *reserve*; then nothing is on record.
    """
    journal = run.journal
    body, content = ({}, {}) if side else _standing(run)
    if not side:
        _keep_agent_state(run, content)
    asked: dict[str, Any] = {
        "attempt": usage.rpartition(":")[2],
        "usage": usage,
        "model": model_id(model),
        "max": request.max_output_tokens,
    }
    if reserve is not None:
        asked["reserved"] = [reserve.tokens, None if reserve.money is None else str(reserve.money)]
    if request.model != model.name:
        asked["name"] = request.model
    if side:
        asked["side"] = True
    else:
        _tell_request(run, request, asked, body, content)
        if own_messages:
            content["messages"] = [encode_message(message) for message in request.messages]
    body["request"] = asked
    await journal.append("asking", run.state.step, body, content, reserve=reserve, aside=side)


def _tell_request(
    run: Run[Any], request: ModelRequest, asked: dict[str, Any], body: dict[str, Any], content: dict[str, Any]
) -> None:
    """What makes *request* again: what follows from the run is not said, and what was said is not said twice."""
    journal, specs = run.journal, run.registry.specs()
    if journal.changed("system", run.system):
        (body["system"],) = journal.text_ids([run.system])
    if journal.changed("tools", specs):
        body["tools"] = journal.text_ids([spec_text(spec) for spec in specs])
    asked["choice"] = chosen(request.tool_choice)
    asked["parallel"] = request.parallel_tool_calls
    asked["tools"] = request.tools is specs or journal.text_ids([spec_text(spec) for spec in request.tools])
    if request.system is not run.system:
        (asked["system"],) = journal.text_ids([request.system])
    if settings := _settings(request):
        content["settings"] = settings
    if journal.changed("cache_key", request.cache_key):
        content["cache_key"] = request.cache_key
    if request.marks is not None:
        asked["marks"] = request.marks
    if request.extra:
        content["extra"] = plain(request.extra)


def _settings(request: ModelRequest) -> dict[str, Any]:
    """What an agent has set beside the usual; as a rule nothing."""
    values = {name: getattr(request, name) for name in SETTINGS}
    return {name: plain(value) for name, value in values.items() if value not in (None, "", ()) and value is not False}


async def note_answer(
    run: Run[Any], turn: Turn, calls: tuple[ToolCall, ...], outcome: StepOutcome, begun: list[int]
) -> None:
    """On record before any tool runs: the answer, its usage, and the calls that begin now."""
    body, content = _standing(run)
    _keep_agent_state(run, content)
    body["answer"] = bool(turn.message.parts)
    body["calls"] = len(calls)
    if begun:
        body["begun"] = begun
    if calls and calls != turn.message.tool_calls:
        content["calls"] = [[call.id, call.name, call.arguments, call.signature] for call in calls]
    if isinstance(outcome, Finish):
        body["finish"] = True
        content["finish"] = outcome.text
    await run.journal.append("answered", run.state.step, body, content)


async def note_summary(run: Run[Any], ready: Sequence[Edit]) -> None:
    """A summary was made: on record with what it has used, so that it is never made twice."""
    if run.journal.on:
        await run.journal.append(
            "noted", run.state.step, {}, {"ready": [encode_edit(edit) for edit in ready]}, aside=True
        )


async def note_outcomes(run: Run[Any], outcomes: dict[int, Outcome], *, suspended: bool = False) -> None:
    """On record before their siblings are: calls that have surely ended."""
    kept = {str(place): outcome_fields(outcome) for place, outcome in outcomes.items()}
    kind, content = ("suspended" if suspended else "outcome"), {"outcomes": kept} if kept else {}
    body: dict[str, Any] = {}
    if suspended:
        body, standing = _standing(run)
        _keep_agent_state(run, standing)
        content = {**standing, **content}
    await run.journal.append(kind, run.state.step, body, content)  # type: ignore[arg-type]


async def note_end(run: Run[Any], status: RunStatus, error: str | None) -> None:
    """The end, with all that led to it. Nothing can be added to the run afterwards but usage."""
    body, content = _standing(run)
    if error is not None:
        content["error"] = error
    body["status"] = status
    if status == "cancelled" and run.id == run.root_id:
        body["receipt"] = asdict(run.tree.receipt())
    end = run.journal.end_of(status, run.state.text, error)
    await run.journal.append("ended", run.state.step, body, content, end=end)
