"""Facts about known models, families and unknown models."""

from __future__ import annotations

import pytest

from concertino.cache_rules import cache_rule
from concertino.providers import catalog
from concertino.providers.catalog import DEFAULT_CONTEXT, context_window, max_output_tokens


@pytest.mark.parametrize(
    ("provider", "model", "context", "output"),
    [
        ("anthropic", "claude-haiku-4-5-20251001", 200_000, 64_000),
        ("anthropic", "claude-opus-4-1-20250805", 200_000, 32_000),
        ("anthropic", "claude-opus-4-20250514", 200_000, 32_000),
        ("anthropic", "claude-sonnet-4-20250514", 200_000, 64_000),
        ("anthropic", "claude-opus-4-7", 1_000_000, 128_000),
        ("anthropic", "claude-sonnet-5-5", 1_000_000, 128_000),
        ("anthropic", "claude-3-haiku-20240307", 200_000, 4_096),
        ("anthropic", "claude-3-5-sonnet-20241022", 200_000, 8_192),
        ("bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 64_000),
        ("anthropic", "someone-new", DEFAULT_CONTEXT, 32_000),
        ("openai", "gpt-4o", 128_000, 16_384),
        ("openai", "gpt-4o-mini-realtime-preview", 16_000, 16_384),
        ("openai", "gpt-realtime", 32_000, 16_384),
        ("openai", "gpt-4", 8_192, 4_096),
        ("openai", "gpt-4-32k", 32_000, 16_384),
        ("openai", "gpt-3.5-turbo", 16_385, 4_096),
        ("openai", "gpt-5.3-chat-latest", 128_000, 16_384),
        ("openai", "gpt-5.3-codex", 400_000, 128_000),
        ("openai", "o1-mini", 128_000, 16_384),
        ("google", "gemini-2.5-pro-tts", 8_192, 65_536),
        ("openai", "gpt-5", 400_000, 128_000),
        ("openai", "o4-mini", 200_000, 100_000),
        ("google", "gemini-2.5-pro", 1_000_000, 65_536),
        ("google", "gemini-99-flash", 1_000_000, 65_536),
        ("ollama", "llama3", DEFAULT_CONTEXT, 16_384),
    ],
)
def test_figures(provider: str, model: str, context: int, output: int) -> None:
    assert max_output_tokens(provider, model) == output
    assert context_window(provider, model) == context


@pytest.mark.parametrize("model", ["gpt-5.6", "gpt-5.9-mini", "gpt-6", "gpt-10", "openai/gpt-6"])
def test_openai_caches_at_breakpoints_since_gpt_5_6(model: str) -> None:
    assert cache_rule("openai", model).breakpoints
    assert not any(cache_rule("openai", older).breakpoints for older in ("gpt-5.5", "gpt-5", "o4"))


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-fable-5", "us.anthropic.claude-sonnet-6"])
def test_models_with_a_reasoning_effort(model: str) -> None:
    assert catalog.reasons_by_effort(model)


@pytest.mark.parametrize("model", ["claude-opus-4-5", "claude-haiku-4-5", "claude-3-7-sonnet", "gpt-6"])
def test_models_without_a_reasoning_effort(model: str) -> None:
    assert not catalog.reasons_by_effort(model)
