"""Suspended runs and steering messages in the live tree and in the log."""

from __future__ import annotations

import io
from dataclasses import replace
from decimal import Decimal

from rich.cells import cell_len

from concertino.cli.render.console import rich_console, table
from concertino.cli.render.format import money, readable
from concertino.cli.render.live import TreeDrawing
from concertino.cli.render.log import LogView
from concertino.cli.render.tree import AgentNode, CallNode, RunTree
from concertino.events import CallWaiting, RunEnded, RunEvent, RunStarted, Steered, ToolStarted
from tests.cli.test_run_tree import CHILD, ROOT, drawing, ended, seen


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


def child_of(tree: RunTree) -> tuple[AgentNode, list[CallNode]]:
    assert tree.root is not None
    (child,) = tree.root.children
    assert isinstance(child, AgentNode)
    return child, [part for part in child.children if isinstance(part, CallNode)]


def test_waiting_calls_are_visible() -> None:
    tree = seen(waiting())
    _, calls = child_of(tree)
    assert [call.state for call in calls] == ["waiting", "waiting"]
    text = "\n".join(drawing(tree))
    assert "? refund  5 \\x1b[31m  waits for approval" in text
    assert "waits for its result" in text
    assert "steering message: hurry\\x1b[2J up" in text


def test_only_a_suspended_run_keeps_its_waits() -> None:
    for status, call_state in (("suspended", "waiting"), ("cancelled", "cancelled")):
        tree = seen([*waiting(), ended(ROOT, status)])
        child, calls = child_of(tree)
        assert child.state == status
        assert {call.state for call in calls} == {call_state}
        assert drawing(tree)
    tree = seen([*waiting()[:5], ended(CHILD, "suspended"), ended(ROOT, "suspended")])
    assert TreeDrawing(tree).tree.root is tree.root


def test_the_log_names_the_key() -> None:
    written: list[str] = []
    lines = LogView(written.append, frozenset(("helper",)))
    for event in waiting():
        lines.update(event)
    assert written == [
        "boss: resumed: Pay it",
        "boss/helper-1: started: pay",
        "boss/helper-1: refund: 5 \\x1b[31m",
        "boss/helper-1: refund waits for approval: run_c:1.0",
        "boss/helper-1: supplier",
        "boss/helper-1: supplier waits for its result: run_c:1.1",
        "boss: steering message: hurry\\x1b[2J up",
    ]
    suspended = ended(ROOT, "suspended")
    lines.update(RunEnded(*ROOT, replace(suspended.result, error=None)))
    assert written[-1].startswith("boss: suspended: 1 tool call")


def test_wide_characters_are_aligned_in_a_table() -> None:
    rows = [("日本", "1", "x" * 90), ("b", "22", "日" * 90), ("e\u0301\x1b[31m", "3", "🍎")]
    console = rich_console(io.StringIO(), plain_width=40)
    console.print(table(("A", "N", "TASK"), rows, right=("N",), flexible=("TASK",)))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert all(cell_len(line) <= 40 for line in lines)
    assert lines[1].startswith("日本        1  xxx")
    assert lines[2].startswith("b          22  日日")
    assert all(line.endswith("…") for line in lines[1:3])
    assert "\x1b" not in "".join(lines)
    assert cell_len(lines[3].partition("🍎")[0]) == cell_len(lines[1].partition("x")[0])


def test_formats() -> None:
    assert money(Decimal("0.00001")) == "<$0.0001"
    assert money(Decimal("0.00006")) == "$0.0001"
    assert readable('{"a": "\\u00e9\\u001b"}') == '{"a": "é\\u001b"}'
    assert readable("no\njson\x1b") == "no json\\x1b"
