"""Drawing: a `RunTree` as lines for a screen of a given height."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from ...events import RunEvent
from .format import counted, money, safe, seconds, tokens
from .tree import AgentNode, CallNode, RunTree

_SIGNS = {"running": "●", "waiting": "?", "suspended": "‖", "completed": "✓", "failed": "✗", "cancelled": "■"}
_ASCII_SIGNS = {"running": "*", "waiting": "?", "suspended": "=", "completed": "+", "failed": "x", "cancelled": "-"}
_STYLES = {
    "running": "cyan",
    "waiting": "magenta",
    "suspended": "magenta",
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
}
_DETAILS = ("all", "open", "agents")
"""How much is shown, most first: all calls; the open and failed ones, and how many are done; agents alone."""
_TAIL = 6
"""Lines of an answer that are shown while it is written, at least."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A renderable: the tree at this moment, and below it the totals. It fits the screen's height.

    With *answer*, what the first agent says is shown while it comes, as far as there is room.
    """

    tree: RunTree
    answer: bool = False
    brief: bool = False
    """Leave finished calls out."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.tree.root is None:
            return
        signs = _ASCII_SIGNS if options.ascii_only else _SIGNS
        height = max(console.size.height - 2, 4)  # the foot, and the line that the cursor is on
        text = safe("".join(self.tree.root.text)).strip() if self.answer else ""
        written = list(Text(text).wrap(console, options.max_width)) if text else []
        rows = self.fitted(max(height - min(len(written), _TAIL), 2), signs)
        room = max(height - len(rows), 1)
        for row in rows:
            row.truncate(options.max_width, overflow="ellipsis")
        yield Group(*rows, self._foot(), *written[-room:])

    def fitted(self, height: int, signs: dict[str, str]) -> list[Text]:
        """The rows with the most detail that fits; if none does, the last rows."""
        assert self.tree.root is not None
        rows: list[Text] = []
        for detail in _DETAILS[self.brief :]:
            rows = self._agent(self.tree.root, 0, detail, signs)
            if len(rows) <= height:
                return rows
        left_out = len(rows) - height + 1
        return [rows[0], Text(f"  … {left_out} more", "dim"), *rows[len(rows) - height + 2 :]][:height]

    def _agent(self, agent: AgentNode, depth: int, detail: str, signs: dict[str, str]) -> list[Text]:
        used = agent.used
        row = Text("  " * depth)
        row.append(f"{signs[agent.state]} ", _STYLES[agent.state])
        row.append(agent.name, "bold")
        figures = [tokens(used.tokens.total), money(used.cost), seconds(self.tree.elapsed(agent))]
        row.append(f"  {' · '.join(figures)}  ", "dim")
        if agent.state == "running" and agent.activity:
            row.append(f"{agent.activity}  ", "cyan")
        row.append(agent.error if agent.state == "failed" else agent.task)
        rows = [row, *self._summary(agent, depth + 1, detail, signs)]
        for part in agent.parts:
            if isinstance(part, AgentNode):
                rows += self._agent(part, depth + 1, detail, signs)
            elif detail == "all" or (detail == "open" and part.state != "completed"):
                rows.append(_call(part, depth + 1, signs))
        return rows + [Text("  " * (depth + 1) + f"! {note}", "yellow") for note in agent.notes]

    def _summary(self, agent: AgentNode, depth: int, detail: str, signs: dict[str, str]) -> list[Text]:
        """The line that stands for the finished calls, where they are not shown."""
        done = sum(isinstance(part, CallNode) and part.state == "completed" for part in agent.parts)
        if detail != "open" or not done:
            return []
        return [Text("  " * depth + f"{signs['completed']} {counted(done, 'tool call')} done", "dim green")]

    def _foot(self) -> Text:
        tree = self.tree
        assert tree.root is not None
        totals = tree.totals
        figures = [tokens(totals.tokens.total), money(totals.cost), seconds(tree.elapsed(tree.root))]
        return Text(" · ".join(["total", *figures]), "bold", no_wrap=True, overflow="ellipsis")


def _call(call: CallNode, depth: int, signs: dict[str, str]) -> Text:
    row = Text("  " * depth)
    row.append(f"{signs[call.state]} ", _STYLES[call.state])
    row.append(call.name)
    if call.about:
        row.append(f"  {call.about}", "dim")
    if call.news:
        row.append(f"  {call.news}", "red" if call.state == "failed" else "cyan dim")
    return row


_PAUSE = 0.1
"""Seconds between two drawings: events come faster than anyone reads."""


class LiveTree:
    """A view that redraws at most ten times a second, whatever comes. What it showed last stays on the screen.

    With *answer*, the answer is shown while it comes; it is not part of what stays.
    """

    def __init__(self, console: Console, *, answer: bool = False) -> None:
        self._tree = RunTree()
        self._answer = answer
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop", redirect_stdout=False)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LiveTree:
        self._live.start()
        self._task = asyncio.create_task(self._redraw())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)  # a picture that failed must not cost the answer
        self._live.update(Drawing(self._tree, brief=self._answer), refresh=True)
        self._live.stop()

    def see(self, event: RunEvent) -> None:
        """Take *event* in; the next drawing shows it."""
        self._tree.see(event)

    async def _redraw(self) -> None:
        drawing = Drawing(self._tree, self._answer)
        while True:
            self._live.update(drawing, refresh=True)
            await asyncio.sleep(_PAUSE)
