"""The decoder of server-sent events follows the standard for any pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino.providers.http.sse import SseDecoder, SseEvent

TEXTS = st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=12)
NAMES = st.text("abc._", max_size=5)


def decoded(data: bytes, cuts: list[int]) -> list[SseEvent]:
    decoder = SseDecoder()
    positions = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    events = [event for a, b in itertools.pairwise(positions) for event in decoder.feed(data[a:b])]
    return events + decoder.close()


@given(
    st.lists(st.tuples(NAMES, st.lists(TEXTS, min_size=1, max_size=3)), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 1000)),
    st.booleans(),
)
def test_any_line_ending_and_any_cut(
    events: list[tuple[str, list[str]]], end: str, cuts: list[int], space: bool
) -> None:
    lines = [": hello"]
    for name, texts in events:
        lines += [f"event: {name}"] if name else []
        lines += [f"data:{' ' if space or text.startswith(' ') else ''}{text}" for text in texts]
        lines += ["id: 7", "retry: 10", ": ping", ""]
    data = end.join([*lines, ""]).encode()
    assert decoded(data, cuts) == [SseEvent(name, "\n".join(texts)) for name, texts in events]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"\xef\xbb\xbfdata: a\n\n", [SseEvent("", "a")]),
        (b"data\n\n", [SseEvent("", "")]),
        (b"event: a\n\ndata: b\n\n", [SseEvent("", "b")]),
        (b"data: [DONE]", [SseEvent("", "[DONE]")]),
        (b"event: a\ndata: b\n", [SseEvent("a", "b")]),
        (b"\r\n\r\n: only comments\r\n\r\n", []),
        (b"", []),
        (b"data: \xff\n\n", [SseEvent("", "\ufffd", damaged=True)]),
    ],
)
def test_edges(stream: bytes, expected: list[SseEvent]) -> None:
    for cuts in ([], list(range(len(stream)))):
        assert decoded(stream, cuts) == expected
