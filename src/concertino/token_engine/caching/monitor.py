"""Watching the provider's cache: what it should have held, what it did, and what all of it came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...context import ContextReport
from ...usage import Tokens
from .rules import CacheRule

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


Sent = tuple[str, Mapping[str, str], object]
"""What of a request decides what the next one finds in the cache: the model; system prompt and tools, by name; and the
settings that make a provider forget."""


class CacheWatch:
    """Predicts what each request finds in the cache, and compares."""

    __slots__ = ("_replaced", "_sent", "_whole", "asked", "at", "cacheable", "left_out", "report")

    def __init__(self) -> None:
        self.report = ContextReport()
        self.at: float | None = None
        """When the last request was sent, in seconds."""
        self.asked: list[tuple[int, int, int, int, int]] = []
        """For each request the tokens that were sent, read from the cache and written to it; and untrimmed, sent and
        read: prices may depend on the size of a request."""
        self._sent: Sent | None = None
        self.cacheable = 0
        """Tokens of the last request that can be in the cache now."""
        self.left_out = 0
        """Tokens of the conversation that are not sent."""
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
        same: int,
        marked: int,
    ) -> Miss | None:
        """The provider's figures for a request. *same*: tokens with which the last request began, too; *marked*: how
        many of its tokens can be in the cache now."""
        miss = self._missed(tokens, sent, rule, same) if not cold else None
        report = self.report
        whole = tokens.prompt + self.left_out
        report.requests += 1
        report.prompt += tokens.prompt
        report.cached += tokens.cached
        report.written += tokens.cache_write
        report.whole_prompt += whole
        kept = not cold and rule.read != rule.write and self._sent is not None and self._sent[0] == sent[0]
        whole_cached = rule.held(min(self._whole, whole)) if kept else 0
        report.whole_cached += whole_cached
        self.asked.append((tokens.prompt, tokens.cached, tokens.cache_write, whole, whole_cached))
        report.misses += miss is not None
        self._sent, self._whole, self._replaced = sent, whole, False
        self.cacheable = marked
        return miss

    def _missed(self, tokens: Tokens, sent: Sent, rule: CacheRule, same: int) -> Miss | None:
        before = self._sent
        if before is None or rule.read == rule.write:
            return None
        expected = rule.held(min(self.cacheable, same))
        tolerated = max(_TOLERANCE * tokens.prompt, 2 * rule.step, 64)
        if expected < rule.minimum + rule.step or tokens.cached >= expected - tolerated:
            return None
        return Miss(self._reason(before, sent), expected, tokens.cached)

    def _reason(self, before: Sent, sent: Sent) -> MissReason:
        if self._replaced:
            return "conversation_replaced"
        if before[0] != sent[0]:
            return "model_changed"
        changed = [name for name, text in sent[1].items() if before[1].get(name) != text]
        if changed:
            return "system_prompt_changed" if changed[0] == "system prompt" else "tools_changed"
        return "provider" if before[2] == sent[2] else "settings_changed"
