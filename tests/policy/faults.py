"""Real faults of a disk and of SQLite's file, as context managers: on entering they are there, on leaving gone."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_size_limit(path: Path) -> Iterator[None]:
    """No file may grow past the size that the log has now."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name(path.name + "-wal").stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """The rest of the disk is taken; only for a folder that is a small disk of its own."""
    filler = path.with_name("filler")
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    try:
        yield
    finally:
        filler.unlink()


HOLDER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(600)
"""


@contextmanager
def stopped_writer(path: Path) -> Iterator[None]:
    """Another process has begun to write, and is stopped there."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            process.kill()


SPOILER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.executescript("CREATE TABLE spoiler (x); DROP TABLE spoiler; PRAGMA wal_checkpoint(TRUNCATE)")
(page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
connection.close()
with open(sys.argv[1], "r+b") as file:
    size = int.from_bytes(file.read(18)[16:18], "big")
    while file.seek((page - 1) * size) >= 0 and (whole := file.read(size))[0] == 5:
        page = int.from_bytes(whole[8:12], "big")
    file.seek((page - 1) * size)
    file.write(bytes([0xA5]) * size)
    print(page * size - size, whole.hex())
"""
MENDER = """
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    file.write(bytes.fromhex(sys.argv[3]))
"""


@contextmanager
def spoiled_page(path: Path) -> Iterator[None]:
    """The last page of the messages is overwritten; by another process, or this one would lose its locks."""
    run = [sys.executable, "-c", SPOILER, str(path)]
    spoiled = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
    try:
        yield
    finally:
        subprocess.run([sys.executable, "-c", MENDER, str(path), *spoiled], check=True)


@contextmanager
def deleted(path: Path) -> Iterator[None]:
    """The file and what belongs to it are moved away, as if they were deleted, and put back later."""
    moved = {each: each.with_name(f"away-{each.name}") for each in path.parent.glob(f"{path.name}*")}
    for each, away in moved.items():
        each.rename(away)
    try:
        yield
    finally:
        for each, away in moved.items():
            away.rename(each)


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """*folder* is a disk of two megabytes; or it is said that none can be mounted here."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Nothing on that disk can be written."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def synced_size(index: Path) -> int:
    """Return how many bytes of a write-ahead log are on the disk for sure, by its *index* (the `-shm` file).

    A checkpoint syncs the log before it copies frames to the database: https://sqlite.org/walformat.html, section 2.1.
    The last connection copies all frames, deletes the index, and then the log.
    """
    if not index.exists():
        return sys.maxsize
    header = index.read_bytes()[:136]
    page_size, attempted = (int.from_bytes(header[at : at + n], sys.byteorder) for at, n in ((14, 2), (128, 4)))
    return 32 + attempted * (24 + page_size) if attempted else 0


def lose_the_end(log: Path, rng: random.Random, *, synced: int, garbled: bool) -> None:
    """After its first *synced* bytes, *log* lacks what had not reached the disk, or has something else there."""
    if not log.exists() or log.stat().st_size < synced:
        return
    with log.open("r+b") as file:
        place = rng.randrange(synced, log.stat().st_size + 1)
        if garbled:
            file.seek(place)
            file.write(rng.randbytes(500))
        else:
            file.truncate(place)
