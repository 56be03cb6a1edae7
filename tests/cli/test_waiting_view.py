"""Runs that wait, and messages put into them, as the live tree and the lines show them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from concertino.cli.render.format import money, readable
from concertino.cli.render.live import Drawing
from concertino.cli.render.log import Lines
from concertino.cli.render.table import cut, table, width
from concertino.cli.render.tree import AgentNode, CallNode, RunTree
from concertino.events import CallWaiting, RunEnded, RunEvent, RunStarted, Steered, ToolStarted
from tests.cli.test_run_tree import CHILD, ROOT, ended, picture, seen


def waiting() -> list[RunEvent]:
    return [
        RunStarted(*ROOT, "boss", "Pay it", resumed=True),
        ToolStarted(*ROOT, "c1", "helper", '{"query": "pay"}'),
        RunStarted(*CHILD, "helper", "pay", "c1"),
        ToolStarted(*CHILD, "c1", "refund", '{"text": "5 \\u001b[31m"}'),
        CallWaiting(*CHILD, "c1", "refund", "run_c:1.0", "approval", "{}", ("ann",)),
        ToolStarted(*CHILD, "c2", "supplier", "{}"),
        CallWaiting(*CHILD, "c2", "supplier", "run_c:1.1", "result", "{}"),
        Steered(*ROOT, "hurry\x1b[2J up"),
    ]


def parts(tree: RunTree) -> tuple[AgentNode, list[CallNode]]:
    assert tree.root is not None
    (child,) = tree.root.parts
    assert isinstance(child, AgentNode)
    return child, [part for part in child.parts if isinstance(part, CallNode)]


def test_calls_that_wait_are_seen() -> None:
    tree = seen(waiting())
    _, calls = parts(tree)
    assert [call.state for call in calls] == ["waiting", "waiting"]
    text = "\n".join(picture(tree))
    assert "? refund  5 [31m  waits for an approval" in text
    assert "waits for its result" in text
    assert "told: hurry[2J up" in text


def test_a_suspended_run_keeps_its_waits_and_a_stopped_one_does_not() -> None:
    for status, call_state in (("suspended", "waiting"), ("cancelled", "cancelled")):
        tree = seen([*waiting(), ended(ROOT, status)])
        child, calls = parts(tree)
        assert child.state == status
        assert {call.state for call in calls} == {call_state}
        assert picture(tree)
    tree = seen([*waiting()[:5], ended(CHILD, "suspended"), ended(ROOT, "suspended")])
    assert Drawing(tree).tree.root is tree.root


def test_the_lines_name_the_key() -> None:
    written: list[str] = []
    lines = Lines(written.append, frozenset(("helper",)))
    for event in waiting():
        lines.see(event)
    assert written == [
        "boss: taken up again: Pay it",
        "boss/helper-1: started: pay",
        "boss/helper-1: refund: 5 [31m",
        "boss/helper-1: refund waits for an approval: run_c:1.0",
        "boss/helper-1: supplier",
        "boss/helper-1: supplier waits for its result: run_c:1.1",
        "boss: told: hurry[2J up",
    ]
    suspended = ended(ROOT, "suspended")
    lines.see(RunEnded(*ROOT, replace(suspended.result, error=None)))
    assert written[-1].startswith("boss: suspended: 1 tool call")


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("äöü", 3), ("日本", 4), ("e\u0301", 1), ("🍎", 2), ("a\u200db", 2), ("", 0)]
)
def test_columns_are_counted_as_terminals_do(text: str, columns: int) -> None:
    assert width(text) == columns


def test_a_table_is_cut_where_it_is_too_wide() -> None:
    rows = [("日本", "1", "x" * 90), ("b", "22", "日" * 90)]
    lines = [line for line, _ in table(("A", "N", "TASK"), rows, right=("N",), columns=40)]
    assert all(width(line) <= 40 for line in lines)
    assert lines[1].startswith("日本   1  xxx")
    assert lines[2].startswith("b     22  日日")
    assert all(line.endswith("…") for line in lines[1:])
    assert cut("日本", 3) == "日…"


def test_wording() -> None:
    assert money(Decimal("0.00001")) == "<$0.0001"
    assert money(Decimal("0.00006")) == "$0.0001"
    assert readable('{"a": "\\u00e9\\u001b"}') == '{"a": "é\\u001b"}'
    assert readable("no\njson\x1b") == "no json"
