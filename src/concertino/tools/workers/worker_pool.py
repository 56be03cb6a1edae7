"""The pool of worker processes, and the functions that call them."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...errors import WorkerError
from ..threads import run_in_thread
from .worker_process import IDLE_SECONDS, main, read_message, write_message

CPU_SECONDS = 10.0
"""Default limit of a call's CPU time."""
MEGABYTES = 1_000
"""Default limit of a worker's memory."""
_PATIENCE = 20
"""A call is killed after this multiple of its CPU time, on machines however busy, and where CPU time has no limit."""
_MOST = max(2, min(4, os.cpu_count() or 1))
"""Worker processes of this process; further calls wait."""
_LONGEST_RESULT = 100_000_000
_START = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {main.__module__} import main; main()"


async def in_worker(
    function: Callable[..., Any], *arguments: Any, cpu_seconds: float = CPU_SECONDS, megabytes: int = MEGABYTES
) -> Any:
    """Return the result of *function* as `run_in_worker` does. Cancelling the caller kills the worker."""
    call = _WorkerCall(function, arguments, cpu_seconds, megabytes)
    try:
        return await run_in_thread(call.perform)
    finally:
        call.cancel()  # without effect after the end


def run_in_worker(
    function: Callable[..., Any], *arguments: Any, cpu_seconds: float = CPU_SECONDS, megabytes: int = MEGABYTES
) -> Any:
    """Return the result of *function*, called in a worker process. Blocks.

    *function* is a function of a module; its arguments and its result are JSON values. It gets no environment
    variables, so no keys. Raises `WorkerError` if it raises, takes more CPU time or memory than allowed, or ends its
    process.
    """
    return _WorkerCall(function, arguments, cpu_seconds, megabytes).perform()


class _WorkerCall:
    """A call of a function in a worker. `cancel` may be called from another thread."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], cpu_seconds: float, megabytes: int
    ) -> None:
        self._name = function.__name__
        self._message = (f"{function.__module__}:{self._name}", arguments, cpu_seconds, megabytes)
        self._cpu_seconds = cpu_seconds
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def perform(self) -> Any:
        """Call the function and return its result."""
        with _pool.slots:
            worker = _pool.take()
            try:
                answer = self._ask(worker)
            except BaseException:
                _end(worker)
                raise
            if "limit" in answer:
                _end(worker)
                raise WorkerError(f"{self._name} needs {answer['limit']}")
            _pool.give_back(worker)
        if "error" in answer:
            raise WorkerError(f"{answer['kind']}: {answer['error']}", raised=answer["kind"])
        return answer["result"]

    def cancel(self) -> None:
        """Kill the worker, if it is at work for this call."""
        with self._lock:
            self._cancelled = True
            if self._worker is not None:
                self._worker.kill()

    def _ask(self, worker: subprocess.Popen[bytes]) -> dict[str, Any]:
        with self._lock:
            if self._cancelled:
                raise WorkerError(f"{self._name} was cancelled")
            self._worker = worker
        patience = threading.Timer(_PATIENCE * self._cpu_seconds, worker.kill)
        patience.daemon = True
        patience.start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            write_message(worker.stdin, self._message)
            answer = read_message(worker.stdout, _LONGEST_RESULT)
        except (OSError, EOFError, ValueError, RecursionError):
            raise WorkerError(
                f"{self._name} took more than {self._cpu_seconds:g} s of CPU time, or ended its process"
            ) from None
        finally:
            patience.cancel()
            with self._lock:
                self._worker = None
        if not isinstance(answer, dict) or not answer.keys() & {"result", "limit", "error"}:
            raise WorkerError(f"{self._name} returned no valid message")
        return answer


class _Pool:
    """The worker processes of this process. They start on demand and end when they have been idle for a time."""

    def __init__(self) -> None:
        self.slots = threading.BoundedSemaphore(_MOST)
        self._idle: list[tuple[float, subprocess.Popen[bytes]]] = []
        self._lock = threading.Lock()

    def take(self) -> subprocess.Popen[bytes]:
        """Return an idle worker, or a new one. Raises `WorkerError` if none can be started."""
        while True:
            with self._lock:
                since, worker = self._idle.pop() if self._idle else (0.0, None)
            if worker is None:
                return _start()
            if time.monotonic() - since < IDLE_SECONDS / 2:  # a worker that is about to end takes no call
                return worker
            _end(worker)

    def give_back(self, worker: subprocess.Popen[bytes]) -> None:
        """Keep an idle worker for the next call."""
        with self._lock:
            self._idle.append((time.monotonic(), worker))

    def close(self) -> None:
        """End all idle workers; the others end with their calls, or when this process has ended."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, worker in idle:
            _end(worker)

    def forget(self) -> None:
        """Begin anew in a forked process: the workers belong to its parent."""
        self.__init__()  # type: ignore[misc]


def _start() -> subprocess.Popen[bytes]:
    paths = [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 - an empty path is the current folder
    command = [sys.executable, "-I", "-X", "utf8", "-c", _START, json.dumps(paths)]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},
            cwd=os.path.abspath(os.sep),  # noqa: PTH100 - a folder that exists everywhere
            start_new_session=True,  # Ctrl-C on a terminal is for this process, which then ends its workers
        )
    except OSError as error:
        raise WorkerError(
            f"OSError: no worker process can be started with {sys.executable!r} ({error}): allow this program to start "
            "processes",
            raised="OSError",
        ) from error


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    for stream in (worker.stdin, worker.stdout):
        assert stream is not None
        with suppress(OSError):  # a message that was not read
            stream.close()
    worker.wait()


_pool = _Pool()
atexit.register(_pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)
