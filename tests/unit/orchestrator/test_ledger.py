"""The ledger of a tree."""

from __future__ import annotations

from concertino.orchestrator.journal.lease import Ledger
from concertino.testing.store_suite.kit import record


def test_the_records_of_a_sub_agent_need_nothing_that_was_not_read() -> None:
    """The event loop would wait for it, and a store that fails would fail a result."""
    ledger, reads = Ledger(), list[str]()
    own, below = record(1), record(2, agent_path="supervisor/helper")
    ledger.leave_out("supervisor", lambda: reads.append("all"))
    ledger.book(below)
    assert ledger.records("supervisor/helper") == (below,)
    assert not reads
    assert ledger.records("supervisor") == (below,)
    assert reads == ["all"]
    ledger.complete([own, below])
    assert ledger.records("supervisor") == (own, below)
    assert len(reads) == 1
