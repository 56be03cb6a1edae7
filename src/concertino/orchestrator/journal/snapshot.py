"""Snapshots: requests that repeat what earlier entries recorded, and name what the run still depends on.

A snapshot is derived from the journal and has no content. With it, resuming reads the entries and the messages that
it names and those from its own entry on; without it, or if it cannot be read, the whole journal. So the cost of
resuming depends on what the model is shown, and not on the age of the run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ...ids import is_attempt
from ...records import record
from ...token_engine.edits import Edit, Reduce, Strip, Summarize
from ...usage import UsageRecord

if TYPE_CHECKING:
    from .entries import Common
    from .lease import Ledger

VERSION = 2
"""Version of the form. A snapshot of another version is ignored."""
INTERVAL = 64
"""Fewest entries between two snapshots."""
NOTED = frozenset({"resumed", "summary_ready", "log", "carried", "snapshot"})
"""Kinds of entries, and names in the structure of others, that `Sources` must know, besides edits and results."""
_SHARE = 64
"""Most characters of a snapshot for each entry since the last one, so that a step writes as much late as early."""


@record
class Booked:
    """Sums of the usage that a root run has booked."""

    model_calls: int = 0
    """Attempts at a model."""
    completion: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)

    def plus(self, usage: Iterable[UsageRecord]) -> Booked:
        """Return these sums and those of *usage*."""
        calls, completion, tokens, cost = self.model_calls, self.completion, self.tokens, self.cost
        for each in usage:
            calls += is_attempt(each.id)
            completion += each.tokens.completion
            tokens += each.tokens.total
            cost += each.cost or 0
        return Booked(calls, completion, tokens, cost)


@record(kw_only=True)
class Shown:
    """The messages of a run that its view shows."""

    indexes: Sequence[int]
    """Their indexes among the messages that the run has added."""
    shift: int
    """The index in the record of the first message that the run has added, if it were in it: a hook may have replaced
    the conversation."""
    omitted: int
    """Tokens of the record that the view omits."""


@record(kw_only=True)
class Snapshot:
    """The part of a run's state that its entries since do not determine."""

    entries: Sequence[int] = ()
    """Numbers of the earlier entries that the state depends on: edits, structured results, the last resumption."""
    since: int = 0
    """Number of the first entry from which on all messages are needed."""
    apart: Mapping[int, int] = field(default_factory=dict)
    """Numbers of the entries before it with messages that are needed, and the index of the first one of each."""
    first: int = 0
    """Index of the first message of entry *since*. All these are indexes among the messages that the run has added."""
    added: int = 0
    """The number of messages that the run has added before the entry of the snapshot."""
    shift: int = 0
    """See `Shown.shift`."""
    omitted: int = 0
    """See `Shown.omitted`."""
    booked: Booked = Booked()
    """What the entries up to this one have booked; of a root run."""
    phase: int
    """See `RunSession.phase`."""
    seconds: float = 0.0
    """Seconds of work before the run's last start or resumption."""
    counts: Mapping[str, int]
    """Tool calls so far, by agent path."""
    calls_of: Mapping[str, int]
    """This run's own calls, by tool."""

    def write(self) -> dict[str, Any]:
        """Return the form of the snapshot. The store reads its `entries` and `messages`."""
        indexes = (self.first, self.added, self.shift, self.omitted, *self.apart.values())
        sums = (self.booked.model_calls, self.booked.completion, self.booked.tokens, str(self.booked.cost))
        rest = (self.phase, self.seconds, dict(self.counts), dict(self.calls_of), indexes, sums)
        messages = (self.since, *self.apart)
        return {"entries": list(self.entries), "messages": messages, "version": VERSION, "state": rest}

    @classmethod
    def read(cls, form: Mapping[str, Any] | None) -> Snapshot | None:
        """Return the snapshot of a form that `write` made; None without one, or if it cannot be read."""
        if form is None:
            return None
        try:
            if form["version"] != VERSION:
                return None
            phase, seconds, counts, calls_of, indexes, (calls, completion, tokens, cost) = form["state"]
            since, *apart = form["messages"]
            first, added, shift, omitted, *firsts = indexes
            sums = (calls, completion, tokens)
            numbers = [phase, since, *apart, *indexes, *sums, *counts.values(), *calls_of.values()]
            booked = Booked(*sums, Decimal(cost))
            found = dict(zip(apart, firsts, strict=True))
        except (AttributeError, KeyError, TypeError, ValueError, InvalidOperation):
            return None
        if any(type(number) is not int for number in numbers) or type(seconds) not in (int, float):
            return None
        return cls(
            entries=form["entries"],
            since=since,
            apart=found,
            first=first,
            added=added,
            shift=shift,
            omitted=omitted,
            booked=booked,
            phase=phase,
            seconds=seconds,
            counts=counts,
            calls_of=calls_of,
        )


class Sources:
    """The sources of a run's state besides its last snapshot: the numbers of entries, and where messages are."""

    __slots__ = (
        "_added",
        "_began",
        "_counted",
        "_data",
        "_edits",
        "_located",
        "_ready",
        "booked",
        "fresh",
        "last",
        "seconds",
    )

    def __init__(self) -> None:
        self.last = 0
        """Number of the entry with the last snapshot; 0 before the first."""
        self.seconds = 0.0
        """See `Snapshot.seconds`."""
        self.fresh: list[tuple[int, int]] = []
        """The entries since the last snapshot with messages, and how many each has added."""
        self.booked = Booked()
        """See `Snapshot.booked`."""
        self._counted = 0  # records of the ledger that are in it
        self._began = 0
        self._edits: list[tuple[int, Sequence[Edit], bool]] = []  # entries, and whether they carry earlier edits over
        self._data: dict[str, int] = {}
        self._ready: int | None = None
        self._added = 0  # the number of messages that the entries before have added
        self._located: list[tuple[int, int, int]] = []  # an entry, the index of its first message, and their number

    def locate(self, seq: int, first: int, count: int) -> None:
        """Take note of the index of the first of *count* messages that the entry *seq* has added."""
        self._located.append((seq, first, count))
        self._added = first + count

    def count(self, run_id: str, ledger: Ledger) -> None:
        """Add what the root run has booked since the last call."""
        fresh = [each for each in ledger.newest(self._counted) if each.run_id == run_id]
        self.booked, self._counted = self.booked.plus(fresh), len(ledger)

    def note(self, seq: int, kind: str, common: Common) -> None:
        """Take note of the entry *seq*."""
        if kind == "resumed":
            self._began = seq
        if any(type(change) is not int for change in common.log):
            self._edits = [(seq, common.edits, True)]  # a new conversation, without the earlier edits
        elif common.edits or common.carried is not None:
            self._edits.append((seq, common.edits, common.carried is not None))
            if any(isinstance(edit, Summarize) for edit in common.edits):
                self._ready = None
                self._edits = _needed(self._edits)
        if kind == "summary_ready":
            self._ready = seq
        for name in common.data:
            self._data[name] = seq
        if common.snapshot is not None:
            self.last = seq

    def restore(self, snapshot: Snapshot) -> None:
        """Continue after the entries before that of *snapshot*."""
        self.seconds, self.booked, self._added = snapshot.seconds, snapshot.booked, snapshot.added

    def is_due(self, seq: int, size: int) -> bool:
        """Return True if the entry *seq* is to have a snapshot that repeats *size* characters."""
        return _SHARE * (seq - self.last) >= size + 8 * (len(self._edits) + len(self._data))

    def entries(self) -> list[int]:
        """Return the numbers of the entries, in order."""
        found = {self._began, *(seq for seq, _, _ in self._edits), *self._data.values()}
        return sorted(found if self._ready is None else {*found, self._ready})

    def snapshot(self, planned: Snapshot, seq: int, shown: Shown) -> Snapshot:
        """Return the *planned* snapshot for the entry *seq*, of a run whose view shows the messages *shown*.

        The other messages are not needed any more.
        """
        for entry, count in self.fresh:
            self.locate(entry, self._added, count)
        self.fresh.clear()
        located, added = self._located, self._added
        numbers = {bisect_right(located, i, key=itemgetter(1)) - 1 for i in shown.indexes if i < added}
        located = self._located = [located[number] for number in sorted(numbers)]
        last, since, first = len(located), seq, added
        while last and sum(located[last - 1][1:]) == first:  # without a gap
            last -= 1
            since, first, _ = located[last]
        return replace(
            planned,
            entries=self.entries(),
            since=since,
            apart={entry: index for entry, index, _ in located[:last]},
            first=first,
            added=added,
            shift=shown.shift,
            omitted=shown.omitted,
            booked=self.booked,
            seconds=self.seconds,
        )


def _needed(edits: list[tuple[int, Sequence[Edit], bool]]) -> list[tuple[int, Sequence[Edit], bool]]:
    """Return the entries with *edits* that still show after the last summary; it replaces all before its end."""
    every = [edit for _, some, _ in edits for edit in some]
    summaries = [edit for edit in every if isinstance(edit, Summarize)]
    last = summaries[-1]
    if last.first:
        return edits
    needed: list[Edit] = [last, *[edit for edit in summaries if not edit.omitted][-1:]]
    needed += [edit for edit in every if isinstance(edit, Strip)][-1:]  # it contains the earlier ones
    for edit in every:
        if isinstance(edit, Reduce) and any(index >= last.end or index in last.kept for index in edit.indexes):
            needed.append(edit)
    ids = set(map(id, needed))
    return [each for each in edits if each[2] or any(id(edit) in ids for edit in each[1])]
