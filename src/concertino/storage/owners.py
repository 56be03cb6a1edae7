"""Who holds a claim: names of processes, from which their death can be seen on the same machine."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path

_PREFIX = "process"
_PROC = Path("/proc")


def process_owner() -> str:
    """A new owner that stands for this process: no other process, and no other call, gives the same."""
    pid = os.getpid()
    return "/".join((_PREFIX, *_place(), str(pid), _started(pid), os.urandom(6).hex()))


def is_dead(owner: str) -> bool:
    """Whether *owner* is a process of this machine, since it was booted, that is gone. False where nobody can say."""
    parts = owner.split("/")
    if len(parts) != 6 or parts[0] != _PREFIX or tuple(parts[1:3]) != _place() or not parts[3].isdecimal():
        return False
    pid = int(parts[3])
    started = _started(pid)
    if parts[4] and started:
        return parts[4] != started
    return not _exists(pid)


@cache
def _place() -> tuple[str, str]:
    """This machine, and its boot: pids of another one mean nothing here."""
    return socket.gethostname().replace("/", "_"), _read(_PROC / "sys/kernel/random/boot_id").strip()


def _started(pid: int) -> str:
    """When a process started, in ticks since the boot; "" where it is gone, or nobody can say."""
    # The name, in brackets, may itself hold brackets and spaces. The start is field 22, the state field 3.
    fields = _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    return "" if len(fields) < 20 or fields[0] in "ZX" else fields[19]


def _exists(pid: int) -> bool:
    if _PROC.joinpath("self").exists():
        return bool(_started(pid))
    if sys.platform == "win32":
        return True  # signal 0 would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
