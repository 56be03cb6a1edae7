"""Group commit: writes that wait together share one transaction, and with it one fsync."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from .erasure import checkpoint
from .errors import explain
from .statements import Write, transaction

T = TypeVar("T")
Outcome = tuple[Any, BaseException | None]
"""The result of a call, or its error."""


class _RolledBackError(Exception):
    """The failure of one write, such as a full disk, has rolled back the whole transaction."""


def commit(connection: sqlite3.Connection, writes: Sequence[Write[Any]], path: Path) -> list[Outcome]:
    """Do *writes* in one transaction, in which each may fail alone, and return their outcomes after the commit.

    If the transaction is lost as a whole, each write is repeated in one of its own.
    """
    if len(writes) > 1:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            return [(None, _explained(error, path)) for _ in writes]
        try:
            outcomes = [_in_savepoint(connection, write, path) for write in writes]
            connection.execute("COMMIT")
        except (sqlite3.Error, _RolledBackError):
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        else:
            if any(write.erased for write, (_, error) in zip(writes, outcomes, strict=True) if error is None):
                checkpoint(connection)
            return outcomes
    return [outcome_of(partial(commit_one, connection, write), path) for write in writes]


def commit_one(connection: sqlite3.Connection, write: Write[T]) -> T:
    """Do *write* in a transaction of its own."""
    with transaction(connection):
        result = write.work(connection)
    if write.erased:
        checkpoint(connection)
    return result


def outcome_of(call: Callable[[], Any], path: Path) -> Outcome:
    """Call *call* and return its outcome, with SQLite's errors translated."""
    try:
        return call(), None
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        # Two that are not SQLite's: text that is not Unicode (in a corrupt schema even SQLite's own message may not
        # be), and numbers over 64 bits.
        return None, _explained(error, path)
    except BaseException as error:  # noqa: BLE001 - the caller raises it
        return None, error


def _in_savepoint(connection: sqlite3.Connection, write: Write[Any], path: Path) -> Outcome:
    connection.execute("SAVEPOINT write")
    outcome = outcome_of(partial(write.work, connection), path)
    if outcome[1] is not None:
        if not connection.in_transaction:
            raise _RolledBackError
        connection.execute("ROLLBACK TO write")
    connection.execute("RELEASE write")
    return outcome


def _explained(error: Exception, path: Path) -> Exception:
    explained = explain(error, path)
    explained.__cause__ = error
    return explained
