"""The program of a worker process: it reads calls from standard input and writes their results to standard output.

A message is a line with its length, and JSON. JSON cannot execute code: a parser that hostile input has taken over
can return nothing but wrong data.
"""

from __future__ import annotations

import importlib
import json
import select
import sys
import time
from typing import IO, Any

IDLE_SECONDS = 30.0
"""A worker without work ends after this time."""


def write_message(stream: IO[bytes], value: Any) -> None:
    """Write *value* as JSON. Raises `OSError` if the other process has gone."""
    data = json.dumps(value).encode()  # escapes everything outside ASCII, also lone surrogates
    stream.write(b"%d\n" % len(data))
    stream.write(data)
    stream.flush()


def read_message(stream: IO[bytes], longest: int = sys.maxsize) -> Any:
    """Read a value. Raises `EOFError` at the end of the stream and `ValueError` for anything but a message."""
    header = stream.readline(20)
    if not header:
        raise EOFError
    length = int(header)
    if not 0 <= length <= longest:
        raise ValueError(f"a message of {length:,} bytes")
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return json.loads(data)


def main() -> None:
    """Perform calls until standard input ends, or no call arrives for a time."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what a parser prints must not mix with the results
    _limit_process()
    while sys.platform == "win32" or select.select([source], [], [], IDLE_SECONDS)[0]:
        try:
            function, arguments, cpu_seconds, megabytes = read_message(source)
        except EOFError:
            return
        module, _, name = function.partition(":")
        try:
            called = getattr(importlib.import_module(module), name)  # without limits: imports are not the input's fault
            _limit_call(cpu_seconds, megabytes)
            answer = {"result": called(*arguments)}
        except MemoryError:
            answer = {"limit": f"more than {megabytes:,} MB of memory"}
        except Exception as error:  # noqa: BLE001 - the caller raises it
            answer = {"kind": type(error).__name__, "error": str(error)}
        write_message(target, answer)
        if "limit" in answer:
            return  # its memory may be fragmented


def _limit_process() -> None:
    """Allow no core dump and no file: a parser has no business with either."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - POSIX only

        for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
            resource.setrlimit(limit, (0, 0))


def _limit_call(cpu_seconds: float, megabytes: int) -> None:
    """Limit the CPU time of this call, after which the kernel kills the process, and the memory of the process."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - POSIX only

        used = int(time.process_time() + cpu_seconds) + 1
        for limit, value in ((resource.RLIMIT_CPU, used), (resource.RLIMIT_AS, megabytes * 1_000_000)):
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
