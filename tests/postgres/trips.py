"""Counting of round trips to the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest


@contextmanager
def counted_trips() -> Iterator[list[str]]:
    """Collect an item for each time that a connection waits for the server."""
    found: list[str] = []
    waits = psycopg.Connection.wait

    def wait(self: Any, work: Any, *arguments: Any, **options: Any) -> Any:
        found.append(getattr(work, "__qualname__", ""))
        return waits(self, work, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Connection, "wait", wait)
        yield found
