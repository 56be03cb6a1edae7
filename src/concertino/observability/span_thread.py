"""Work that a run does not wait for: ending spans and recording measurements."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from typing import Any

log = logging.getLogger("concertino")

MOST = 20_000
"""Pieces of work that may wait; further ones are dropped, so that an exporter that hangs costs no memory."""
_TOGETHER = 0.05
"""Seconds for which work is collected: each time that a thread wakes, it takes the interpreter from the event loop."""


class SpanThread:
    """A daemon thread that does work in order. It starts with the first piece."""

    def __init__(self, most: int = MOST) -> None:
        self.dropped = 0
        """The number of pieces that were not done, because too many were waiting."""
        self._most = most
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._doing = False
        self._wake = threading.Event()
        self._woken = False
        """Whether the thread will look at what is put now: an attribute, since every span asks twice."""
        self._thread: threading.Thread | None = None

    def put(self, *work: Any) -> None:
        """Call a function with its arguments soon: *work* is both. Its errors are logged."""
        if len(self._waiting) >= self._most:
            if not self.dropped:
                log.warning("telemetry is dropped: %d spans and measurements wait for their exporter", self._most)
            self.dropped += 1
            return
        self._waiting.append(work)
        if self._woken:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="concertino telemetry")
            self._thread.start()
            atexit.register(self.flush)  # runs before the exporters' own, which were registered earlier
        self._woken = True
        self._wake.set()

    def flush(self, seconds: float = 5.0) -> bool:
        """Wait until all work is done, at most for some *seconds*. Return whether it is."""
        deadline = time.monotonic() + seconds
        while self._waiting or self._doing:
            if time.monotonic() > deadline:
                return False
            self._wake.set()
            time.sleep(0.005)
        return True

    def _run(self) -> None:
        while True:
            self._wake.wait()
            time.sleep(_TOGETHER)
            self._wake.clear()
            self._woken = False  # before the first look: what is put from now on wakes the thread again
            while self._waiting:
                self._doing = True
                call, *arguments = self._waiting.popleft()
                try:
                    call(*arguments)
                except Exception as error:  # noqa: BLE001 - it is the product's exporter
                    log.error("telemetry failed: %s", type(error).__name__)  # noqa: TRY400 - a traceback may show content
                self._doing = False
