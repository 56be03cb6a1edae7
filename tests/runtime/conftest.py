"""Each test of this folder has a store in a file, and one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from concertino import MemoryStore, SqliteStore
from concertino.storage import Store


@pytest.fixture(params=["file", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made = await SqliteStore.open(tmp_path / "runs.db") if request.param == "file" else MemoryStore()
    async with made:
        yield made
