"""A run as a tree on a terminal, redrawn while the run is active."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from ...events import RunEvent
from ...records import record
from .format import counted, money, safe, seconds, tokens
from .tree import AgentNode, CallNode, RunTree

_SYMBOLS = {"running": "●", "waiting": "?", "suspended": "‖", "completed": "✓", "failed": "✗", "cancelled": "■"}
_ASCII_SYMBOLS = {"running": "*", "waiting": "?", "suspended": "=", "completed": "+", "failed": "x", "cancelled": "-"}
_STYLES = {
    "running": "cyan",
    "waiting": "magenta",
    "suspended": "magenta",
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
}
_INTERVAL = 0.1
"""Seconds between two drawings: events arrive faster than anyone reads."""
_ANSWER_LINES = 6
"""Minimum number of answer lines that are visible while the model writes."""

Detail = Literal["all", "open", "agents"]
"""The calls that a tree shows: all of them, those not completed, or none."""


@record
class TreeDrawing:
    """A renderable of the tree at this moment with its totals below, never taller than the screen.

    With *answer*, the first agent's text follows in the remaining lines. *brief* leaves completed calls out.
    """

    tree: RunTree
    answer: bool = False
    brief: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tree, the totals and the end of the answer."""
        root = self.tree.root
        if root is None:
            return
        height = max(console.size.height - 2, 4)  # one line for the totals, one for the cursor
        text = safe("".join(root.text)).strip() if self.answer else ""
        written = list(Text(text).wrap(console, options.max_width)) if text else []
        rows = self._fit(console, options, max(height - min(len(written), _ANSWER_LINES), 2))
        yield from rows
        yield self._totals(root)
        yield from written[-max(height - len(rows), 1) :]

    def _fit(self, console: Console, options: ConsoleOptions, height: int) -> list[Text]:
        """Return the tree's lines with the most detail that fits; cut the middle out if none does."""
        assert self.tree.root is not None
        rows: list[Text] = []
        details: tuple[Detail, ...] = ("open", "agents") if self.brief else ("all", "open", "agents")
        for detail in details:
            tree = self._agent(self.tree.root, detail, _ASCII_SYMBOLS if options.ascii_only else _SYMBOLS)
            rows = [
                Text.assemble(*((segment.text, segment.style or "") for segment in line))
                for line in console.render_lines(tree, options, pad=False)
            ]
            if len(rows) <= height:
                return rows
        omitted = Text(f"  … {len(rows) - height + 1} more", "dim")
        return [rows[0], omitted, *rows[len(rows) - height + 2 :]][:height]

    def _agent(self, agent: AgentNode, detail: Detail, symbols: dict[str, str]) -> Tree:
        used = agent.used
        row = _row((f"{symbols[agent.state]} ", _STYLES[agent.state]), (agent.name, "bold"))
        figures = [tokens(used.tokens.total), money(used.cost), seconds(self.tree.elapsed(agent))]
        row.append(f"  {' · '.join(figures)}  ", "dim")
        if agent.state == "running" and agent.activity:
            row.append(f"{agent.activity}  ", "cyan")
        row.append(agent.error if agent.state == "failed" else agent.task)
        tree = Tree(row, guide_style="dim")
        completed = sum(isinstance(child, CallNode) and child.state == "completed" for child in agent.children)
        if detail == "open" and completed:
            tree.add(_row((f"{symbols['completed']} {counted(completed, 'tool call')} completed", "dim green")))
        for child in agent.children:
            if isinstance(child, AgentNode):
                tree.children.append(self._agent(child, detail, symbols))
            elif detail == "all" or (detail == "open" and child.state != "completed"):
                tree.add(_call(child, symbols))
        for note in agent.notes:
            tree.add(_row((f"! {note}", "yellow")))
        return tree

    def _totals(self, root: AgentNode) -> Text:
        totals = self.tree.totals
        figures = [tokens(totals.tokens.total), money(totals.cost), seconds(self.tree.elapsed(root))]
        return _row((" · ".join(["total", *figures]), "bold"))


class LiveView:
    """Redraws a run at most ten times a second. The last drawing stays on the screen.

    With *answer*, the answer is visible while the model writes it; it is not part of the last drawing.
    """

    def __init__(self, console: Console, *, answer: bool = False) -> None:
        self._tree = RunTree()
        self._answer = answer
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop", redirect_stdout=False)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LiveView:
        self._live.start()
        self._task = asyncio.create_task(self._redraw())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)  # a failed drawing must not cost the answer
        self._live.update(TreeDrawing(self._tree, brief=self._answer), refresh=True)
        self._live.stop()

    def update(self, event: RunEvent) -> None:
        """Apply *event*; the next drawing shows it."""
        self._tree.update(event)

    async def _redraw(self) -> None:
        drawing = TreeDrawing(self._tree, self._answer)
        while True:
            self._live.update(drawing, refresh=True)
            await asyncio.sleep(_INTERVAL)


def _call(call: CallNode, symbols: dict[str, str]) -> Text:
    row = _row((f"{symbols[call.state]} ", _STYLES[call.state]), (call.name, ""))
    if call.subject:
        row.append(f"  {call.subject}", "dim")
    if call.news:
        row.append(f"  {call.news}", "red" if call.state == "failed" else "cyan dim")
    return row


def _row(*parts: tuple[str, str]) -> Text:
    return Text.assemble(*((safe(text), style) for text, style in parts), no_wrap=True, overflow="ellipsis")
