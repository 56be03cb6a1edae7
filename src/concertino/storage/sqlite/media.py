"""Contents of media: stored once per scope by their digest, and erased with the last run that has them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from ..codec import outcome_digests
from .statements import queries


def add_contents(connection: sqlite3.Connection, run: int, contents: Mapping[str, str]) -> None:
    """Store *contents*, by digest, for *run*; inside a transaction."""
    sql = queries()
    for digest, body in contents.items():
        connection.execute(sql["add_content"], {"run": run, "digest": digest, "body": body})
        connection.execute(sql["link_content"], {"run": run, "digest": digest})


def contents_of(connection: sqlite3.Connection, run: int) -> dict[str, str]:
    """Return the contents of the media of *run*, by digest."""
    return {row[0]: row[1] for row in connection.execute(queries()["contents_of_run"], (run,)).fetchall()}


def contents_of_events(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[str, str]:
    """Return the contents that rows of a log name, by digest."""
    found = connection.execute(queries()["contents_of_events"], (json.dumps(numbers),)).fetchall()
    return {row[0]: row[1] for row in found}


def contents_of_outcome(connection: sqlite3.Connection, run: int, outcome: str | None) -> dict[str, str]:
    """Return the contents that an *outcome* of *run* names, by digest."""
    if not outcome or not (digests := outcome_digests(outcome)):
        return {}
    found = connection.execute(queries()["contents_of_outcome"], (run, json.dumps(digests))).fetchall()
    return {row[0]: row[1] for row in found}


def release_contents(
    connection: sqlite3.Connection, run: int, *, shared: bool = False, digests: Sequence[str] | None = None
) -> None:
    """Erase contents that *run* no longer has and no other run has either; inside a transaction.

    With *shared*, the run still has the contents that its scope's texts name, such as those of its history. With
    *digests*, no other contents are looked at.
    """
    sql, wanted = queries(), None if digests is None else json.dumps(digests)
    bound = {"run": run, "shared": shared, "digests": wanted}
    for (media,) in connection.execute(sql["unlink_contents"], bound).fetchall():
        connection.execute(sql["erase_content_of"], {"media": media})
