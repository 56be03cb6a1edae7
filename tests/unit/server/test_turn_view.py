"""A turn of the page, whose events the data policy may erase before all of them are read."""

from __future__ import annotations

from typing import Any

from concertino.events import RunEnded, RunEvent, RunResult, RunStarted, ToolStarted
from concertino.server.page.turn_items import CallItem
from concertino.server.page.turn_view import TurnView

ROOT, SUB = ("r", "desk", 0), ("s", "desk/helper-1", 0)


def _ended(**fields: Any) -> RunEnded:
    counts: dict[str, Any] = {"content_index": 0, "steps": 1, "tool_calls": {}, "usage": (), "data": {}}
    result = RunResult(run_id="r", agent_path="desk", status="completed", text="Done", messages=(), **counts, **fields)
    return RunEnded(*ROOT, result)


def _view(*events: RunEvent) -> TurnView:
    view = TurnView("r")
    for number, event in enumerate(events, 1):
        view.take(number, event)
    return view


def _calls(view: TurnView) -> list[str]:
    return [item.state for item in view.items.values() if isinstance(item, CallItem)]


def test_what_has_no_recorded_end_is_not_shown_as_failed_or_at_work() -> None:
    view = _view(
        RunStarted(*ROOT, "desk", "go"),
        ToolStarted(*ROOT, "c1", "helper", "{}"),
        ToolStarted(*ROOT, "c2", "refund", "{}"),
        RunStarted(*SUB, "helper", "look", parent_call="c1"),
        ToolStarted(*SUB, "c3", "search", "{}"),
        _ended(),
    )
    assert _calls(view) == ["ended", "ended", "ended"]
    assert view.agents["s"].state == "ended"

    view.settle({"r": "completed", "s": "completed"})
    assert _calls(view) == ["completed", "ended", "ended"]
    assert (view.agents["s"].state, view.agents["s"].activity) == ("completed", "")


def test_the_store_tells_which_sub_agent_failed() -> None:
    view = _view(
        RunStarted(*ROOT, "desk", "go"),
        ToolStarted(*ROOT, "c1", "helper", "{}"),
        RunStarted(*SUB, "helper", "look", parent_call="c1"),
        _ended(),
    )
    view.settle({"s": "failed"})
    assert _calls(view) == ["failed"]
