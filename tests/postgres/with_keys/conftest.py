"""Stores with keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from concertino.storage import KeyFile, PostgresStore

MASTER = b"m" * 32
_SCHEMAS = count(1)


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a new file of keys."""
    return tmp_path_factory.mktemp("keys") / "keys.db"


@pytest.fixture
def schema() -> str:
    """A schema that no other test has."""
    return f"keys_{next(_SCHEMAS)}"


@pytest.fixture
def factory(url: str, keys: Path) -> Callable[[Path], Awaitable[Any]]:
    """Open a new, empty store."""

    async def made(_folder: Path) -> Any:
        return await PostgresStore.open(url, schema=f"keys_{next(_SCHEMAS)}", keys=KeyFile(keys, MASTER))

    return made
