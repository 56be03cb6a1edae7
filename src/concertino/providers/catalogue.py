"""How much fits into a model, and how much it may say: plain data, and genai-prices' bundled list where it knows more.

Nothing here decides a bill. A figure that is too small only makes a conversation trimmed earlier; one that is too
large is found out by the provider's refusal, so unknown models get small figures.
"""

from __future__ import annotations

import re

DEFAULT_CONTEXT = 128_000
DEFAULT_OUTPUT = {"anthropic": 32_000, "google": 65_536}
"""By provider; for all others 16,384."""

# Model pages of the makers as of November 2026: platform.claude.com/docs (models overview),
# developers.openai.com (models), ai.google.dev/gemini-api/docs/models. The first pattern that matches counts.
_CONTEXT: tuple[tuple[str, int], ...] = (
    (r"claude-(fable|mythos|[a-z]+-5|(opus|sonnet)-4-[6-9])", 1_000_000),
    (r"claude", 200_000),
    (r"gpt-(5\.[4-9]|[6-9])(?!.*-(mini|nano))", 1_000_000),
    (r"gpt-5", 400_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4(-\d{4})?$", 8_192),
    (r"o[1-9]", 200_000),
    (r"gemini-.*-(tts|image|live)", 32_768),
    (r"gemini", 1_000_000),
)

_OUTPUT: tuple[tuple[str, int], ...] = (
    (r"claude-3-5", 8_192),
    (r"claude-(2|3-(haiku|opus|sonnet)|v1|instant)", 4_096),
    (r"claude-(4-opus|opus-4(-0|-1)?(-2025\d{4})?(@|$))", 32_000),
    (r"claude-(3-7|4-sonnet|sonnet-4|haiku-4|opus-4-5)", 64_000),
    (r"claude-(fable|mythos|[a-z]+-[5-9]|opus-4-[6-9])", 128_000),
    (r"claude", 32_000),
    (r"gpt-[5-9](?!.*-chat)", 128_000),
    (r"gpt-4\.1", 32_768),
    (r"gpt-4(-turbo|-\d{4})?$|gpt-3", 4_096),
    (r"o[1-9](?!-mini)|o[34]", 100_000),
    (r"gemini-(1|2\.0)", 8_192),
    (r"gemini", 65_536),
)


def context_window(provider: str, model: str) -> int:
    """The tokens that *model* takes in one request, its answer included; a cautious guess for an unknown one.

    The first call imports genai-prices, which takes a quarter of a second.
    """
    # Not `genai_prices` itself at the top: the list is a megabyte of objects that few programs need.
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    try:
        known = get_snapshot().find_provider_model(model, None, provider, None)[1].context_window
    except LookupError:
        known = None
    return known or _first(_CONTEXT, model, DEFAULT_CONTEXT)


def max_output_tokens(provider: str, model: str) -> int:
    """The most tokens that an answer of *model* may have; a cautious guess for an unknown one."""
    return _first(_OUTPUT, model, DEFAULT_OUTPUT.get(provider, 16_384))


def _first(table: tuple[tuple[str, int], ...], model: str, default: int) -> int:
    """The figure of the first pattern that a word of *model* begins with: names may have a maker's before them."""
    for pattern, figure in table:
        if re.search(rf"(^|[/.:])({pattern})", model):
            return figure
    return default
