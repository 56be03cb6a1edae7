"""What a conversation would have cost untrimmed: with a cache that holds what the provider's would."""

from __future__ import annotations

import pytest

from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.token_engine.counting.base import EstimatingCounter
from concertino.token_engine.engine import TokenEngine
from concertino.usage import Tokens


def untrimmed_cached(model: str, *prompts: int) -> int:
    """Of requests with so many tokens each, of which the provider has read nothing from its cache."""
    engine = TokenEngine(EstimatingCounter(), 100_000, clock=lambda: 1.0)
    fixed = {"system prompt": "s", "tools": ""}
    for prompt in prompts:
        engine.append(UserMessage("hello " * 20))
        engine.plan(fixed, 1_000, model)
        engine.fit()
        engine.view()
        engine.observe(Tokens(prompt=prompt, completion=3))
        engine.append(AssistantMessage((Text("yes"),)))
    assert engine.report.untrimmed_prompt == engine.report.prompt
    return engine.report.untrimmed_cached


@pytest.mark.parametrize(
    ("model", "prompts", "cached"),
    [
        ("anthropic:claude-sonnet-5-5", (100, 140, 180), 0),
        ("anthropic:claude-sonnet-5-5", (1_000, 1_023, 1_024, 1_030), 1_024),
        ("anthropic:claude-sonnet-5-5", (1_100, 1_200, 1_300), 2_300),
        ("openai:gpt-5", (1_000, 1_200, 1_300), 1_152),
        ("openai:gpt-5", (1_500, 1_200), 1_152),
        ("nobody:knows", (1_023, 1_025, 1_030), 1_025),
    ],
)
def test_the_untrimmed_cache_holds_what_a_cache_would(model: str, prompts: tuple[int, ...], cached: int) -> None:
    assert untrimmed_cached(model, *prompts) == cached
