"""Counts of fixed texts that the runs of a process share."""

from __future__ import annotations

from concertino.token_engine import EstimatingCounter, TokenEngine

from ...token_engine.kit import Bytes

MODEL = "vendor:model"


class Counted(Bytes):
    """Counts the texts that it has counted."""

    name = "counted"
    texts = 0

    def count(self, text: str) -> int:
        self.texts += 1
        return super().count(text)


def test_a_fixed_text_is_counted_once_and_again_after_64_others() -> None:
    counter = Counted()
    for number in (0, *range(64), 0, 64, 0):
        TokenEngine(counter, 100_000).plan({"system prompt": f"Prompt {number}"}, 0, MODEL)
        if number == 63:
            assert counter.texts == 64
    assert counter.texts == 66


def test_each_counter_has_its_own_counts() -> None:
    sizes = set()
    for counter in (Bytes(), EstimatingCounter()):
        engine = TokenEngine(counter, 100_000)
        engine.plan({"system prompt": "Be brief. " * 30}, 0, MODEL)
        sizes.add(engine.estimated_tokens)
    assert len(sizes) == 2
