"""The adapters of the port `Store`: each test of the suite runs with every one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from concertino import MemoryStore, SqliteStore


async def memory_store(_folder: Path) -> Any:
    return MemoryStore()


async def sqlite_store(folder: Path) -> Any:
    return await SqliteStore.open(folder / "store.db")


ADAPTERS: dict[str, Callable[[Path], Awaitable[Any]]] = {"memory": memory_store, "sqlite": sqlite_store}


@pytest.fixture(params=ADAPTERS)
def factory(request: pytest.FixtureRequest) -> Callable[[Path], Awaitable[Any]]:
    return ADAPTERS[request.param]
