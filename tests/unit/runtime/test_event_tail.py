"""The tail of a log has its last events, and few of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from concertino.runtime.event_tail import EventTail


@given(sizes=st.lists(st.integers(1, 700), max_size=80), back=st.integers(0, 700))
def test_a_tail_has_the_last_events_in_order_or_says_that_it_has_not(sizes: list[int], back: int) -> None:
    tail, last = EventTail(), 0
    for size in sizes:
        tail.append([(number, None) for number in range(last + 1, last + size + 1)])  # type: ignore[misc]  # no events
        last += size
    after = max(0, last - back)
    found = tail.newer(after)
    if found:
        assert [number for number, _ in found] == list(range(after + 1, last + 1))
    kept = sum(map(len, tail._batches))
    assert kept <= 1_024 or len(tail._batches) == 1
    assert not sizes or tail.newer(last - sizes[-1]), "the last batch is always here"
    tail.clear()
    assert tail.newer(after) is None
