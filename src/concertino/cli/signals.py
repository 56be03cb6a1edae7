"""Signals: the first one ends the current work in an orderly way, the next one its run, and another one the process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_SHOW_CURSOR = "\x1b[?25h\n"


class Signals:
    """Receives SIGINT, SIGTERM and SIGHUP in the running event loop."""

    def __init__(self) -> None:
        self.received = 0
        """The number of the first signal, or 0."""
        self._task: asyncio.Task[Any] | None = None
        self._second: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._numbers = _handled()
        self._listen()

    @property
    def exit_status(self) -> int:
        """The exit status of a program ended by the received signal, by the shell's convention."""
        return 128 + (self.received or signal.SIGINT)

    @contextmanager
    def cancel_task(self) -> Iterator[None]:
        """Cancel the current task on a signal that arrives inside the block, or arrived before it."""
        if self.received:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        try:
            yield
        finally:
            self._task = None

    @contextmanager
    def on_second(self, perform: Callable[[], None]) -> Iterator[None]:
        """Call *perform* on a second signal inside the block; another one ends the process."""
        self._second = perform
        try:
            yield
        finally:
            self._second = None

    @contextmanager
    def interrupt_read(self) -> Iterator[None]:
        """Raise `KeyboardInterrupt` on a signal: a read inside the block blocks the event loop."""
        for number in self._numbers:
            with suppress(NotImplementedError):
                self._loop.remove_signal_handler(number)
            signal.signal(number, self._interrupt)
        yield
        self._listen()

    def absorb_cancellation(self) -> bool:
        """Return True if a signal caused the `CancelledError` just caught; the task can then continue."""
        task = asyncio.current_task()
        if not self.received or task is None:
            return False
        task.uncancel()
        return True

    def _listen(self) -> None:
        for number in self._numbers:
            with suppress(NotImplementedError):  # Windows: asyncio itself handles Ctrl-C
                self._loop.add_signal_handler(number, self._receive, number)

    def _receive(self, number: int) -> None:
        if self.received:
            perform, self._second = self._second, None
            if perform is None:
                _exit_now(128 + number)
            else:
                perform()
            return
        self.received = number
        if self._task is not None:
            self._task.cancel()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        raise KeyboardInterrupt


def _handled() -> tuple[int, ...]:
    """Return the signals to handle; SIGHUP only where it exists and `nohup` has not disabled it."""
    hangup: int | None = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return (signal.SIGINT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, hangup)


def _exit_now(status: int) -> None:
    """End the process without cleanup. The store is safe: every append is one transaction."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None and sys.stderr.isatty():
            os.write(sys.stderr.fileno(), _SHOW_CURSOR.encode())
    os._exit(status)
