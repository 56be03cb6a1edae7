"""Snapshots: requests that repeat what earlier entries recorded, and name the entries that the run still depends on.

A snapshot is derived from the journal and has no content. With it, resuming reads the entries that it names and
those from its own on; without it, or if it cannot be read, the whole journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...records import record
from ...token_engine.edits import Summarize

if TYPE_CHECKING:
    from .entries import Common

VERSION = 1
"""Version of the form. A snapshot of another version is ignored."""
INTERVAL = 64
"""Fewest entries between two snapshots."""
NOTED = frozenset({"resumed", "summary_ready", "log", "carried", "snapshot"})
"""Kinds of entries, and names in the structure of others, that `Sources` must know, besides edits and results."""
_SHARE = 64
"""Most characters of a snapshot for each entry since the last one, so that a step writes as much late as early."""


@record(kw_only=True)
class Snapshot:
    """The part of a run's state that its entries since do not determine."""

    entries: Sequence[int]
    """Numbers of the earlier entries that the state depends on: edits, structured results, the last resumption."""
    phase: int
    """See `RunSession.phase`."""
    seconds: float
    """Seconds of work before the run's last start or resumption."""
    counts: Mapping[str, int]
    """Tool calls so far, by agent path."""
    calls_of: Mapping[str, int]
    """This run's own calls, by tool."""

    def write(self) -> dict[str, Any]:
        """Return the form of the snapshot. The store reads its `entries`."""
        rest = (self.phase, self.seconds, dict(self.counts), dict(self.calls_of))
        return {"entries": list(self.entries), "version": VERSION, "state": rest}

    @classmethod
    def read(cls, form: Mapping[str, Any] | None) -> Snapshot | None:
        """Return the snapshot of a form that `write` made; None without one, or if it cannot be read."""
        if form is None:
            return None
        try:
            if form["version"] != VERSION:
                return None
            phase, seconds, counts, calls_of = form["state"]
            numbers = [phase, *counts.values(), *calls_of.values()]
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        if any(type(number) is not int for number in numbers) or type(seconds) not in (int, float):
            return None
        return cls(entries=form["entries"], phase=phase, seconds=seconds, counts=counts, calls_of=calls_of)


class Sources:
    """The numbers of the entries that a run's state depends on, besides its last snapshot."""

    __slots__ = ("_began", "_data", "_edits", "_ready", "last", "seconds")

    def __init__(self) -> None:
        self.last = 0
        """Number of the entry with the last snapshot; 0 before the first."""
        self.seconds = 0.0
        """See `Snapshot.seconds`."""
        self._began = 0
        self._edits: list[int] = []
        self._data: dict[str, int] = {}
        self._ready: int | None = None

    def note(self, seq: int, kind: str, common: Common) -> None:
        """Take note of the entry *seq*."""
        if kind == "resumed":
            self._began = seq
        if any(type(change) is not int for change in common.log):
            self._edits = [seq]  # a new conversation, without the earlier edits
        elif common.edits or common.carried is not None:
            self._edits.append(seq)
            if any(isinstance(edit, Summarize) for edit in common.edits):
                self._ready = None
        if kind == "summary_ready":
            self._ready = seq
        for name in common.data:
            self._data[name] = seq
        if common.snapshot is not None:
            self.last = seq

    def is_due(self, seq: int, size: int) -> bool:
        """Return True if the entry *seq* is to have a snapshot that repeats *size* characters."""
        return _SHARE * (seq - self.last) >= size + 8 * (len(self._edits) + len(self._data))

    def entries(self) -> list[int]:
        """Return the numbers of the entries, in order."""
        found = {self._began, *self._edits, *self._data.values()}
        return sorted(found if self._ready is None else {*found, self._ready})
