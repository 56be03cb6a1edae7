"""Provider rules as data: how prompts are cached, at what price, and which edits reasoning permits.

Prices are shares of the model's price of uncached input, so one table serves all sizes of a family. No bill depends on
them: a wrong figure only makes an edit too early or too late.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from .ids import SINCE_GPT_5_6, in_family
from .records import record

Binding = Literal["free", "turn", "prefix"]
"""The messages that an edit must not change. `free`: none. `turn`: the model's messages of the current tool loop.
`prefix`: every message before reasoning that is still sent."""


@record(kw_only=True)
class CacheRule:
    """A provider's prompt cache, with the prices of a token."""

    read: float
    write: float
    """Of a token written to the cache, or not cached."""
    output: float = 5.0
    seconds: float = 300.0
    """Lifetime of a cache entry after its last use."""
    breakpoints: bool = False
    """True if entries end only at a cache breakpoint in the request; False if they end anywhere."""


_UNKNOWN = CacheRule(read=0.25, write=1.0, output=4.0)  # cautious figures
_CLAUDE = CacheRule(read=0.1, write=1.25, breakpoints=True)

# As of November 2026: platform.claude.com/docs (Prompt caching), developers.openai.com/api/docs/guides/prompt-caching,
# ai.google.dev/gemini-api/docs/caching and /pricing, api-docs.deepseek.com (Context caching and pricing).
_RULES: tuple[tuple[str, str, CacheRule], ...] = (
    ("demo", r"", CacheRule(read=0.0, write=0.0, output=0.0)),
    ("anthropic", r"", _CLAUDE),
    ("openai", SINCE_GPT_5_6, CacheRule(read=0.1, write=1.25, output=8.0, seconds=1_800.0, breakpoints=True)),
    ("openai", r"gpt-5", CacheRule(read=0.1, write=1.0, output=8.0, seconds=600.0)),
    ("openai", r"(gpt-4\.1|o3|o4)", CacheRule(read=0.25, write=1.0, output=4.0, seconds=600.0)),
    ("openai", r"", CacheRule(read=0.5, write=1.0, output=4.0, seconds=600.0)),
    ("google", r"gemini-2\.0", CacheRule(read=0.25, write=1.0, output=4.0)),
    ("google", r"", CacheRule(read=0.1, write=1.0, output=8.0)),
    ("openrouter", r"claude", _CLAUDE),
    ("deepseek", r"", CacheRule(read=0.1, write=1.0, output=2.0, seconds=3_600.0)),
)

_PRESERVED = (
    r"claude-((fable|mythos)-5[-.][1-9]\d?|(opus|sonnet|haiku)-5[-.]([5-9]|[1-9]\d)|[a-z]+-([6-9]|[1-9]\d))(?!\d)"
)
"""Claude models with preserved thinking: the prefix of each thinking block that is sent must be unchanged ("Extended
thinking", preserved thinking; enforced since 2026-08-31). They start at Fable and Mythos 5.1 and at 5.5 of the other
families. A version number of more than two digits is a date."""


@lru_cache(maxsize=256)
def cache_rule(provider: str, model: str) -> CacheRule:
    """Return the cache rule of *provider* for *model*; cautious figures if both are unknown."""
    return next((rule for name, each, rule in _RULES if name == provider and in_family(each, model)), _UNKNOWN)


@lru_cache(maxsize=256)
def binding(provider: str, model: str) -> Binding:
    """Return the binding of *model*'s reasoning to the messages before it."""
    if provider != "anthropic":
        return "free"
    return "prefix" if in_family(_PRESERVED, model) else "turn"
