"""Token counters: bounded time for any text, and no undercount."""

from __future__ import annotations

import subprocess
import sys

import pytest

from concertino.providers.openai import TiktokenCounter
from concertino.token_engine import EstimatingCounter, TokenCounter

RUNS = {
    "spaces": "x" + " " * 1_500_000,
    "letters": "a" * 1_500_000,
    "lines": "\n" * 1_500_000,
    "ideograms": "漢字" * 400_000,
    "no text": "\x00\ufffd\udc80é" * 200_000,
}


@pytest.mark.parametrize("counter", [TiktokenCounter(), EstimatingCounter()], ids=lambda counter: counter.name)
@pytest.mark.parametrize("run", RUNS)
def test_a_long_run_without_a_break(counter: TokenCounter, run: str) -> None:
    """The tiktoken encoder overflows its stack on a million spaces, and raises a BaseException."""
    text = RUNS[run]
    count = counter.count(text)
    assert 0 < count <= len(text.encode("utf-8", "replace"))
    cut = counter.cut(text, 1_000)
    assert 0 < counter.count(cut) <= 1_000
    assert counter.cut(text, count) == text


def test_a_long_text_is_counted_in_pieces() -> None:
    counter = TiktokenCounter()
    line = "The quick brown fox jumps over the lazy dog.\n"
    one = counter.count(line)
    assert one * 1_000 <= counter.count(line * 1_000) <= one * 1_000 + 20


def test_importing_the_token_engine_loads_no_tokenizer() -> None:
    program = """
import sys, concertino.token_engine
print([name for name in ("tiktoken", "tempfile", "gzip") if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
