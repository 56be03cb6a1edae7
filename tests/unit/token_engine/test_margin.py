"""The margin of the budget, over conversations of texts that are hard to count: a tokenizer plays the provider.

No request exceeds the limit, with the provider's tokenizer and with the estimate, also if the kind of text changes with
each message from one that has too high an estimate to one that has too low a one.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from benchmarks.text_kinds import TEXTS
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino.errors import ContextFloorError
from concertino.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from concertino.providers.openai import TiktokenCounter
from concertino.token_engine import (
    EstimatingCounter,
    Retention,
    TokenCounter,
    TokenEngine,
)
from concertino.token_engine.counting.sizes import FRAME, message_text
from concertino.usage import Tokens

LIMIT, RESERVE = 8_000, 1_000
MODEL = "vendor:model"
FIXED = {"system prompt": "Be brief. " * 20}
SUMMARY = "So far: the files are read, and nothing is changed. " * 10
STEPS = 12

billed = cache(TiktokenCounter().count)


class Adversary:
    """A conversation whose texts are drawn by *chance* from *kinds*, sent to a provider that has a tokenizer."""

    def __init__(self, chance: Random, counter: TokenCounter, kinds: list[str]) -> None:
        self.chance, self.counter, self.kinds = chance, counter, kinds
        self.engine = TokenEngine(counter, LIMIT, Retention(summaries=chance.random() < 0.7), lambda: 1.0, MODEL)
        self.calls = self.requests = self.rejected = 0

    def run(self) -> None:
        """Take some steps; a smallest view that is too large ends the conversation."""
        try:
            for number in range(STEPS):
                self.add(number)
                self.request()
        except ContextFloorError:
            pass
        assert self.requests

    def text(self) -> str:
        base = TEXTS[self.chance.choice(self.kinds)] if self.kinds else "".join(self.chance.choices(ANY, k=500))
        size = self.chance.choice((50, 500, 4_000, 40_000))
        return (base * (size // len(base) + 1))[:size]

    def add(self, number: int) -> None:
        """Add a message of the user, or calls and their results, cut as a run cuts them."""
        engine, chance = self.engine, self.chance
        if number == 0 or chance.random() < 0.4:
            engine.append(UserMessage(engine.truncate(self.text(), FIXED, RESERVE, MODEL)))
            return
        self.calls += 1
        ids = [f"c{self.calls}_{each}" for each in range(chance.choice((1, 1, 3)))]
        engine.append(AssistantMessage(tuple(ToolCall(each, "work", "{}") for each in ids)))
        share = engine.allowance(len(ids))
        for each in ids:
            engine.append(ToolMessage(each, "work", self.counter.cut(self.text(), share)))

    def request(self) -> None:
        """Plan and send a request as a run does, until the provider accepts it."""
        engine = self.engine
        while True:
            plan = engine.plan(FIXED, RESERVE, MODEL)
            if plan.job is not None:
                engine.complete(plan.job, SUMMARY)
            engine.fit()
            tokens = billed(FIXED["system prompt"]) + sum(map(size, engine.view()))
            self.requests += 1
            if tokens <= LIMIT - RESERVE:
                engine.observe(Tokens(prompt=tokens))
                return
            self.rejected += 1
            engine.lower_limit()


def size(message: Message) -> int:
    return billed(message_text(message)) + FRAME // 2


ANY = "".join(map(chr, (*range(0x530), *range(0x900, 0x1100), 0x200D, 0x2014, 0x4E00, 0xAC00, 0xD7FF, 0xFFFD, 0x1F600)))


@pytest.mark.parametrize("seed", [*range(4), 52])
def test_no_request_exceeds_the_limit(seed: int) -> None:
    chance = Random(seed)
    for counter, kinds in (
        (TiktokenCounter(), list(TEXTS)),
        (TiktokenCounter(), []),
        (EstimatingCounter(), [chance.choice(list(TEXTS))]),
        (EstimatingCounter(), list(TEXTS)),
    ):
        conversation = Adversary(chance, counter, kinds)
        conversation.run()
        assert conversation.rejected == 0, (counter.name, kinds[:1])


@pytest.mark.parametrize("changed", ["messages", "system prompt", "edited away"])
def test_a_bill_does_not_vouch_for_other_texts(changed: str) -> None:
    """Russian has too high an estimate, letters at random have too low a one: the bill for one says nothing of both."""
    high, low = ((TEXTS[kind] * 100)[:20_000] for kind in ("Russian", "random Korean"))
    engine = TokenEngine(EstimatingCounter(), LIMIT, Retention(summaries=False), lambda: 1.0, MODEL)
    cut = EstimatingCounter().cut
    fixed = {"system prompt": cut(high, 4_000 if changed == "system prompt" else 100)}
    parts = [UserMessage("go")]
    parts += [UserMessage(cut(high, 900)) for _ in range(1 if changed == "system prompt" else 6)]
    for part in parts:
        engine.append(part)
    engine.plan(fixed, RESERVE, MODEL)
    engine.fit()
    engine.observe(Tokens(prompt=sum(map(size, engine.view())) + billed(fixed["system prompt"])))
    if changed == "messages":
        engine.replace(parts[:1])
    elif changed == "system prompt":
        fixed = {"system prompt": "Be brief."}
    while True:
        engine.append(UserMessage(cut(low, 300)))
        engine.plan(fixed, RESERVE, MODEL)
        edits = engine.fit()
        tokens = sum(map(size, engine.view())) + billed(fixed["system prompt"])
        assert tokens <= LIMIT - RESERVE
        if edits:
            return


@pytest.mark.slow
@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.sampled_from([list(TEXTS), []]))
def test_no_request_exceeds_the_limit_with_the_tokenizer(chance: Random, kinds: list[str]) -> None:
    conversation = Adversary(chance, TiktokenCounter(), kinds)
    conversation.run()
    assert conversation.rejected == 0


@pytest.mark.slow
@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.sampled_from(list(TEXTS)))
def test_no_request_of_one_kind_exceeds_the_limit(chance: Random, kind: str) -> None:
    conversation = Adversary(chance, EstimatingCounter(), [kind])
    conversation.run()
    assert conversation.rejected == 0


@pytest.mark.slow
@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_no_request_of_changing_kinds_exceeds_the_limit(chance: Random) -> None:
    conversation = Adversary(chance, EstimatingCounter(), list(TEXTS))
    conversation.run()
    assert conversation.rejected == 0


@pytest.mark.slow
def test_no_request_of_many_conversations_exceeds_the_limit() -> None:
    for seed in range(300):
        conversation = Adversary(Random(seed), EstimatingCounter(), list(TEXTS))
        conversation.run()
        assert conversation.rejected == 0, seed
