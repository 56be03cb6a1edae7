"""Patterns, and the redaction of streamed pieces."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from concertino import DataPolicy, Pattern
from concertino.agents import EMAIL
from concertino.errors import ConfigurationError
from concertino.events import TextDelta
from concertino.orchestrator import CARD_NUMBER, IBAN
from concertino.orchestrator.journal.patterns import RedactedPieces, Redactor

WORDS = st.sampled_from(["a", "ann", "@", ".", "example", "org", " ", "-", "x@y", "me@x.io", "\n", "é", "4111", "1"])


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4).map("".join), min_size=1, max_size=8))
@example(["me@x.i", "o and on"])
@example(["me", "@", "x", ".", "io"])
def test_a_match_is_found_however_it_is_split(pieces: list[str]) -> None:
    whole = re.sub(EMAIL.pattern, "[email]", "".join(pieces))
    out: list[Any] = []
    redacted = RedactedPieces(Redactor((EMAIL,)), out.append)
    for piece in pieces:
        redacted.put(TextDelta("r", "a", 0, piece))
    redacted.flush()
    assert "".join(event.text for event in out) == whole


@given(st.lists(st.text("1234 -x", min_size=1, max_size=9), min_size=1, max_size=9))
@example(["4111 1111 ", "1111 1111", " x"])
def test_several_patterns_are_found_however_they_are_split(pieces: list[str]) -> None:
    redactor, out = Redactor((EMAIL, IBAN, CARD_NUMBER)), list[Any]()
    redacted = RedactedPieces(redactor, out.append)
    for piece in pieces:
        redacted.put(TextDelta("r", "a", 0, piece))
    redacted.flush()
    got = "".join(event.text for event in out)
    assert not CARD_NUMBER.expression.search(got) or len(max(re.split("x", "".join(pieces)), key=len)) > 40


def test_little_of_a_stream_is_held_back() -> None:
    out: list[Any] = []
    redacted = RedactedPieces(Redactor((EMAIL,)), out.append)
    for piece in ["Hello ", "wor", "ld. ", "x" * 5_000]:
        redacted.put(TextDelta("r", "a", 0, piece))
    assert "".join(event.text for event in out).startswith("Hello world. xxx")
    assert sum(len(event.text) for event in out) == 5_013 - EMAIL.longest


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("pay 4111 1111 1111 1111 now", "pay [card number] now"),
        ("call 12345", "call 12345"),
        ("DE89 3704 0044 0532 0130 00 and more", "[iban] and more"),
        ("Ann.O'Neil+x@mail.example.co.uk, hi", "[email], hi"),
        ("a@b is none", "a@b is none"),
    ],
)
def test_shipped_patterns(text: str, redacted: str) -> None:
    for pattern in (EMAIL, IBAN, CARD_NUMBER):
        text = pattern.expression.sub(f"[{pattern.name}]", text)
    assert text == redacted


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"pattern": "("}, "invalid regular expression"),
        ({"pattern": "a*"}, "matches empty text"),
        ({"longest": 0}, "use a whole number above 0"),
        ({"name": ""}, "use text"),
    ],
)
def test_an_invalid_pattern_is_refused(fields: dict[str, Any], problem: str) -> None:
    valid = {"name": "n", "pattern": "a", "characters": "[a]", "longest": 1}
    with pytest.raises(ConfigurationError, match=problem):
        Pattern(**{**valid, **fields})
    with pytest.raises(ConfigurationError, match="use Pattern objects"):
        DataPolicy(patterns=["a@b"])  # type: ignore[list-item]
