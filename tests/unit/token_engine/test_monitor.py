"""The cache monitor: the figures of the untrimmed conversation, and the misses that are worth a report."""

from __future__ import annotations

import pytest

from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.token_engine import EstimatingCounter, TokenEngine
from concertino.usage import Tokens


def after(model: str, *figures: tuple[int, int]) -> TokenEngine:
    """Return an engine whose requests had *figures*: tokens of the prompt, and those read from the cache."""
    engine = TokenEngine(EstimatingCounter(), 100_000, clock=lambda: 1.0)
    fixed = {"system prompt": "s", "tools": ""}
    for prompt, cached in figures:
        engine.append(UserMessage("hello " * 20))
        engine.plan(fixed, 1_000, model)
        engine.fit()
        engine.view()
        engine.observe(Tokens(prompt=prompt, completion=3, cached=cached))
        engine.append(AssistantMessage((Text("yes"),)))
    return engine


@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-5-5", "openai:gpt-5", "nobody:knows"])
def test_without_an_edit_the_untrimmed_figures_are_those_of_the_requests(model: str) -> None:
    report = after(model, (100, 0), (5_000, 0), (5_100, 4_992), (9_000, 0)).report
    assert (report.untrimmed_prompt, report.untrimmed_cached) == (report.prompt, report.cached)


@pytest.mark.parametrize(
    ("figures", "misses"),
    [
        (((4_000, 0), (4_100, 0)), 0),  # some providers cache no prefix as short as this
        (((5_000, 0), (5_100, 0)), 1),
        (((5_000, 0), (5_100, 4_864)), 0),  # the last part of a prefix
        (((5_000, 0), (5_100, 4_500)), 1),
        (((50_000, 0), (50_100, 49_100)), 0),
        (((50_000, 0), (50_100, 48_900)), 1),
    ],
)
def test_a_miss_is_reported_where_every_provider_caches(figures: tuple[tuple[int, int], ...], misses: int) -> None:
    assert after("openai:gpt-5", *figures).report.misses == misses
