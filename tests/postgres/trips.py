"""Counting of round trips to the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import pq

from concertino.storage.postgres.direct import Lane, Strand
from concertino.storage.postgres.single_trip import Call, joined

_AWAITED = ("._fetch_gen", "._sync_gen", "._exit_gen")
"""The waits in pipeline mode that last until the server has answered."""


@contextmanager
def counted_trips() -> Iterator[list[str]]:
    """Collect an item for each time that a connection, or the event loop for it, waits for the server."""
    found: list[str] = []
    waits, sends = psycopg.Connection.wait, Lane.send

    def wait(self: Any, work: Any, *arguments: Any, **options: Any) -> Any:
        name = getattr(work, "__qualname__", "")
        # In pipeline mode a statement is sent without a wait for its result.
        piped = self.pgconn.pipeline_status != pq.PipelineStatus.OFF or name.endswith("._enter_gen")
        if not piped or name.endswith(_AWAITED):
            found.append(name)
        return waits(self, work, *arguments, **options)

    def send(self: Lane, strand: Strand, calls: Sequence[Call], loop: Any) -> bool:
        sent = sends(self, strand, calls, loop)
        if sent:
            found.append(joined(tuple([call.sql for call in calls])))
        return sent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lane, "send", send)
        patch.setattr(psycopg.Connection, "wait", wait)
        yield found
