"""Files that only their owner can read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from concertino import SqliteStore
from concertino.wiring import open_store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    """Let everybody read new files, as most systems do."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> dict[str, int]:
    return {each.name: mode(each) for each in folder.iterdir()}


async def test_a_new_database_is_private(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "runs.db"
    async with await open_store(path):
        assert mode(path.parent) == 0o700
        assert len(modes(path.parent)) == 4
        assert set(modes(path.parent).values()) == {0o600}


async def test_a_shared_database_stays_shared(tmp_path: Path) -> None:
    """Its owner has let a group use it."""
    path = tmp_path / "runs.db"
    os.umask(0o002)
    path.touch()
    path.chmod(0o660)
    async with await SqliteStore.open(path):
        assert set(modes(tmp_path).values()) == {0o660}


async def test_a_link_to_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "runs.db")
    async with await SqliteStore.open(tmp_path / "link.db"):
        assert mode(tmp_path / "runs.db") == 0o600
