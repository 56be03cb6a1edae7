"""Starts a program with limits: NETWORK CPU_SECONDS ADDRESS_SPACE FILE_SIZE PROGRAM [ARGUMENT ...].

A process of its own, since code between fork and exec is unsafe in a program with threads.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

_NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_NO_NETWORK_NAMESPACE = 125
_MOST_OPEN_FILES = 256


def main() -> None:
    """Take the network away unless it is allowed, set the limits, and become the program."""
    network, cpu_seconds, address_space, file_size = map(int, sys.argv[1:5])
    program = sys.argv[5:]
    unshare = getattr(ctypes.CDLL(None), "unshare", None)  # Linux has it
    if not network and (unshare is None or unshare(_NEW_USER | _NEW_PIDS | _NEW_NETWORK) != 0):
        sys.exit(_NO_NETWORK_NAMESPACE)
    for limit, value in (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_NOFILE, _MOST_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (most, most))
    if not network:
        _begin_namespace()
    try:
        os.execvp(program[0], program)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.exit(f"cannot run {program[0]}: {error.strerror}")


def _begin_namespace() -> None:
    """Return in a child of the first process of the new namespace. When it has ended, so have all that it started.

    The first process and this one, which wait, stay in the process group that is killed; a program may leave it.
    """
    for _ in range(2):
        if child := os.fork():
            ended, status = 0, 0
            while ended != child:
                ended, status = os.wait()
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
