"""Owners of claims: names of processes, from which their end can be seen on the same machine."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path

_PREFIX = "process"
_PARTS = 7
_PROC = Path("/proc")


def process_owner() -> str:
    """Return a new owner for this process, unequal to that of any other process or call."""
    return f"{_this_process(os.getpid())}/{os.urandom(6).hex()}"


@cache
def _this_process(pid: int) -> str:
    return "/".join((_PREFIX, *_machine(), str(pid), _started(pid)))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_this_process.cache_clear)  # the child may get the pid of an ended ancestor


def process_of(owner: str) -> str:
    """Return the part of *owner* that all claims of its process share; empty if it names no process."""
    parts = owner.split("/")
    return owner.rpartition("/")[0] + "/" if len(parts) == _PARTS and parts[0] == _PREFIX else ""


def process_name(owner: str) -> str:
    """Return `HOST:PID` for the process of *owner*, as people read it; *owner* itself if it names no process."""
    parts = owner.split("/")
    return f"{parts[1]}:{parts[4]}" if len(parts) == _PARTS and parts[0] == _PREFIX else owner


def is_dead(owner: str) -> bool:
    """Return whether *owner* certainly names an ended process.

    A pid identifies a process only in its own pid namespace, on the same machine and since the same boot. For any
    other owner, return False: only the lease decides.
    """
    parts = owner.split("/")
    if len(parts) != _PARTS or parts[0] != _PREFIX or tuple(parts[1:4]) != _machine() or not parts[4].isdecimal():
        return False
    pid = int(parts[4])
    started = _started(pid)
    if parts[5] and started:
        return parts[5] != started
    return not _exists(pid)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal or a debugger, so that it neither works nor ends."""
    return _stat(pid)[:1] in (["T"], ["t"])


def _machine() -> tuple[str, str, str]:
    """Return host name, boot and pid namespace: containers may share the first two and see different pids."""
    return _machine_of(os.getpid())  # a forked process may be in another namespace


@cache
def _machine_of(_pid: int) -> tuple[str, str, str]:
    boot = _read(_PROC / "sys/kernel/random/boot_id").strip()
    return socket.gethostname().replace("/", "_"), boot, _inode(_PROC / "self/ns/pid")


def _inode(path: Path) -> str:
    try:
        return str(path.stat().st_ino)
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return the start time of a process in ticks since the boot; empty if it is gone or unknown."""
    fields = _stat(pid)
    return "" if len(fields) < 20 or fields[0] in "ZX" else fields[19]


def _stat(pid: int) -> list[str]:
    """Return the fields of `/proc/PID/stat` from the third on: the state is the first, the start the twentieth."""
    # The command name, in brackets, may itself contain brackets and spaces.
    return _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def _exists(pid: int) -> bool:
    if _PROC.joinpath("self").exists():
        return bool(_started(pid))
    if sys.platform == "win32":
        return True  # signal 0 would end the process
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
