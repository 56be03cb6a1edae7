"""Counts that the runs of a process share."""

from __future__ import annotations

from concertino.token_engine import EstimatingCounter, TokenStatistics

from ...token_engine.kit import COUNTER, Bytes


class Counted(Bytes):
    """Counts the texts that it has counted."""

    texts = 0

    def count(self, text: str) -> int:
        self.texts += 1
        return super().count(text)


def test_each_counter_has_its_own_counts() -> None:
    statistics, texts = TokenStatistics(), {"system prompt": "Be brief. " * 30}
    assert statistics.count(COUNTER, texts) == {"system prompt": 100}
    assert statistics.count(EstimatingCounter(), texts) != {"system prompt": 100}


def test_a_text_is_counted_again_after_64_others() -> None:
    statistics, counter = TokenStatistics(), Counted()
    for number in range(64):
        statistics.count(counter, {"system prompt": f"Prompt {number}"})
    statistics.count(counter, {"system prompt": "Prompt 0"})
    assert counter.texts == 64
    statistics.count(counter, {"system prompt": "Prompt 64"})
    statistics.count(counter, {"system prompt": "Prompt 0"})
    assert counter.texts == 66
