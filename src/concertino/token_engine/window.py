"""The context window of the model that is asked: its limit, and the budget that a view may use of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..errors import ContextFloorError
from ..messages import ToolMessage
from .caching.rules import binding, cache_rule
from .counting.base import TokenCounter
from .counting.calibration import TokenStatistics
from .retention import Retention
from .view import View, unmeasured_view

_NOTE = 32
"""Tokens for the note that a message was cut."""
_LARGEST_MESSAGE = 0.75
"""Share of the budget that one message of the user may fill."""
_MARGIN, _MARGIN_EXACT = 0.15, 0.02
"""Safety margins of an estimate, and of a tokenizer's count, which omits what the provider adds."""
_LEAST_RATIO, _MOST_RATIO = 0.4, 2.5
"""Bounds of billed per counted tokens: no two tokenizers differ more on ordinary text."""
_ENOUGH = 1_000
"""Counted tokens of a request below which its bill does not show the ratio."""
_AFTER_REJECTION = 0.75
"""Share of a rejected request's tokens that the next attempt may have."""


class Window:
    """The limits of the model that is asked, and the budget of a view in counted tokens.

    A request has the tokens that the provider billed for the last one, and the change since: counted tokens, times the
    ratio of billed to counted ones. *limit* is the model's context in tokens.
    """

    def __init__(self, counter: TokenCounter, limit: int, retention: Retention, statistics: TokenStatistics) -> None:
        self._counter = counter
        self._retention = retention
        self._statistics = statistics
        self._margin = _MARGIN_EXACT if counter.exact else _MARGIN
        self.limit, self.reserve = limit, 0  # tokens of a request, and of its answer
        self.fixed_texts: Mapping[str, str] = {}
        """The parts sent with every request, such as system prompt and tools, by name."""
        self.fixed_sizes: dict[str, int] = {}
        self.fixed = 0  # their counted tokens
        self.model = ""
        """Model that is asked (`provider:name`)."""
        self.rule, self.binding = cache_rule("", ""), binding("", "")
        self._ratio, self._rejected = 1.0, math.inf
        self._billed = self._counted = 0  # tokens of the last request to the model
        self.budget, self.floor = limit, 0
        """Counted tokens that a view may have, and below which nothing is summarized."""

    def select(self, model: str) -> None:
        """Use the rules and the ratio of *model* from now on."""
        if model != self.model:
            self.model = model
            provider, _, name = model.partition(":")
            self.rule, self.binding = cache_rule(provider, name), binding(provider, name)
            self._ratio = self._statistics.ratios.get((model, self._counter.name), 1.0)
            self._billed, self._counted, self._rejected = 0, 0, math.inf

    def prepare(self, model: str, fixed: Mapping[str, str], limit: int, reserve: int) -> None:
        """Take in the parts of the next request, and compute its budget."""
        self.select(model)
        self._count(fixed)
        self.limit, self.reserve = limit, reserve
        self.budget = self._budget(limit - reserve)
        self.floor = size_in(self.budget, self._retention.floor)

    def _count(self, fixed: Mapping[str, str]) -> None:
        if fixed is not self.fixed_texts:
            self.fixed_texts, self.fixed_sizes = fixed, self._statistics.count(self._counter, fixed)
            self.fixed = sum(self.fixed_sizes.values())

    def _budget(self, most: float) -> int:
        """Return how many counted tokens a view may have in a request of *most* billed tokens."""
        most = min(most, self._rejected)
        left = most - self._billed
        change = left / (self._ratio + math.copysign(self._margin, left))  # what grew may be more, what shrank less
        budget = math.floor(self._counted + change - self.fixed)
        return min(budget, int(most - self.fixed)) if self._counter.exact else budget

    def billed(self, tokens: int) -> float:
        """Return the tokens that the provider will probably bill for a request with a view of counted *tokens*."""
        return self._billed + self._ratio * (tokens + self.fixed - self._counted)

    def observe(self, tokens: int, billed: int) -> None:
        """Record that the provider billed *billed* tokens for a request with a view of counted *tokens*."""
        counted = tokens + self.fixed
        if counted and _LEAST_RATIO * counted <= billed <= _MOST_RATIO * counted:
            self._billed, self._counted = billed, counted
            if counted >= _ENOUGH:
                self._ratio = billed / counted
                self._statistics.ratios[self.model, self._counter.name] = self._ratio

    def rejected(self, tokens: int) -> None:
        """Lower the budget: the provider rejected a request with a view of counted *tokens* as too long."""
        self._rejected = _AFTER_REJECTION * self.billed(tokens)

    def floor_error(self, view: View, reserve: int) -> ContextFloorError:
        """Return the error for a *view* that no edit can make fit; it names what fills the window."""
        sizes = {**self.fixed_sizes, "reserve for the answer": reserve}
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
        self.select(model)
        self._count(fixed)
        left = int(_LARGEST_MESSAGE * self._budget(left)) - _NOTE
        if left <= 0:
            raise self.floor_error(unmeasured_view(), reserve)
        return text if self._counter.count(text) <= left else self._counter.cut(text, left)


def size_in(budget: int, size: float) -> int:
    """Return *size* in tokens: a share of *budget* if it is less than 1."""
    return int(size * budget if size < 1 else size)
