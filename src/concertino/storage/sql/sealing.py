"""The keys of content, such that discarding a key erases what the rules erase together.

Kinds of keys, and what they are named by:

- `content`, a run: what its data policy may erase after its end;
- `kept`, a run: what stays until its conversation or its user is erased;
- `keep N`, a run: messages and ends that stay for N seconds after its end;
- `task`, a run: its task, which expires with its end;
- `file`, its number; `conversation`, its number; `user`, a scope's key: what several runs share.

Without a sealer nothing is sealed: the database itself erases by overwriting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...scope import Scope
from ..codec import encode_json
from ..types import Entry
from .rows import EntryRows
from .session import Sealer, Session

Seal = Callable[[str, str, object], str]
"""Returns a text sealed with the key of a kind and a name."""


def seal(connection: Session, text: str, kind: str, name: object) -> str:
    """Return *text* as it is to be stored."""
    return text if connection.sealer is None else connection.sealer.seal(text, kind, name)


def kept(seconds: float | None) -> str:
    """Return the kind of key for what stays for *seconds* after the end of its run, or without a limit."""
    return "kept" if seconds is None else f"keep {float(seconds)!r}"


def sealed_rows(rows: EntryRows, entry: Entry, sealer: Sealer | None) -> EntryRows:
    """Return *rows* of *entry* with their content sealed."""
    if sealer is None:
        return rows
    run, seal = entry.run_id, sealer.seal
    names: list[tuple[str, object]] = [("content", run), ("kept", run)]
    if entry.seq == 0:
        names.append(("task", run))
    if any(row[1] is None and not row[2] for row in rows.texts):
        names.append(("user", entry.claim.scope.key))
    sealer.prepare(names)
    *structure, content = rows.entry
    return rows._replace(
        entry=(*structure, content and seal(content, "content", run)),
        messages=[_sealed_message(row, run, seal) for row in rows.messages],
        texts=[_sealed_text(row, entry, seal) for row in rows.texts],
        operations=[
            put._replace(outcome=put.outcome and seal(put.outcome, "content", put.run_id)) for put in rows.operations
        ],
    )


def sealed_end(row: tuple[Any, ...], run: str, sealer: Sealer | None) -> tuple[Any, ...]:
    """Return the parameters of `add_end` for *run* with their content sealed."""
    if sealer is None:
        return row
    answer, error, ended, seconds = row
    kind = kept(seconds)
    return (sealer.seal(answer, kind, run), error and sealer.seal(error, kind, run), ended, seconds)


def _sealed_message(row: tuple[Any, ...], run: str, seal: Seal) -> tuple[Any, ...]:
    seq, role, tokens, seconds, keep_progress, progress, body, left, later = row
    lasting = kept(seconds)
    stays = keep_progress and left != ""

    def sealed(text: str | None, kind: str) -> str | None:
        return text and seal(text, kind, run)

    return (
        *(seq, role, tokens, seconds, keep_progress, sealed(progress, lasting if stays else "content")),
        *(sealed(body, lasting if left is None else "content"), sealed(left, lasting), sealed(later, "kept")),
    )


def _sealed_text(row: tuple[str, str | None, bool, str], entry: Entry, seal: Seal) -> tuple[Any, ...]:
    name, run_id, of_conversation, body = row
    if run_id is not None:
        sealed = seal(body, "content", run_id)
    elif of_conversation:  # the runs of a conversation are erased together
        sealed = seal(body, "kept", entry.run_id)
    else:
        sealed = seal(body, "user", entry.claim.scope.key)
    return (name, run_id, of_conversation, sealed)


def run_of(connection: Session, run: int) -> str:
    """Return the id of a run."""
    return str(connection.execute(connection.queries["run_id"], (run,)).fetchone()[0])


def discard(connection: Session, kind: str, names: Iterable[object]) -> None:
    """Discard keys when the transaction has been committed, with the keys that these names had before."""
    if connection.sealer is not None and (found := [(kind, name) for name in names]):
        _discard(connection, found)


def discard_content(connection: Session, run: int) -> None:
    """Discard the key of what the data policy of *run* erases."""
    if connection.sealer is not None:
        _discard(connection, [("content", run_of(connection, run))])


def discard_expired(connection: Session, run: int, now: float) -> None:
    """Discard the keys of what *run* has kept long enough; before it is blanked."""
    if connection.sealer is not None:
        rows = connection.execute(connection.queries["expired"], {"run": run, "now": now}).fetchall()
        kinds = [kept(row["keep_seconds"]) for row in rows] + ["task" for row in rows if row["ends"]]
        name = run_of(connection, run)
        _discard(connection, [(kind, name) for kind in dict.fromkeys(kinds)])


def discard_runs(connection: Session, runs: Iterable[int]) -> None:
    """Discard all keys of *runs*; before they are blanked."""
    if connection.sealer is None:
        return
    names: list[tuple[str, object]] = []
    for run in runs:
        rows = connection.execute(connection.queries["expired"], {"run": run, "now": None}).fetchall()
        kinds = dict.fromkeys(["content", "kept", "task", *(kept(row["keep_seconds"]) for row in rows)])
        name = run_of(connection, run)
        names += [(kind, name) for kind in kinds]
    _discard(connection, names)


def discard_user(connection: Session, scope: Scope) -> None:
    """Discard the key of what the runs of *scope* share."""
    discard(connection, "user", [scope.key])


def _discard(connection: Session, names: list[tuple[str, object]]) -> None:
    assert connection.sealer is not None
    ids = connection.sealer.retire(names)
    connection.execute(connection.queries["discard_keys"], (encode_json(list(ids)),))
