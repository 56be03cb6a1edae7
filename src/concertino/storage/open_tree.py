"""The state of a tree that a process reads besides the journals, to resume it."""

from __future__ import annotations

from collections.abc import Sequence

from ..operations import Operation
from ..records import record
from ..usage import UsageRecord
from ..waits import Wait
from .types import Account, StoredEvents


@record(kw_only=True)
class OpenTree:
    """The state of a claimed tree outside its journals."""

    accounts: Sequence[Account]
    """The accounts with a budget that the tree draws on."""
    usage: Sequence[UsageRecord]
    """The usage records of the tree, in order, but not those of the root's entries up to the number asked for."""
    operations: Sequence[Operation]
    """The stored operations of all its runs, ordered by step, index and key."""
    waits: Sequence[Wait]
    """The waits of the root, answered ones too, the oldest first; not older than *operations*."""
    runs_below: bool
    """Whether a run below the root has not ended."""
    last_event: int
    """The number of the last event in its log."""
    undone: Sequence[StoredEvents]
    """The rows of events whose work a crash undid: no entry of their run covers them, or they are pieces without their
    complete event."""
