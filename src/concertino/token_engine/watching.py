"""Watching the provider's cache: what it should have held, what it did, and what all of it came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..context import ContextReport
from ..usage import Tokens
from .profiles import CacheRule

MissReason = Literal[
    "model_changed", "system_prompt_changed", "tools_changed", "settings_changed", "conversation_replaced", "provider"
]
"""Why the cache held less than it should have. `provider`: nothing of ours explains it."""
_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Miss:
    """The provider read less from its cache than it should have."""

    reason: MissReason
    expected: int
    """Tokens."""
    cached: int
    """Tokens."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What of a request decides what the next one finds in the cache."""

    model: str
    system: str
    tools: str
    settings: object
    """Whatever else, if it changes, makes the provider forget."""


class CacheWatch:
    """Predicts what each request finds in the cache, and compares."""

    __slots__ = ("_cacheable", "_replaced", "_sent", "_whole", "at", "report")

    def __init__(self) -> None:
        self.report = ContextReport()
        self.at: float | None = None
        """When the last request was sent, in seconds."""
        self._sent: Sent | None = None
        self._cacheable = 0
        self._whole = 0
        self._replaced = False

    def cold(self, now: float, rule: CacheRule) -> bool:
        """Whether nothing of the last request can be in the cache at *now*."""
        return self.at is None or now - self.at > rule.seconds

    def replaced(self) -> None:
        """The conversation was replaced by another one."""
        self._replaced = True

    def observe(
        self,
        tokens: Tokens,
        sent: Sent,
        rule: CacheRule,
        *,
        cold: bool,
        same: float,
        marked: int,
        left_out: int,
    ) -> Miss | None:
        """The provider's figures for a request. *same*: tokens with which the last request began, too; *marked*: how
        many of its tokens can be in the cache now; *left_out*: how many of the conversation were not sent."""
        miss = self._missed(tokens, sent, rule, same) if not cold else None
        report = self.report
        whole = tokens.prompt + left_out
        report.requests += 1
        report.prompt += tokens.prompt
        report.cached += tokens.cached
        report.written += tokens.cache_write
        report.whole_prompt += whole
        report.whole_cached += 0 if cold or rule.read == rule.write else min(self._whole, whole)
        report.misses += miss is not None
        self._sent, self._whole, self._replaced = sent, whole, False
        self._cacheable = marked
        return miss

    def _missed(self, tokens: Tokens, sent: Sent, rule: CacheRule, same: float) -> Miss | None:
        before = self._sent
        if before is None or rule.read == rule.write:
            return None
        expected = int(min(self._cacheable, same)) // rule.step * rule.step
        tolerated = max(_TOLERANCE * tokens.prompt, 2 * rule.step, 64)
        if expected < rule.minimum + rule.step or tokens.cached >= expected - tolerated:
            return None
        return Miss(self._reason(before, sent), expected, tokens.cached)

    def _reason(self, before: Sent, sent: Sent) -> MissReason:
        if self._replaced:
            return "conversation_replaced"
        if before.model != sent.model:
            return "model_changed"
        if before.system != sent.system:
            return "system_prompt_changed"
        if before.tools != sent.tools:
            return "tools_changed"
        return "provider" if before.settings == sent.settings else "settings_changed"
