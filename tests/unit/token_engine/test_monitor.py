"""The cache monitor: the cost of the untrimmed conversation with an ideal cache."""

from __future__ import annotations

import pytest

from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.token_engine import EstimatingCounter, TokenEngine
from concertino.usage import Tokens


def untrimmed_cached(model: str, *prompts: int) -> int:
    """Return the untrimmed cache reads of requests with *prompts* tokens, none of them read from the cache."""
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
def test_untrimmed_cache_reads_follow_the_rule_of_the_provider(
    model: str, prompts: tuple[int, ...], cached: int
) -> None:
    assert untrimmed_cached(model, *prompts) == cached
