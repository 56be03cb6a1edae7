"""A run as a tree on a terminal, redrawn while the run is active."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from ...events import RunEvent
from ...records import record
from ...usage import Totals
from .console import rendered_lines
from .format import counted, money, safe, seconds, tokens
from .tree import AgentNode, CallNode, RunTree

_SYMBOLS = {
    "running": "●",
    "waiting": "?",
    "suspended": "‖",
    "completed": "✓",
    "limited": "!",
    "failed": "✗",
    "cancelled": "■",
}
_ASCII_SYMBOLS = {
    "running": "*",
    "waiting": "?",
    "suspended": "=",
    "completed": "+",
    "limited": "!",
    "failed": "x",
    "cancelled": "-",
}
_STYLES = {
    "running": "cyan",
    "waiting": "magenta",
    "suspended": "magenta",
    "completed": "green",
    "limited": "yellow",
    "failed": "red",
    "cancelled": "yellow",
}
_INTERVAL = 0.1
"""Seconds between two drawings: events arrive faster than anyone reads."""
_ANSWER_LINES = 6
"""Minimum number of answer lines that are visible while the model writes."""

Detail = Literal["all", "open", "agents"]
"""The calls that a tree shows: all of them, those not completed, or none."""


@asynccontextmanager
async def live_view(console: Console, *, answer: bool) -> AsyncIterator[Callable[[RunEvent], None]]:
    """Draw a run at most ten times a second; the yielded function applies an event.

    The last drawing stays on the screen. With *answer*, the answer is visible while the model writes it; it is not part
    of the last drawing.
    """
    tree = RunTree()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop", redirect_stdout=False) as live:
        task = asyncio.create_task(_redraw(live, TreeDrawing(tree, answer)))
        try:
            yield tree.update
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # a failed drawing must not cost the answer
            live.update(TreeDrawing(tree, brief=answer), refresh=True)


async def _redraw(live: Live, drawing: TreeDrawing) -> None:
    while True:
        live.update(drawing, refresh=True)
        await asyncio.sleep(_INTERVAL)


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
        rows = self._fit(root, console, options, max(height - min(len(written), _ANSWER_LINES), 2))
        yield from rows
        yield _row((f"total · {_figures(self.tree.totals, self.tree.elapsed(root))}", "bold"))
        yield from written[-max(height - len(rows), 1) :]

    def _fit(self, root: AgentNode, console: Console, options: ConsoleOptions, height: int) -> list[Text]:
        """Return the tree's lines with the most detail that fits; cut the middle out if none does."""
        symbols = _ASCII_SYMBOLS if options.ascii_only else _SYMBOLS
        details: tuple[Detail, ...] = ("open", "agents") if self.brief else ("all", "open", "agents")
        rows: list[Text] = []
        for detail in details:
            rows = rendered_lines(self._agent(root, detail, symbols), console, options)
            if len(rows) <= height:
                return rows
        omitted = Text(f"  … {len(rows) - height + 1} more", "dim")
        return [rows[0], omitted, *rows[len(rows) - height + 2 :]][:height]

    def _agent(self, agent: AgentNode, detail: Detail, symbols: dict[str, str]) -> Tree:
        row = _row((f"{symbols[agent.state]} ", _STYLES[agent.state]), (agent.name, "bold"))
        row.append(f"  {_figures(agent.used, self.tree.elapsed(agent))}  ", "dim")
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


def _call(call: CallNode, symbols: dict[str, str]) -> Text:
    row = _row((f"{symbols[call.state]} ", _STYLES[call.state]), (call.name, ""))
    if call.subject:
        row.append(f"  {call.subject}", "dim")
    if call.news:
        row.append(f"  {call.news}", "red" if call.state == "failed" else "cyan dim")
    return row


def _figures(sums: Totals, elapsed: float) -> str:
    return " · ".join((tokens(sums.tokens.total), money(sums.cost), seconds(elapsed)))


def _row(*parts: tuple[str, str]) -> Text:
    return Text.assemble(*((safe(text), style) for text, style in parts), no_wrap=True, overflow="ellipsis")
