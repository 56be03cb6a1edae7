"""Stopping: the first Ctrl-C, SIGTERM or SIGHUP ends what is under way in an orderly way, the second one at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_SHOW_CURSOR = "\x1b[?25h\n"


class Stop:
    """Listens for these signals in the running event loop. `signal` is the one that came, or 0."""

    def __init__(self) -> None:
        self.signal = 0
        self._task: asyncio.Task[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._signals = _signals()
        self._listen()

    @property
    def status(self) -> int:
        """The exit status of a program that was stopped."""
        return 128 + (self.signal or signal.SIGINT)

    @contextmanager
    def cancels(self) -> Iterator[None]:
        """What is done inside is cancelled by the first signal, also by one that has come before."""
        if self.signal:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        try:
            yield
        finally:
            self._task = None

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """For a read that blocks the loop: a signal raises `KeyboardInterrupt`. After that nobody listens any more."""
        for number in self._signals:
            with suppress(NotImplementedError):
                self._loop.remove_signal_handler(number)
            signal.signal(number, self._interrupt)
        yield
        self._listen()

    def taken(self) -> bool:
        """Whether a cancellation that was just caught was ours; then the task may go on."""
        task = asyncio.current_task()
        if not self.signal or task is None:
            return False
        task.uncancel()
        return True

    def _listen(self) -> None:
        for number in self._signals:
            with suppress(NotImplementedError):  # Windows: there Ctrl-C is left to asyncio
                self._loop.add_signal_handler(number, self._came, number)

    def _came(self, number: int) -> None:
        if self.signal:
            _leave(128 + number)
        self.signal = number
        if self._task is not None:
            self._task.cancel()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        raise KeyboardInterrupt


def _signals() -> tuple[int, ...]:
    """A terminal that is closed sends SIGHUP, where that exists and `nohup` has not switched it off."""
    hangup: int | None = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return (signal.SIGINT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, hangup)


def _leave(status: int) -> None:
    """End the process now. What was appended to the store is safe: it is one transaction each time."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None and sys.stderr.isatty():
            os.write(sys.stderr.fileno(), _SHOW_CURSOR.encode())
    os._exit(status)
