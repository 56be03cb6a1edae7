"""SQLite's write-ahead log: the transactions and bytes that a file was written with."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple


class Written(NamedTuple):
    """The contents of a log since its last reset."""

    commits: int
    bytes: int
    """Of whole pages, as they are written."""
    resets: int

    def since(self, before: Written) -> Written:
        """Return what was written after *before*.

        Raises `ValueError` if a checkpoint has reset the log in between, because then a part of it is gone.
        """
        if self.resets != before.resets:
            raise ValueError("a checkpoint has reset the write-ahead log: write less between two measurements")
        return Written(self.commits - before.commits, self.bytes - before.bytes, self.resets)


def written(log: Path) -> Written:
    """Return what was written to *log* since its last reset."""
    data = log.read_bytes()
    if not data:
        return Written(0, 0, 0)
    page, resets = struct.unpack_from(">II", data, 8)
    salt, commits, frames = data[16:24], 0, 0
    for at in range(32, len(data), page + 24):
        if data[at + 8 : at + 16] != salt:  # a frame from before the reset, not overwritten yet
            break
        frames += 1
        # A frame that ends a transaction has the size of the database in its header, any other has 0.
        commits += struct.unpack_from(">I", data, at + 4)[0] > 0
    return Written(commits, frames * page, resets)
