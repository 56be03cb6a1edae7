"""The ledger of a run tree: one record for each attempt, booked once, seen by every run above it."""

from __future__ import annotations

from ..usage import UsageRecord


class Ledger:
    """The records of one run and of all runs below it."""

    __slots__ = ("_by_id", "_parent")

    def __init__(self, parent: Ledger | None = None) -> None:
        self._by_id: dict[str, UsageRecord] = {}
        self._parent = parent

    @property
    def records(self) -> tuple[UsageRecord, ...]:
        """All records, in the order of booking."""
        return tuple(self._by_id.values())

    def book(self, record: UsageRecord) -> bool:
        """Add *record* here and in all ledgers above. False, and nothing done, if its id is there already."""
        if self._by_id.setdefault(record.id, record) is not record:
            return False
        if self._parent is not None:
            self._parent.book(record)
        return True
