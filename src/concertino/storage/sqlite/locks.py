"""The process that has a database's write lock, from Linux's table of file locks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ..process import is_stopped

_LOCKS = Path("/proc/locks")
_LOG_WRITER = 120
"""The byte of the shared-memory file that the writer to the log locks."""
_FILE_WRITER = 0x40000000
"""The first of the bytes that a writer to the file itself locks."""


class Writer(NamedTuple):
    """The process that is in the middle of a write."""

    pid: int
    stopped: bool


def find_writer(path: Path) -> Writer | None:
    """Return the other process that has the write lock of the database at *path*; None if unknown.

    Only reads `/proc`: to ask for the lock itself, the file would be opened and closed, which drops this process's own
    locks on it.
    """
    wanted = {_inode(path): _FILE_WRITER, _inode(path.with_name(path.name + "-shm")): _LOG_WRITER}
    try:
        lines = _LOCKS.read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    for line in lines:
        # 3: POSIX  ADVISORY  WRITE 4711 fe:00:393222 120 120
        fields = line.split()
        if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "WRITE":
            continue
        pid, inode, first, last = int(fields[4]), fields[5].rpartition(":")[2], fields[6], fields[7]
        byte = wanted.get(inode)
        if byte is None or pid in (0, os.getpid()) or int(first) > byte + 2:
            continue
        if last == "EOF" or int(last) >= byte:
            return Writer(pid, is_stopped(pid))
    return None


def _inode(path: Path) -> str:
    try:
        return str(path.stat().st_ino)
    except OSError:
        return "-"
