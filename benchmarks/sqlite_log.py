"""SQLite's write-ahead log: the transactions and bytes that a file was written with."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple


class Written(NamedTuple):
    """What a log holds."""

    commits: int
    bytes: int
    """Of whole pages, as they are written."""

    def since(self, before: Written) -> Written:
        """Return what was written after *before*."""
        return Written(self.commits - before.commits, self.bytes - before.bytes)


def written(log: Path) -> Written:
    """Return what was written to *log*.

    Raises `ValueError` if a checkpoint has reset the log, because then a part of what was written is gone.
    """
    data = log.read_bytes()
    page, sequence = struct.unpack_from(">II", data, 8)
    if sequence:
        raise ValueError(f"{log} was reset by a checkpoint: write less before reading it")
    frames = range(32, len(data), page + 24)
    # A frame that ends a transaction has the size of the database in its header, any other has 0.
    commits = sum(struct.unpack_from(">I", data, at + 4)[0] > 0 for at in frames)
    return Written(commits, len(frames) * page)
