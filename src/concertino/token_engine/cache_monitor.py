"""The prompt cache of one conversation: breakpoints, the cache reads to expect, and misses.

Some providers cache only prefixes that end at a breakpoint, and look for an entry a limited number of blocks before
each one. So there is one at the end; one at the end of the last request, which may be further back; and one before the
last summary, since the next one leaves that prefix unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..cache_rules import CacheRule
from ..context_state import ContextReport
from ..messages import Message
from ..records import record
from ..usage import Tokens
from .edits import Edit, Reduce
from .view import View

_SHORTEST, _TOLERANCE, _STEP = 4_096, 0.02, 256
"""Tokens that every provider caches, and the share of a prompt, or tokens, that may be missing from the cache."""


@record
class Miss:
    """A request for which the provider read fewer tokens (*cached*) from its cache than *expected*."""

    reason: str
    """The cause, as the event `CacheMiss` names it."""
    expected: int
    cached: int


CacheKey = tuple[str, Mapping[str, str], object]
"""The parts of a request that decide which cache entries apply: the model, the fixed parts, and the settings."""


class CacheMonitor:
    """Sets breakpoints, predicts what each request finds in the provider's cache, and compares."""

    def __init__(self) -> None:
        self.report = ContextReport()
        self.sent_at: float | None = None  # time of the last request in seconds
        self.omitted = 0  # tokens of the conversation that the view omits, as the provider would bill them
        self._key: CacheKey | None = None
        self._marked = -1  # index of the last message with a breakpoint; -1: none
        self._cacheable = 0  # tokens of the last request that the next one should find in the cache
        self._untrimmed = 0
        self._replaced = False

    def replaced(self) -> None:
        """Record that another conversation replaced this one."""
        self._replaced, self._marked = True, -1

    def edited(self, edit: Edit) -> None:
        """Take in *edit*: after one within the cached prefix, nothing is expected of the next request."""
        if not isinstance(edit, Reduce) or not 0 <= self._marked < edit.indexes[0]:
            self._marked, self._cacheable = -1, 0

    def mark(self, view: View, end: int | None) -> tuple[int, ...]:
        """Return the breakpoints of a request, before index *end*."""
        shown = view.shown
        newest = last = _eligible(shown, (len(shown) if end is None else view.position(end)) - 1)
        if newest < 0:
            return ()
        while last > 0 and shown[last].role != "assistant":
            last -= 1
        marks = {newest, _eligible(shown, last - 1)}  # the last request ended before the newest answer
        if view.summary >= 0:
            marks.add(_eligible(shown, min(view.position(view.summary) - 1, newest)))
        self._marked = view.indexes[newest]
        return tuple(sorted(marks - {-1}))

    def observe(self, tokens: Tokens, key: CacheKey, rule: CacheRule, *, cold: bool, share: float) -> Miss | None:
        """Take in the provider's figures for a request; return the miss, if there was one.

        *cold*: nothing can be in the cache before it. *share*: what can be afterwards.
        """
        prompt, cached = tokens.prompt, tokens.cached
        before, miss, untrimmed, untrimmed_cached = self._key, None, prompt + self.omitted, 0
        if before is not None and not cold and rule.read != rule.write:
            if self._cacheable - cached > max(_TOLERANCE * prompt, _STEP) and self._cacheable >= _SHORTEST + _STEP:
                miss = Miss(self._reason(before, key), self._cacheable, cached)
            if before[0] == key[0]:
                untrimmed_cached = min(self._untrimmed, untrimmed) if self.omitted else cached
        self.report.misses += miss is not None
        self.report.billed.append((prompt, cached, tokens.cache_write, untrimmed, untrimmed_cached))
        self._key, self._untrimmed, self._replaced = key, untrimmed, False
        self._cacheable = int(share * prompt)
        return miss

    def _reason(self, before: CacheKey, key: CacheKey) -> str:
        if self._replaced or before[0] != key[0]:
            return "conversation_replaced" if self._replaced else "model_changed"
        changed = next((name for name, text in key[1].items() if before[1].get(name) != text), "")
        if changed:
            return "system_prompt_changed" if changed == "system prompt" else "tools_changed"
        return "provider" if before[2] == key[2] else "settings_changed"


def _eligible(shown: Sequence[Message], position: int) -> int:
    """Return the last position up to *position* that may carry a breakpoint; -1: none.

    Such a message ends in a block that is neither empty nor reasoning.
    """
    while position >= 0:
        message = shown[position]
        if message.role != "assistant" or (message.parts and message.parts[-1].kind in ("text", "tool_call")):
            break
        position -= 1
    return position
