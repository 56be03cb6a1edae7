"""The logs of events: appending batches, reading pages, and finding what a crash undid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import to_json

from ...errors import StaleClaimError, StorageError, UnknownRunError
from ...scope import AnyScope
from ..codec import decode_json, encode_json
from ..types import EventBatch, EventPage, StoredEvents
from .media import add_contents, contents_of_events
from .sealing import Seal, run_of, seal
from .select import Select
from .session import Cursor, Row, Session, Write
from .statements import scoped

_PAGE = 2**13
"""Characters after which a page ends with its batch, since a reader that does not read keeps a page in memory."""
_RESULTS = ("tool_streamed", "tool_done", "tool_failed")
"""Events with a result, or a piece of it, by type."""


class AddingEvents(Write[None]):
    """Appends a batch to the log of its tree."""

    def __init__(self, batch: EventBatch) -> None:
        self.batch = batch
        self.tree = batch.claim.root_id
        self.bodies: list[str] = []
        self.is_plain = not (batch.completed or batch.dropped or batch.replaced or batch.withheld or batch.ends)
        """Whether the batch only adds rows without media, as most do."""
        for row in batch.rows:
            self.bodies.append(_body(row.items))
            self.is_plain = self.is_plain and not row.contents
        self.replaced = [(encode_json(items) if items else "", number) for number, items in batch.replaced]

    def work(self, connection: Session) -> None:
        """Advance the log, if the claim allows it, and write the rows."""
        sql, batch, execute = connection.queries, self.batch, connection.execute
        claim = batch.claim
        if batch.first == 1:
            execute(sql["begin_log"], (claim.root_id,))
        advance, reach = scoped(connection, "advance_log", claim.scope)
        bound: dict[str, Any] = {"root_id": claim.root_id, "first": batch.first, "last": batch.last}
        if not execute(advance, {**reach, **bound, "epoch": claim.epoch}).rowcount:
            raise _refusal(connection, batch)
        if not self.is_plain:
            root: int = execute(sql["root_of_log"], (claim.root_id,)).fetchone()[0]
            self._close_sources(connection, root)
        bodies = self.bodies if connection.sealer is None else sealed_events(self, connection.sealer.seal)
        for row, body in zip(batch.rows, bodies, strict=True):
            bound |= {"run_id": row.run_id, "entry": row.entry, "source": row.source, "body": body}
            added = execute(sql["add_event_row"], bound).lastrowid
            if row.contents:
                ((run,),) = execute(sql["run_of_events"], (added,)).fetchall()
                add_contents(connection, run, row.contents)
        if not self.is_plain:
            self._withhold(connection, root)

    def _close_sources(self, connection: Session, root: int) -> None:
        sql, batch, execute = connection.queries, self.batch, connection.execute
        for source in batch.completed:
            execute(sql["complete_source"], (root, source))
        for source in batch.dropped:
            execute(sql["drop_source"], (root, -source))
        for left_over, number in self.replaced:
            _replace(connection, number, root, left_over)
        if batch.ends:
            execute(sql["end_log"], (root,))

    def _withhold(self, connection: Session, root: int) -> None:
        """Remove the results that are not kept, also from the rows of this batch."""
        sql, execute = connection.queries, connection.execute
        for run_id, call_id in self.batch.withheld:
            for changed, body in execute(sql["events_of_call"], (root, run_id, in_json(call_id))).fetchall():
                items = decode_json(body, list)
                left = _without_result(items, call_id)
                if len(left) < len(items):  # most rows name a call without its result
                    _replace(connection, changed, root, encode_json(left) if left else "")


def withholds(batch: EventBatch) -> bool:
    """Return whether rows of *batch* itself have results that it does not keep."""
    return any(
        row.run_id == run_id and len(_without_result(row.items, call_id)) < len(row.items)
        for run_id, call_id in batch.withheld
        for row in batch.rows
    )


def in_json(call_id: str) -> str:
    """Return the id of a call as the body of a row has it."""
    return _body([call_id])[2:-2]


def end_events(connection: Session, scope: AnyScope, root_id: str, items: Sequence[Any]) -> None:
    """Close the log of a root that has ended, with one row, unless it is closed."""
    _log(connection, scope, root_id)
    for (last,) in connection.execute(connection.queries["close_log"], {"run_id": root_id}).fetchall():
        bound = {"root_id": root_id, "run_id": root_id, "entry": 0, "source": None, "first": last, "last": last}
        body = seal(connection, encode_json(items), "content", root_id)
        connection.execute(connection.queries["add_event_row"], {**bound, "body": body})


def events(connection: Session, scope: AnyScope, root_id: str, after: int, limit: int) -> EventPage:
    """Return about *limit* rows after number *after*, up to the first batch with media; no batch is divided."""
    sql, bound = select_events(scope, root_id, after, limit).statement(connection.queries)
    with connection.reading():
        found = connection.execute(sql, bound).fetchall()
        log = known_log(found[0] if found else None, root_id)
        rows, has_media = _in_page(found, after)
        contents = contents_of_events(connection, [row["number"] for row in rows]) if has_media else {}
    return _to_page(log, rows, contents)


def select_events(scope: AnyScope, root_id: str, after: int, limit: int) -> Select[EventPage | None]:
    """Select what `events` returns; None if the log is unknown or the page has media, which are stored elsewhere."""

    def page(found: Sequence[Row]) -> EventPage | None:
        rows, has_media = _in_page(found, after)
        return _to_page(found[0], rows, {}) if found and not has_media else None

    return Select("event_page", scope, {"root_id": root_id, "after": after, "limit": max(limit, 1) - 1}, page)


def _in_page(found: Sequence[Row], after: int) -> tuple[Sequence[Row], bool]:
    """Return the rows of a page, of what was *found*, and whether the last batch has media."""
    rows = [row for row in found if row["number"] is not None]
    size = 0
    for row in rows:
        size += len(row["body"])
        has_media = "data_digest" in row["body"]  # contents are large: those of one batch are enough for a page
        if has_media or (size > _PAGE and row["first"] > after):  # an empty page would end the log
            return [each for each in rows if each["last"] <= row["last"]], has_media
    return rows, False


def _to_page(log: Row, rows: Sequence[Row], contents: dict[str, str]) -> EventPage:
    closed, ended = bool(log["closed"]), bool(log["ended"])
    return EventPage(rows=to_events(rows), last=log["end_of_log"], closed=closed, ended=ended, contents=contents)


def select_positions(scope: AnyScope, root_ids: Sequence[str]) -> Select[list[tuple[str, int, bool, bool]]]:
    """Select, for each root in reach, the last number of its log, and whether the log is closed and the root ended.

    The number of a queued turn is -1.
    """

    def positions(rows: Sequence[Row]) -> list[tuple[str, int, bool, bool]]:
        return [(row["run_id"], row["last"] or 0, bool(row["closed"]), bool(row["ended"])) for row in rows]

    return Select("event_positions", scope, {"root_ids": encode_json(list(root_ids))}, positions)


def sealed_events(write: AddingEvents, seal: Seal) -> list[str]:
    """Return the bodies of the rows of *write*, sealed."""
    root = write.batch.claim.root_id
    # A sub-agent that could not start has no row in `runs`: events before the first entry are erased with the root's.
    names = [row.run_id if row.entry else root for row in write.batch.rows]
    return [seal(body, "content", name) for body, name in zip(write.bodies, names, strict=True)]


def _replace(connection: Session, number: int, root: int, body: str) -> None:
    if body and connection.sealer is not None:
        (run,) = connection.execute(connection.queries["run_of_events"], (number,)).fetchone()
        body = connection.sealer.seal(body, "content", run_of(connection, run))
    connection.execute(connection.queries["replace_events"], (body, number, root))


def _body(items: Sequence[Any]) -> str:
    """Return the items of a row, which are JSON values, as JSON text in valid Unicode."""
    try:
        return to_json(items, inf_nan_mode="constants").decode()  # four times as fast as `encode_json`
    except ValueError:  # half of a surrogate pair, or deeply nested
        return encode_json(items)


def _without_result(items: Sequence[Any], call_id: str) -> list[Any]:
    """Return the items of a row without the result of a call, and without its pieces, which are texts after a form."""
    left: list[Any] = []
    form: dict[str, Any] = {}
    for offset, item in items:
        form = form if isinstance(item, str) else item
        of_call = form["type"] in _RESULTS and form["call_id"] == call_id
        if not of_call or form.get("replaces"):
            left.append([offset, item])
    return left


def _log(connection: Session, scope: AnyScope, root_id: str) -> Row:
    return known_log(ask_log(connection, scope, root_id).fetchone(), root_id)


def ask_log(connection: Session, scope: AnyScope, root_id: str) -> Cursor:
    """Send the query of the state of a log."""
    sql, reach = scoped(connection, "log", scope)
    return connection.execute(sql, {**reach, "run_id": root_id})


def known_log(row: Row | None, root_id: str) -> Row:
    """Return *row*. Raises `UnknownRunError` if it is None."""
    if row is None:
        raise UnknownRunError(f"there is no run {root_id!r} in this store")
    return row


def to_events(rows: Iterable[Row]) -> tuple[StoredEvents, ...]:
    """Return what *rows* of events contain, without erased ones."""
    return tuple(
        [
            StoredEvents(
                number=row["number"], run_id=row["run_id"], first=row["first"], items=decode_json(row["body"], list)
            )
            for row in rows
            if row["body"]
        ]
    )


def _refusal(connection: Session, batch: EventBatch) -> Exception:
    """Return the error that explains why *batch* was refused."""
    claim = batch.claim
    try:
        log = _log(connection, claim.scope, claim.root_id)
    except UnknownRunError as error:  # erased meanwhile
        return StaleClaimError(f"claim {claim.epoch} of {claim.owner!r} is stale: {error}")
    if log["epoch"] != claim.epoch or log["closed"]:
        why = "its log is closed" if log["closed"] else "another process has claimed it"
        return StaleClaimError(f"events {batch.first} to {batch.last} of run {claim.root_id!r} were refused: {why}")
    return StorageError(f"the log of run {claim.root_id!r} ends at {log['last']}: event {batch.first} is not the next")
