"""Cache monitor: compares the cache reads that providers report with the expected ones, and sums up the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ...context_state import ContextReport
from ...records import record
from ...usage import Tokens
from .rules import CacheRule

MissReason = Literal[
    "model_changed", "system_prompt_changed", "tools_changed", "settings_changed", "conversation_replaced", "provider"
]
"""Cause of a cache miss. `provider`: no change on this side explains it."""
_TOLERANCE, _TOLERANCE_EDITED = 0.02, 0.3
"""Share of a prompt that may be missing from the cache; and share of the expected tokens after an edit, when only our
own count tells how large the unchanged prefix is."""


@record
class Miss:
    """A request for which the provider read fewer tokens from its cache than expected."""

    reason: MissReason
    expected: int
    """Tokens."""
    cached: int
    """Tokens."""


CacheKey = tuple[str, Mapping[str, str], object]
"""The parts of a request that decide which cache entries apply: the model, the fixed parts, and the settings."""


class CacheMonitor:
    """Predicts what each request finds in the provider's cache, and compares."""

    __slots__ = ("_key", "_replaced", "_untrimmed", "bill", "cacheable", "omitted", "report", "sent_at")

    def __init__(self) -> None:
        self.report = ContextReport()
        self.sent_at: float | None = None
        """Time of the last request in seconds."""
        self.bill = 0.0
        """Cost of the conversation's requests so far, in tokens of uncached input."""
        self._key: CacheKey | None = None
        self.cacheable = 0
        """Tokens of the last request that can be in the cache now."""
        self.omitted = 0
        """Tokens of the conversation that the view omits."""
        self._untrimmed = 0
        self._replaced = False

    def replaced(self) -> None:
        """Record that another conversation replaced this one."""
        self._replaced = True

    def observe(
        self,
        tokens: Tokens,
        key: CacheKey,
        rule: CacheRule,
        *,
        cold: bool,
        same: int,
        cacheable: int,
        edited: bool = False,
    ) -> Miss | None:
        """Take in the provider's figures for a request; return the miss, if there was one.

        *same*: tokens at the beginning of the request that equal those of the last one. *cacheable*: tokens of the
        request that can be in the cache afterwards. *edited*: the request does not extend the last one.
        """
        prompt, cached, written = tokens.prompt, tokens.cached, tokens.cache_write
        before = self._key
        free = rule.read == rule.write
        miss = None
        if not cold and not free and before is not None:
            expected = _cached(rule, min(self.cacheable, same))
            tolerance = max(_TOLERANCE * prompt, 2 * rule.step, 64, _TOLERANCE_EDITED * expected if edited else 0)
            if expected >= rule.minimum + rule.step and cached < expected - tolerance:
                miss = Miss(self._reason(before, key), expected, cached)
        untrimmed, untrimmed_cached = prompt + self.omitted, 0
        if not cold and not free and before is not None and before[0] == key[0]:
            untrimmed_cached = _cached(rule, min(self._untrimmed, untrimmed))
        self.bill += rule.read * cached + rule.write * (prompt - cached)
        report = self.report
        report.misses += miss is not None
        report.billed.append((prompt, cached, written, untrimmed, untrimmed_cached))
        self._key, self._untrimmed, self._replaced = key, untrimmed, False
        self.cacheable = cacheable
        return miss

    def _reason(self, before: CacheKey, key: CacheKey) -> MissReason:
        if self._replaced:
            return "conversation_replaced"
        if before[0] != key[0]:
            return "model_changed"
        changed = [name for name, text in key[1].items() if before[1].get(name) != text]
        if changed:
            return "system_prompt_changed" if changed[0] == "system prompt" else "tools_changed"
        return "provider" if before[2] == key[2] else "settings_changed"


def _cached(rule: CacheRule, tokens: int) -> int:
    """Return how many of the first *tokens* of a prompt a cache entry covers."""
    tokens -= tokens % rule.step
    return tokens if tokens >= rule.minimum else 0
