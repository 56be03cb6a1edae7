"""The context window of the model that is asked: its limit, and the budget that a view may use of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..errors import ContextFloorError
from ..messages import ToolMessage
from .caching.rules import Binding, binding, cache_rule
from .counting.base import TokenCounter
from .counting.calibration import LEAST_FACTOR, MOST_FACTOR, Calibration, TokenStatistics
from .counting.sizes import DATA, FOREIGN, KINDS, PROSE
from .retention import Retention
from .view import View, unmeasured_view

_NOTE = 32
"""Tokens for the note that a message was cut."""
_LARGEST_MESSAGE = 0.75
"""Share of the budget that one message of the user may fill."""
_MARGIN, _MARGIN_EXACT = 0.15, 0.02
"""Safety margin for an estimate, and for a count with the model's own tokenizer, which omits what the provider adds."""
_AFTER_REJECTION = 0.75
"""Share of a rejected request's tokens that the next attempt may have."""


class WindowBudget:
    """The limits of the model that is asked, and the budget of a view in counted tokens.

    *limit* is the model's context in tokens.
    """

    __slots__ = (
        "_counter",
        "_retention",
        "_statistics",
        "binding",
        "budget",
        "fixed",
        "floor",
        "gauge",
        "hard_budget",
        "limit",
        "model",
        "reserve",
        "rule",
    )

    def __init__(self, counter: TokenCounter, limit: int, retention: Retention, statistics: TokenStatistics) -> None:
        self._counter = counter
        self._retention = retention
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
        self.gauge: Gauge
        """Size of the requests to the model, once one is selected."""
        self.budget = self.hard_budget = limit
        """Counted tokens that a view should have at most, and that it must not exceed."""
        self.floor = 0
        """Counted tokens of a view below which nothing is summarized."""

    def select(self, model: str) -> None:
        """Use the rules and the calibration of *model* from now on."""
        if model != self.model:
            self.model = model
            provider, _, name = model.partition(":")
            self.rule, self.binding = cache_rule(provider, name), binding(provider, name)
            self.gauge = self._gauge(model)

    def prepare(self, model: str, fixed: Mapping[str, str], limit: int, reserve: int) -> None:
        """Take in the parts of the next request."""
        self.select(model)
        self.fixed.update(fixed)
        self.limit, self.reserve = limit, reserve

    def update(self, by_kind: Sequence[int]) -> None:
        """Compute the budgets, where the view has the counted tokens *by_kind*."""
        gauge, fixed, retention = self.gauge, self.fixed.tokens, self._retention
        most, soft_limit = self.limit - self.reserve, retention.soft_limit
        self.budget = self.hard_budget = gauge.budget(by_kind, fixed, most)
        if soft_limit is not None and soft_limit < most:
            soft = gauge.budget(by_kind, fixed, max(soft_limit, fixed + soft_limit // 2))
            self.budget = min(self.hard_budget, soft)
        self.floor = size_in(self.budget, retention.floor)

    def floor_error(self, view: View, reserve: int) -> ContextFloorError:
        """Return the error for a *view* that no edit can make fit; it names what fills the window."""
        sizes = {**self.fixed.sizes, "reserve for the answer": reserve}
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


class Gauge:
    """A request's size: the provider's figure for the last request plus an estimate of the change since.

    Sizes are counted tokens by kind. The fixed parts of a request are included in the provider's figure.
    """

    __slots__ = ("_at", "_calibration", "_exact", "_fixed", "_margin", "_measured", "_rejected")

    def __init__(self, calibration: Calibration, *, exact: bool) -> None:
        self._calibration = calibration
        self._exact = exact
        self._margin = _MARGIN_EXACT if exact else _MARGIN
        self._measured: float | None = None
        self._rejected = math.inf
        self._at: list[int] = [0] * KINDS
        self._fixed = 0

    def read(self, by_kind: Sequence[int], fixed: int) -> tuple[float, int]:
        """Return the tokens of a request with *fixed* counted tokens of fixed parts, and how many are estimated."""
        if self._measured is None:
            return self._calibration.estimate(by_kind) + fixed, sum(by_kind)
        then = self._at
        changed = (by_kind[PROSE] - then[PROSE], by_kind[DATA] - then[DATA], by_kind[FOREIGN] - then[FOREIGN])
        tokens = self._measured + self._calibration.estimate(changed) + fixed - self._fixed
        return tokens, abs(changed[PROSE]) + abs(changed[DATA]) + abs(changed[FOREIGN])

    def budget(self, by_kind: Sequence[int], fixed: int, most: float) -> int:
        """Return how many counted tokens a view may have in a request of *most* billed tokens.

        *by_kind* is the current view. Growth is estimated with a safety margin. A reduction removes estimated tokens
        first, together with their margin, and measured tokens after them.
        """
        total, margin = sum(by_kind), self._margin
        most = min(most, self._rejected)
        used, estimated = self.read(by_kind, fixed)
        factor = self._calibration.estimate(by_kind) / total if total else max(self._calibration.factors)
        left = most - used - margin * estimated
        doubtful = max(total - sum(self._at), 0) * (factor + margin)
        if left >= -doubtful:
            budget = int(total + left / (factor + margin))
        else:
            budget = int(total + (left + doubtful) / (factor - margin) - doubtful / (factor + margin))
        return min(budget, int(most - fixed)) if self._exact else budget

    def rejected(self, by_kind: Sequence[int], fixed: int) -> None:
        """Record that the provider rejected a request of these sizes as too long.

        Either its window is smaller than configured or its tokens are more than estimated; both lower the budget.
        """
        self._rejected = _AFTER_REJECTION * self.read(by_kind, fixed)[0]

    def observe(self, by_kind: Sequence[int], fixed: int, measured: int, *, grown: bool) -> None:
        """Record that the provider billed *measured* tokens for a request of these sizes.

        *grown*: the request extends the last one unchanged, so the difference calibrates the factors.
        """
        ours = self._calibration.estimate(by_kind) + fixed
        if not LEAST_FACTOR * ours <= measured <= MOST_FACTOR * ours:
            return  # the figure covers something else
        if grown and self._measured is not None and fixed == self._fixed:
            new = [now - then for now, then in zip(by_kind, self._at, strict=True)]
            self._calibration.learn(new, measured - self._measured)
        self._measured, self._at, self._fixed = measured, list(by_kind), fixed


class FixedParts:
    """The parts sent with every request, such as system prompt and tools, by name."""

    __slots__ = ("_counter", "_statistics", "sizes", "texts", "tokens")

    def __init__(self, counter: TokenCounter, statistics: TokenStatistics) -> None:
        self._counter = counter
        self._statistics = statistics
        self.texts: Mapping[str, str] = {}
        self.sizes: dict[str, int] = {}
        """Tokens of each part."""
        self.tokens = 0

    def update(self, texts: Mapping[str, str]) -> None:
        """Replace the parts by *texts*; an identical mapping object is assumed to be unchanged."""
        if texts is not self.texts:
            self.texts, self.sizes = texts, self._statistics.count(self._counter, texts)
            self.tokens = sum(self.sizes.values())


def size_in(budget: int, size: float) -> int:
    """Return *size* in tokens: a share of *budget* if it is less than 1."""
    return int(size * budget if size < 1 else size)
