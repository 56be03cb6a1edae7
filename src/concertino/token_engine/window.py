"""The context window of the model that is asked: its limit, and the budget that a view may use of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import ContextFloorError
from ..messages import ToolMessage
from .caching.rules import Binding, binding, cache_rule
from .counting.base import TokenCounter
from .counting.calibration import Gauge
from .counting.sizes import KINDS
from .counting.statistics import FixedParts, TokenStatistics
from .view import View, unmeasured_view

_NOTE = 32
"""Tokens for the note that a message was cut."""
_LARGEST_MESSAGE = 0.75
"""Share of the budget that one message of the user may fill."""


class WindowBudget:
    """The limits of the model that is asked, and the budget of a view in counted tokens.

    *limit* is the model's context in tokens; *soft_limit* is the number of tokens that a request should have at most,
    if that is less.
    """

    __slots__ = (
        "_counter",
        "_soft_limit",
        "_statistics",
        "binding",
        "budget",
        "fixed",
        "gauge",
        "hard_budget",
        "limit",
        "model",
        "reserve",
        "rule",
    )

    def __init__(self, counter: TokenCounter, limit: int, soft_limit: int | None, statistics: TokenStatistics) -> None:
        self._counter = counter
        self._soft_limit = soft_limit
        self._statistics = statistics
        self.limit = limit
        self.fixed = FixedParts(counter, statistics)
        """System prompt and tools."""
        self.reserve = 0
        """Tokens reserved for the answer."""
        self.model = ""
        """Model that is asked (`provider:name`)."""
        self.rule = cache_rule("", "")
        self.binding: Binding = "free"
        self.gauge = self._gauge("")
        self.budget = self.hard_budget = limit
        """Counted tokens that a view should have at most, and that it must not exceed."""

    def select(self, model: str) -> None:
        """Use the rules and the calibration of *model* from now on."""
        if model != self.model:
            self.model = model
            provider, _, name = model.partition(":")
            self.rule, self.binding = cache_rule(provider, name), binding(provider, name)
            self.gauge = self._gauge(model)

    def update(self, by_kind: Sequence[int]) -> None:
        """Compute the budgets, where the view has the counted tokens *by_kind*."""
        gauge, fixed, soft_limit = self.gauge, self.fixed.tokens, self._soft_limit
        most = self.limit - self.reserve
        self.budget = self.hard_budget = gauge.budget(by_kind, fixed, most)
        if soft_limit is not None and soft_limit < most:
            soft = gauge.budget(by_kind, fixed, max(soft_limit, fixed + soft_limit // 2))
            self.budget = min(self.hard_budget, soft)

    def floor_error(self, view: View, reserve: int) -> ContextFloorError:
        """Return the error for a *view* that no edit can make fit; it names what fills the window."""
        sizes = {**self.fixed.sizes(), "reserve for the answer": reserve}
        for position, message in enumerate(view.shown):
            name = f"result of {message.name}" if isinstance(message, ToolMessage) else f"{message.role} message"
            sizes[name] = sizes.get(name, 0) + view.before(position + 1) - view.before(position)
        largest = sorted(sizes.items(), key=lambda part: -part[1])
        shares = ", ".join(f"{name} {size:,}" for name, size in largest)
        return ContextFloorError(
            f"the smallest possible request exceeds the context of {self.limit:,} tokens: {shares}. "
            f"Shorten the {largest[0][0]}, or use a model with a larger context"
        )

    def truncate(self, text: str, fixed: Mapping[str, str], reserve: int, model: str) -> str:
        """Return the beginning of *text* that a user's message to *model* may have; the same object if all of it fits.

        Raises `ContextFloorError` if *fixed* and *reserve* leave no tokens.
        """
        left = self.limit - reserve - _NOTE
        if len(text) * 4 + sum(map(len, fixed.values())) * 4 <= _LARGEST_MESSAGE * left:
            return text  # a token is at least a byte, and a character at most four bytes
        self.fixed.update(fixed)
        left = int(_LARGEST_MESSAGE * self._gauge(model).budget([0] * KINDS, self.fixed.tokens, left)) - _NOTE
        if left <= 0:
            raise self.floor_error(unmeasured_view(), reserve)
        return text if self._counter.count(text) <= left else self._counter.cut(text, left)

    def _gauge(self, model: str) -> Gauge:
        return Gauge(self._statistics.calibration(model, self._counter), exact=self._counter.exact)
