"""The live view: the run's tree, redrawn in place on a terminal."""

from __future__ import annotations

import asyncio
from types import TracebackType

from rich.console import Console
from rich.live import Live

from ..events import RunEvent
from .drawing import Drawing
from .tree import RunTree

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
