"""The last stored events of a tree, for readers in the process that writes them."""

from __future__ import annotations

from collections import deque
from itertools import chain

from .event_pieces import NumberedEvents

_BATCHES = 32
_EVENTS = 512
_SMALL = _EVENTS // _BATCHES
"""Events of a batch that is too small to be counted."""


class EventTail:
    """Keeps the last batches for readers who keep up; others read the store.

    Few batches: with hundreds of trees, events that stay for long are most of what the garbage collector looks through.
    """

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: deque[NumberedEvents] = deque(maxlen=_BATCHES)

    def append(self, batch: NumberedEvents) -> None:
        """Add the events that follow the last one, and forget the oldest."""
        self._batches.append(batch)
        if len(batch) > _SMALL:
            while len(self._batches) > 1 and sum(map(len, self._batches)) > _EVENTS:
                self._batches.popleft()

    def clear(self) -> None:
        """Forget all events."""
        self._batches.clear()

    def newer(self, after: int) -> NumberedEvents | None:
        """Return the events after number *after*; None if some are not here any more."""
        found: list[NumberedEvents] = []
        for batch in reversed(self._batches):  # most readers lack the last one only
            first = batch[0][0]
            if first == after + 1 and not found:
                return batch
            found.append(batch)
            if first <= after + 1:
                return list(chain.from_iterable(reversed(found)))[after + 1 - first :]
        return None
