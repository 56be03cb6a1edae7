"""A counter of calls, for `sys.setprofile`."""

from __future__ import annotations

import gc
from asyncio import events
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import concertino

Counts = dict[str, int]
PACKAGE = str(Path(concertino.__file__).parent)


class Counter:
    """Counts calls while it is on, in this thread and in those that start while it is installed."""

    def __init__(self) -> None:
        self.on = False
        self.calls = 0
        self.package_calls = 0
        self.callbacks = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one call; a function for `sys.setprofile`."""
        if event != "call" or not self.on:
            return
        self.calls += 1
        name = frame.f_code.co_filename
        self.package_calls += name.startswith((PACKAGE, "<"))  # generated methods have names in brackets
        self.callbacks += frame.f_code is events.Handle._run.__code__

    async def count(self, work: Callable[[], Awaitable[Any]]) -> Counts:
        """Do *work* and return what it took."""
        gc.collect()
        gc.disable()
        before = self.calls, self.package_calls, self.callbacks
        self.on = True
        try:
            await work()
        finally:
            self.on = False
            gc.enable()
        found = zip(before, (self.calls, self.package_calls, self.callbacks), strict=True)
        return dict(zip(("calls", "package_calls", "callbacks"), (new - old for old, new in found), strict=True))
