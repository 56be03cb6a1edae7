"""How providers cache a prompt, what that costs, and how an answer is bound to what stood before it: plain data.

Prices are shares of the model's price of uncached input, so that one table serves all sizes of a family. Nothing here
decides a bill: a wrong figure only makes an edit come too early or too late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ...ids import SINCE_GPT_5_6, in_family

Binding = Literal["free", "turn", "prefix"]
"""What an edit of earlier messages must leave alone. `free`: nothing. `turn`: the model's messages of the live tool
loop. `prefix`: all that stands before reasoning that is still sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRule:
    """A provider's prompt cache."""

    read: float
    """The price of a token that is read from the cache."""
    write: float
    """The price of a token that is written to it, or is not cached."""
    output: float = 5.0
    """The price of a token of output."""
    seconds: float = 300.0
    """How long an entry lives after it was last used."""
    marks: bool = False
    """Whether entries end only where the request has a mark, or at any place."""
    most_marks: int = 0
    """Marks that a request may have, that of system and tools included."""
    reach: int = 0
    """How many blocks before a mark an entry is looked for; 0: all."""
    minimum: int = 1_024
    """The shortest prefix that is cached, in tokens."""
    step: int = 1
    """Entries end at a multiple of so many tokens."""
    source: str = ""

    def held(self, tokens: int) -> int:
        """How many of the first *tokens* of a prompt an entry holds."""
        tokens -= tokens % self.step
        return tokens if tokens >= self.minimum else 0


_ANTHROPIC = "platform.claude.com/docs, Prompt caching, 2026-11"
_OPENAI = "developers.openai.com/api/docs/guides/prompt-caching, 2026-11"
_GOOGLE = "ai.google.dev/gemini-api/docs/caching and /pricing, 2026-11"
_DEEPSEEK = "api-docs.deepseek.com, Context caching and pricing, 2026-11"


def _claude(minimum: int) -> CacheRule:
    return CacheRule(
        read=0.1, write=1.25, marks=True, most_marks=4, reach=20, minimum=minimum, output=5.0, source=_ANTHROPIC
    )


def _gpt(read: float, output: float) -> CacheRule:
    return CacheRule(read=read, write=1.0, seconds=600.0, step=128, output=output, source=_OPENAI)


_FREE = CacheRule(read=0.0, write=0.0, output=0.0, source="asks nobody")
_UNKNOWN = CacheRule(read=0.25, write=1.0, output=4.0, source="unknown: cautious figures")

_RULES: tuple[tuple[str, str, CacheRule], ...] = (
    ("extractive", r"", _FREE),
    ("anthropic", r"claude-(opus-5|fable)", _claude(512)),
    ("anthropic", r"claude-(opus-4-[56]|haiku-4-5)", _claude(4_096)),
    ("anthropic", r"claude-(3-5-haiku|3-haiku|haiku)", _claude(2_048)),
    ("anthropic", r"", _claude(1_024)),
    (
        "openai",
        SINCE_GPT_5_6,
        CacheRule(
            read=0.1, write=1.25, seconds=1_800.0, marks=True, most_marks=4, minimum=1_024, output=8.0, source=_OPENAI
        ),
    ),
    ("openai", r"gpt-5", _gpt(0.1, 8.0)),
    ("openai", r"(gpt-4\.1|o3|o4)", _gpt(0.25, 4.0)),
    ("openai", r"", _gpt(0.5, 4.0)),
    ("google", r"gemini-2\.0", CacheRule(read=0.25, write=1.0, minimum=4_096, output=4.0, source=_GOOGLE)),
    ("google", r"gemini-2\.5-flash", CacheRule(read=0.1, write=1.0, minimum=1_024, output=8.0, source=_GOOGLE)),
    ("google", r"", CacheRule(read=0.1, write=1.0, minimum=4_096, output=8.0, source=_GOOGLE)),
    ("openrouter", r"claude", _claude(1_024)),
    (
        "deepseek",
        r"",
        CacheRule(read=0.1, write=1.0, seconds=3_600.0, step=64, minimum=64, output=2.0, source=_DEEPSEEK),
    ),
)

_PRESERVED = (
    r"claude-((fable|mythos)-5[-.][1-9]\d?|(opus|sonnet|haiku)-5[-.]([5-9]|[1-9]\d)|[a-z]+-([6-9]|[1-9]\d))(?!\d)"
)
"""Claude's preserved thinking: the prefix of a thinking block that is sent must be unchanged ("Extended thinking",
preserved thinking; enforced since 2026-08-31). It has come with Fable and Mythos 5.1, and with 5.5 of the others; more
than two digits are a date."""


@lru_cache(maxsize=256)
def cache_rule(provider: str, model: str) -> CacheRule:
    """How *provider* caches prompts of *model*; cautious figures for one that nothing is known of."""
    for name, pattern, rule in _RULES:
        if name == provider and in_family(pattern, model):
            return rule
    return _UNKNOWN


@lru_cache(maxsize=256)
def binding(provider: str, model: str) -> Binding:
    """What an edit must leave alone while the conversation has reasoning of *model* in it."""
    if provider != "anthropic":
        return "free"
    return "prefix" if in_family(_PRESERVED, model) else "turn"
