"""The estimate of tokens, next to a tokenizer, for many scripts and kinds of text."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest
from benchmarks.context_counts import SHARED, errors
from benchmarks.text_kinds import TEXTS

from concertino.providers.openai import TiktokenCounter
from concertino.token_engine import EstimatingCounter


@pytest.mark.parametrize("name", TEXTS)
def test_the_estimate_is_near_for_every_script_and_kind(name: str) -> None:
    assert 0.9 <= EstimatingCounter().count(TEXTS[name]) / TiktokenCounter().count(TEXTS[name]) <= 1.7


@pytest.mark.parametrize("name", TEXTS)
def test_a_cut_text_is_within_its_limit(name: str) -> None:
    counter, text = EstimatingCounter(), TEXTS[name]
    assert counter.count(counter.cut(text, 50)) <= 50
    assert counter.cut(text, counter.count(text)) == text


def test_the_size_of_a_request_is_near_once_a_provider_has_counted() -> None:
    """Every kind of text in turn, the worst case for factors that are learned."""
    chance, exact = random.Random(2), TiktokenCounter().count
    found: list[float] = []
    for _ in range(5):
        messages: list[dict[str, Any]] = []
        sent = 0
        for number in range(300):
            text = chance.choice(list(TEXTS.values()))[: chance.randint(20, 1_500)]
            said: dict[str, Any] = {"role": "assistant" if number % 2 else "user", "content": text}
            if number % 2:
                said["extra"] = {"response": {"usage": {"prompt_tokens": sent}}}
            messages.append(said)
            sent += exact(text) + 4
        found += errors(messages)
    found.sort()
    assert found[int(0.95 * len(found))] <= 0.01
    assert found[int(0.99 * len(found))] <= 0.02


@pytest.mark.skipif(not SHARED.exists(), reason="the recorded conversations are not part of a clone")
def test_the_size_of_a_recorded_request_is_near() -> None:
    found = sorted(
        error
        for path in SHARED.glob("*.json.gz")
        for error in errors(json.loads(gzip.decompress(path.read_bytes()))["messages"])
    )
    assert len(found) > 200
    assert found[int(0.95 * len(found))] <= 0.01
    assert found[int(0.99 * len(found))] <= 0.02
