"""The calls in a hook that block the event loop."""

from __future__ import annotations

import _queue
import _socket
import asyncio
import builtins
import os
import select
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from types import FrameType
from typing import Any

_BLOCKING = frozenset(
    (time.sleep, os.system, select.select, _socket.getaddrinfo, _socket.gethostbyname, builtins.input)
    + ((os.waitpid,) if hasattr(os, "waitpid") else ())
)
"""Functions that block the event loop."""
_BLOCKING_METHODS = ("connect", "recv", "accept", "poll", "acquire", "get")
"""Methods of sockets, selectors, locks and queues that may block it."""
_WAITING = (threading.Condition.wait.__code__, threading.Thread.join.__code__)
"""Functions in which threads wait for each other."""
_LOCK = threading.Lock()
_LOCKING = ("threading", "importlib._bootstrap")
"""Modules whose locks do not count: `threading` is seen in the functions that wait, and a hook may import modules."""
_CLOCKS = frozenset((time.monotonic, time.time, time.perf_counter))
_MOST_CLOCKS = 1_000
"""Readings of the clock after which a hook counts as waiting for a time."""
_WAITS_SEEN = 2
"""The first points at which one call of a hook waits."""
_UNTIL_CANCELLED = 50
"""Turns of the event loop in which a cancellation reaches a hook."""


class BlockingWatch:
    """Notes the calls in a hook that block the event loop. It profiles the hook's own steps only."""

    def __init__(self, waits: Callable[[int], bool]) -> None:
        self.blocked = ""
        self._waits = waits
        self._waited = 0
        self._clocks = 0

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call *function* and return its value."""
        before = sys.getprofile()
        self._clocks = 0
        sys.setprofile(self._note)
        try:
            return function(*args)
        finally:
            sys.setprofile(before)

    async def steps(self, value: Awaitable[Any]) -> Any:
        """Await *value*."""
        return await _Steps(self, value)

    def waits(self) -> bool:
        """Note that the hook waits for something. Return whether the run is stopped there."""
        self._waited += 1
        return self._waited <= _WAITS_SEEN and self._waits(self._waited)

    def _note(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            if called in _CLOCKS:
                self._clocks += 1
            if called in _BLOCKING or _blocks(called, frame) or self._clocks > _MOST_CLOCKS:
                self.blocked = self.blocked or called.__name__
        elif event == "call" and frame.f_code in _WAITING and _waits(frame):
            self.blocked = self.blocked or frame.f_code.co_qualname


class _Steps:
    """An awaitable whose steps are profiled, and not what happens between them."""

    def __init__(self, watch: BlockingWatch, value: Awaitable[Any]) -> None:
        self._watch, self._value = watch, value

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._value.__await__()
        step, given = next, ()
        while True:
            try:
                waits_for = self._watch.call(step, steps, *given)
            except StopIteration as end:
                return end.value
            try:
                if self._watch.waits():
                    yield from _until_cancelled(waits_for)
                yield waits_for
                step, given = next, ()
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 - passed on to the hook
                step, given = _raise_in, (error,)  # type: ignore[assignment]  # one step or the other


def _until_cancelled(waits_for: Any) -> Generator[Any, Any, None]:
    """Wait until the task is cancelled, and pass it on to what the task waits for, as the task itself does."""
    try:
        for _ in range(_UNTIL_CANCELLED):
            yield
    except asyncio.CancelledError:
        if waits_for is None or not waits_for.cancel():
            raise


def _raise_in(steps: Any, error: BaseException) -> Any:
    return steps.throw(error)


def _blocks(called: Any, frame: FrameType) -> bool:
    owner = getattr(called, "__self__", None)
    if called.__name__ not in _BLOCKING_METHODS or owner is None:
        return False
    if isinstance(owner, _socket.socket):
        return owner.gettimeout() != 0
    if isinstance(owner, _queue.SimpleQueue):
        return owner.empty()
    if called.__name__ == "acquire":
        return isinstance(owner, type(_LOCK)) and owner.locked() and frame.f_globals["__name__"] not in _LOCKING
    return type(owner).__module__ == "select"


def _waits(frame: FrameType) -> bool:
    """Return whether a function of `threading` waits for another thread, which is not just starting."""
    waits_for = frame.f_locals["self"]
    if isinstance(waits_for, threading.Thread):
        return waits_for.is_alive()
    caller = frame.f_back and frame.f_back.f_back
    starts = caller is not None and caller.f_code is threading.Thread.start.__code__
    return frame.f_locals["timeout"] != 0 and not starts
