"""Contents of media: stored once per scope by their digest, and erased with the last run that has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from ..codec import outcome_digests
from .sealing import discard
from .session import Session

_DIGEST = re.compile("[0-9a-f]{64}")


def add_contents(connection: Session, run: int, contents: Mapping[str, str]) -> None:
    """Store *contents*, by digest, for *run*; inside a transaction."""
    sql = connection.queries
    for digest, body in contents.items():
        bound: dict[str, object] = {"run": run, "digest": digest, "body": body}
        if connection.sealer is not None:  # its key is named by its number
            bound["body"] = ""
        for (number,) in connection.execute(sql["add_content"], bound).fetchall():
            if connection.sealer is not None:
                connection.execute(sql["set_content"], (connection.sealer.seal(body, "file", number), number))
        connection.execute(sql["link_content"], {"run": run, "digest": digest})


def contents_of(connection: Session, run: int) -> dict[str, str]:
    """Return the contents of the media of *run*, by digest."""
    return {row[0]: row[1] for row in connection.execute(connection.queries["contents_of_run"], (run,)).fetchall()}


def contents_in(connection: Session, run: int, texts: Iterable[str | None]) -> dict[str, str]:
    """Return the contents of the media of *run* that *texts* name, by digest."""
    digests = {digest for text in texts if text and "digest" in text for digest in _DIGEST.findall(text)}
    return _contents(connection, run, sorted(digests)) if digests else {}


def contents_of_events(connection: Session, numbers: Sequence[int]) -> dict[str, str]:
    """Return the contents that rows of a log name, by digest."""
    found = connection.execute(connection.queries["contents_of_events"], (json.dumps(numbers),)).fetchall()
    return {row[0]: row[1] for row in found}


def contents_of_outcome(connection: Session, run: int, outcome: str | None) -> dict[str, str]:
    """Return the contents that an *outcome* of *run* names, by digest."""
    if not outcome or not (digests := outcome_digests(outcome)):
        return {}
    return _contents(connection, run, digests)


def _contents(connection: Session, run: int, digests: Sequence[str]) -> dict[str, str]:
    found = connection.execute(connection.queries["contents_of_outcome"], (run, json.dumps(digests))).fetchall()
    return {row[0]: row[1] for row in found}


def release_contents(
    connection: Session, run: int, *, shared: bool = False, digests: Sequence[str] | None = None
) -> None:
    """Erase contents that *run* no longer has and no other run has either; inside a transaction.

    With *shared*, the run still has the contents that its scope's texts name, such as those of its history. With
    *digests*, no other contents are looked at.
    """
    sql, wanted = connection.queries, None if digests is None else json.dumps(digests)
    bound = {"run": run, "shared": shared, "digests": wanted}
    for (media,) in connection.execute(sql["unlink_contents"], bound).fetchall():
        if connection.execute(sql["erase_content_of"], {"media": media}).rowcount:
            discard(connection, "file", [media])
