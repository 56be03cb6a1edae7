"""A PostgreSQL server for the session; each test has a schema of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from .server import Server

_SCHEMAS = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A running server, which no test stops."""
    made = Server()
    try:
        made.start(fsync="off")
        yield made
    finally:
        made.close()


@pytest.fixture
def url(server: Server) -> str:
    """The URL of the database that all tests share."""
    return server.url("postgres")


@pytest.fixture
def schema() -> str:
    """A schema that no other test has."""
    return f"test_{next(_SCHEMAS)}"


@pytest.fixture
def factory(url: str) -> Callable[[Path], Awaitable[Any]]:
    """Open a new, empty store."""
    from concertino.storage import PostgresStore

    async def made(_folder: Path) -> Any:
        return await PostgresStore.open(url, schema=f"test_{next(_SCHEMAS)}")

    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder: they need a server."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.postgres)
