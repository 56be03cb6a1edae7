"""`RunTree` and its drawings, from events of the real engine and from events made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from rich.console import Console

from concertino import Chat, ToolOrchestrator, ToolRegistry, tool
from concertino.agents import ResearcherAgent, delegate
from concertino.cli.render.live import TreeDrawing
from concertino.cli.render.log import LogView
from concertino.cli.render.tree import AgentNode, CallNode, RunTree
from concertino.events import (
    Notice,
    RunEnded,
    RunEvent,
    RunResult,
    RunStarted,
    StepStarted,
    TextDelta,
    ToolDone,
    ToolFailed,
    ToolProgress,
    ToolStarted,
    UsageRecorded,
)
from concertino.orchestrator.agent import AgentConfig
from concertino.testing import ScriptedModel, call
from concertino.usage import Tokens, UsageRecord

CHILD = ("run_c", "boss/helper-1", 0)
ROOT = ("run_r", "boss", 0)


def record(id: str, run_id: str, cost: Decimal | None, prompt: int = 10) -> UsageRecorded:
    path = {"run_r": "boss", "run_c": "boss/helper-1"}[run_id]
    made = UsageRecord(
        id=id, run_id=run_id, agent_path=path, provider="p", model="m", tokens=Tokens(prompt=prompt), cost=cost
    )
    return UsageRecorded(run_id, path, 0, made)


def ended(path: tuple[str, str, int], status: str, usage: Sequence[UsageRecord] = ()) -> RunEnded:
    result = RunResult(
        run_id=path[0],
        agent_path=path[1],
        status=status,  # type: ignore[arg-type]
        text="",
        content_index=0,
        steps=1,
        tool_calls={path[1]: 1},
        usage=tuple(usage),
        data={},
        messages=(),
        error=None if status == "completed" else "it broke",
    )
    return RunEnded(*path, result)


def active() -> list[RunEvent]:
    """Return events of a boss and a helper with one call in each state."""
    step = {"id": 1, "name": "Searching", "icon": "", "parts": ["pears", "8 results"], "ended": False}
    return [
        RunStarted(*ROOT, "boss", "What\nis it?"),
        ToolStarted(*ROOT, "c1", "helper", '{"query": "pears"}'),
        RunStarted(*CHILD, "helper", "pears", "c1"),
        ToolStarted(*CHILD, "c1", "web_search", '{"query": "pears"}'),
        ToolProgress(*CHILD, "c1", "web_search", step),
        ToolStarted(*CHILD, "c2", "fetch_page", '{"location": "a.md"}'),
        ToolDone(*CHILD, "c2", "fetch_page", "text"),
        ToolStarted(*CHILD, "c3", "fetch_page", '{"location": "b.md"}'),
        ToolFailed(*CHILD, "c3", "fetch_page", "no such page"),
    ]


def seen(events: Sequence[RunEvent]) -> RunTree:
    clock = iter(range(1000))
    tree = RunTree(lambda: float(next(clock)))
    for event in events:
        tree.update(event)
    return tree


def drawing(tree: RunTree, width: int = 80, height: int = 24, *, answer: bool = False) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, color_system=None, record=True)
    with console.capture() as capture:
        console.print(TreeDrawing(tree, answer))
    return capture.get().splitlines()


def test_a_sub_agent_replaces_its_call() -> None:
    tree = seen(active())
    assert tree.root is not None
    assert tree.root.task == "What is it?"
    (helper,) = tree.root.children
    assert isinstance(helper, AgentNode)
    states = [(part.name, part.state, part.news) for part in helper.children if isinstance(part, CallNode)]
    assert states == [
        ("web_search", "running", "8 results"),
        ("fetch_page", "completed", ""),
        ("fetch_page", "failed", "no such page"),
    ]
    assert drawing(tree)[2].split() == ["├──", "●", "web_search", "pears", "8", "results"]


def test_an_unknown_cost_makes_the_total_unknown() -> None:
    tree = seen([*active(), record("u1", "run_r", Decimal("0.5")), record("u2", "run_c", Decimal("0.25"))])
    assert "20 tokens · $0.7500" in drawing(tree)[-1]
    tree.update(record("u2", "run_c", Decimal("0.25")))  # a second event of the same attempt counts once
    assert tree.totals.tokens.prompt == 20
    tree.update(record("u3", "run_c", None))
    assert "cost unknown" in drawing(tree)[-1]
    assert "$0.5000" in drawing(tree)[0]


def test_open_nodes_are_cancelled_at_the_end() -> None:
    late = record("u9", "run_c", Decimal(0)).record
    tree = seen([*active(), ended(ROOT, "cancelled", [late])])
    assert tree.root is not None
    (helper,) = tree.root.children
    assert isinstance(helper, AgentNode)
    assert (tree.root.state, helper.state, helper.children[0].state) == ("cancelled", "cancelled", "cancelled")
    assert tree.totals.tokens.prompt == 10
    assert tree.elapsed(helper) == tree.elapsed(helper)  # the clock of an ended agent has stopped


@pytest.mark.parametrize("calls", [0, 3, 30])
@pytest.mark.parametrize("agents", [1, 5, 60])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (30, 6), (200, 60)])
def test_the_drawing_fits_the_screen(calls: int, agents: int, width: int, height: int) -> None:
    events: list[RunEvent] = [RunStarted(*ROOT, "boss", "Why? " * 50)]
    for number in range(agents):
        path = (f"run_{number}", f"boss/helper-{number}", 0)
        events.append(RunStarted(*path, "helper", "日本語の質問 " * 30, f"c{number}"))
        for index in range(calls):
            events.append(ToolStarted(*path, f"t{index}", "web_search", '{"query": "🍎 apples"}'))
            if index:
                events.append(ToolDone(*path, f"t{index}", "web_search", ""))
    lines = drawing(seen(events), width, height)
    assert len(lines) < height
    assert lines[0].startswith("● boss")
    assert lines[-1].startswith("total · ")


def test_the_end_of_the_answer_is_visible() -> None:
    deltas = [TextDelta(*ROOT, f"word{number} ") for number in range(500)]
    tree = seen([RunStarted(*ROOT, "boss", "q"), StepStarted(*ROOT, 1, "m"), *deltas, TextDelta(*ROOT, "\x1b[31mlast")])
    lines = drawing(tree, 80, 24, answer=True)
    assert len(lines) < 24
    assert lines[-1].endswith("last")
    assert "\x1b" not in "".join(lines)
    assert not any("word1 " in line for line in drawing(tree))


def test_the_log_has_a_line_for_each_important_event() -> None:
    written: list[str] = []
    lines = LogView(written.append, frozenset(("helper",)), clock=lambda: 0.0)
    for event in [*active(), Notice(*ROOT, "limit_reached", "the limit\nis reached"), ended(ROOT, "failed")]:
        lines.update(event)
    assert written == [
        "boss: started: What is it?",
        "boss/helper-1: started: pears",
        "boss/helper-1: web_search: pears",
        "boss/helper-1: fetch_page: a.md",
        "boss/helper-1: fetch_page done: a.md",
        "boss/helper-1: fetch_page: b.md",
        "boss/helper-1: fetch_page failed: no such page",
        "boss: the limit is reached",
        "boss: failed (it broke): 1 tool call, 0 tokens, $0.00, 0.0 s",
    ]


async def test_the_totals_match_the_result() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    class Boss(AgentConfig[None]):
        name = "boss"
        prompt = "You are the boss."
        tools = (delegate(ResearcherAgent(), description="A helper.", tools=(look,)),)

    model = ScriptedModel(
        scripts={
            "You are the boss": [(call("researcher", query="a"), call("researcher", query="b")), "done"],
            "You are a researcher": [call("look"), call("look"), "found", "found"],
        }
    )
    tree = RunTree()
    orchestrator = ToolOrchestrator(Chat(model=model, message="q"), Boss(), ToolRegistry(Boss.tools))
    async for event in orchestrator.stream():
        tree.update(event)
    assert orchestrator.result is not None
    assert tree.root is not None
    assert tree.totals.tokens == sum((r.tokens for r in orchestrator.result.usage), Tokens())
    names = [part.name for part in tree.root.children]
    assert names == ["researcher-1", "researcher-2"]
    assert {part.state for part in tree.root.children} == {"completed"}
