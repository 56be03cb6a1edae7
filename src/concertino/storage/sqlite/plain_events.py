"""Batches that only add events: a server stores those of hundreds of runs at once, with three statements for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import StorageError
from ..sql.events import AddingEvents
from ..sql.session import Write
from ..sql.statements import scoped

if TYPE_CHECKING:
    from .connection import SqliteSession


def is_plain(write: Write[Any]) -> bool:
    """Return whether *write* adds events to a log, and changes nothing else."""
    return type(write) is AddingEvents and write.is_plain


def add_plain(connection: SqliteSession, writes: Sequence[AddingEvents]) -> None:
    """Do what each of *writes*, all plain, does alone. Raises if one is refused; then a part of them is done."""
    logs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    new = [(write.tree,) for write in writes if write.batch.first == 1]
    for write in writes:
        batch, root_id = write.batch, write.tree
        advance, reach = scoped(connection, "advance_log", batch.claim.scope)
        bound = {"root_id": root_id, "first": batch.first, "last": batch.last}
        logs.append({**reach, **bound, "epoch": batch.claim.epoch})
        for row, body in zip(batch.rows, write.bodies, strict=True):
            rows.append({**bound, "run_id": row.run_id, "entry": row.entry, "source": row.source, "body": body})
    if new:
        connection.executemany(connection.queries["begin_log"], new)
    if connection.executemany(advance, logs).rowcount != len(logs):
        raise StorageError("a batch of events was refused: do each alone")
    connection.executemany(connection.queries["add_event_row"], rows)
