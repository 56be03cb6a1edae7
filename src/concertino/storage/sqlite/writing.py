"""What the store does on its connection, as plain functions: one transaction for each write."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Sequence

from ...errors import StorageError
from ...usage import UsageRecord
from ..codec import memory_id, storable
from ..port import Batch, Memory, RunStart
from ..recall import query_words, words
from .opening import transaction
from .queries import queries
from .rows import end_row, message_row, start_row, to_memory, usage_row


def begin(connection: sqlite3.Connection, start: RunStart) -> None:
    """Add the run, unless it is there."""
    with transaction(connection):
        connection.execute(queries()["begin"], start_row(start))


def append(connection: sqlite3.Connection, batch: Batch) -> None:
    """Add *batch* to its run, all or nothing. StorageError: see `SqliteStore.append`."""
    # Encoded before the write lock is taken: other processes do not wait for that.
    messages = [message_row(stored) for stored in batch.messages]
    sql = queries()
    with transaction(connection):
        root_id, ended = _state(connection, batch.run_id)
        if ended and (batch.messages or batch.end is not None):
            raise StorageError(f"run {batch.run_id!r} has ended: only usage may still be added to it")
        if messages:
            # The last entry of an index: this costs the same however long the run is.
            (place,) = connection.execute(sql["next_position"], (batch.run_id,)).fetchone()
            rows = [(batch.run_id, place + offset, *row) for offset, row in enumerate(messages)]
            connection.executemany(sql["add_message"], rows)
        _book(connection, batch.usage, {batch.run_id: root_id})
        if batch.end is not None:
            connection.execute(sql["end"], end_row(batch.end, batch.run_id))


def _book(connection: sqlite3.Connection, usage: Sequence[UsageRecord], roots: dict[str, str]) -> None:
    booked = time.time()
    for record in usage:
        if record.run_id not in roots:
            roots[record.run_id], _ = _state(connection, record.run_id)
        connection.execute(queries()["add_usage"], usage_row(record, roots[record.run_id], booked))


def _state(connection: sqlite3.Connection, run_id: str) -> tuple[str, bool]:
    """The root of a run, and whether it has ended."""
    row = connection.execute(queries()["run_state"], (run_id,)).fetchone()
    if row is None:
        raise StorageError(f"run {run_id!r} was never begun: call begin() first")
    return row[0], bool(row[1])


def remember(connection: sqlite3.Connection, owner: str, text: str) -> Memory:
    """Keep *text* for *owner*, unless it is there."""
    text = storable(text)
    key = memory_id(owner, text)
    found = " ".join(words(text))
    sql = queries()
    with transaction(connection):
        row = connection.execute(sql["memory"], (key, owner)).fetchone()
        if row is not None:
            return to_memory(row)
        created = time.time()
        number = connection.execute(sql["add_memory"], (key, owner, text, created, "{}")).lastrowid
        connection.execute(sql["add_memory_words"], (number, _owner_key(owner), found))
    return Memory(id=key, text=text, created=created)


def recall(connection: sqlite3.Connection, owner: str, query: str, limit: int) -> list[Memory]:
    """The memories of *owner* that match *query* best, or the newest if it has no word."""
    wanted = query_words(storable(query))
    # Words have letters and digits only, so that none of them is syntax of the index.
    either = " OR ".join(f'"{word}"' for word in wanted)
    match = f"owner_key : {_owner_key(owner)} AND words : ({either})"
    bound = {"owner": owner, "limit": limit, "match": match}
    name = "find_memories" if wanted else "newest_memories"
    return [to_memory(row) for row in connection.execute(queries()[name], bound).fetchall()]


def _owner_key(owner: str) -> str:
    """*owner* as one word of the index, whatever signs it has."""
    return "o" + hashlib.sha256(owner.encode()).hexdigest()
