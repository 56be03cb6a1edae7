"""Two runs of one process that take place at the same time."""

from __future__ import annotations

import asyncio
import random
from typing import Literal

Side = Literal[0, 1]


class Turns:
    """Two plays that pass their points in turn: each waits at a point until the other one is at its next, or has ended.

    So everything that one run does between two of its points follows something that the other one did. Each play draws
    its own random numbers.
    """

    def __init__(self) -> None:
        self._waiting: tuple[list[asyncio.Future[None]], list[asyncio.Future[None]]] = ([], [])
        self._ended: set[int] = set()

    async def take(self, side: Side) -> None:
        """Let the other play go on, and wait until it lets this one."""
        self._release(1 - side)
        if 1 - side in self._ended:
            return
        drawn = random.getstate()
        mine = asyncio.get_running_loop().create_future()
        self._waiting[side].append(mine)
        try:
            await mine
        finally:
            random.setstate(drawn)

    def leave(self, side: Side) -> None:
        """Let the other play go on alone."""
        self._ended.add(side)
        self._release(1 - side)

    def _release(self, side: int) -> None:
        for waiting in self._waiting[side]:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting[side].clear()
