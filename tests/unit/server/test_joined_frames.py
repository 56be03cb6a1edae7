"""Frames of one batch are written together, in pieces of bounded size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from concertino.server.event_source import _WRITE, joined


@given(sizes=st.lists(st.integers(1, 3 * _WRITE), max_size=20))
def test_frames_are_joined_in_order_and_no_write_has_more_than_it_must(sizes: list[int]) -> None:
    frames = [bytes([number]) * size for number, size in enumerate(sizes)]
    writes = list(joined(frames))
    assert b"".join(writes) == b"".join(frames)
    assert all(writes)
    for write in writes[:-1]:
        assert len(write) >= _WRITE
    for write in writes:
        last = len(frames[write[-1]])
        assert len(write) - last < _WRITE, "a frame more than needed"
