"""The context window of the model that is asked: its size, and the budget that a view may surely use of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..cache_rules import binding, cache_rule
from ..errors import ContextFloorError
from ..messages import ToolMessage
from .counting.base import TokenCounter
from .retention import Retention
from .view import View

_MARGIN, _MARGIN_EXACT = 0.15, 0.02
"""Safety margins of an estimate, and of a tokenizer's count, which omits what the provider adds."""
_LEAST_RATIO, _MOST_RATIO = 0.4, 2.5
"""Bounds of billed per counted tokens: no two tokenizers differ more on ordinary text."""
_ENOUGH = 1_000
"""Counted tokens of a request below which its bill does not show the ratio."""

_COUNTS: dict[tuple[str, str], int] = {}  # by counter and text


def _count(counter: TokenCounter, text: str) -> int:
    """Return the tokens of a system prompt or a list of tools, which many runs send, and keep the last 64 counts."""
    while len(_COUNTS) >= 64:
        del _COUNTS[next(iter(_COUNTS))]
    tokens = _COUNTS[counter.name, text] = counter.count(text)
    return tokens


class Window:
    """The limits of the model that is asked, in counted tokens; *limit* is its context in tokens.

    A request has the tokens that the provider billed for the last one, and the change since: counted tokens, times the
    ratio of billed to counted ones.
    """

    def __init__(self, counter: TokenCounter, limit: int, retention: Retention) -> None:
        self.counter = counter
        self.retention = retention
        self._margin = _MARGIN_EXACT if counter.exact else _MARGIN
        self.limit, self.reserve = limit, 0  # tokens of a request, and of its answer
        self.fixed_texts: Mapping[str, str] = {}
        """The parts sent with every request, such as system prompt and tools, by name."""
        self.fixed = 0  # their counted tokens
        self.model = ""
        """Model that is asked (`provider:name`)."""
        self.rule, self.binding = cache_rule("", ""), binding("", "")
        self._ratio, self._most = 1.0, math.inf
        self.rejected = math.inf  # most tokens of a request, after the model has rejected one as too long
        self.billed = self.counted = 0  # tokens of the last request to the model
        self.removed = 0
        """Counted tokens of that request that were removed since."""
        self.size = self.budget = self.surely = limit
        """Counted tokens that a view probably may have, surely may have, and may have if nothing was billed."""
        self.floor = 0
        """Counted tokens below which nothing is summarized."""

    def select(self, model: str) -> None:
        """Use the rules of *model* from now on."""
        if model != self.model:
            self.model = model
            provider, _, name = model.partition(":")
            self.rule, self.binding = cache_rule(provider, name), binding(provider, name)
            self.billed, self.counted, self.removed, self.rejected, self._ratio = 0, 0, 0, math.inf, 1.0

    def prepare(self, model: str, fixed: Mapping[str, str], limit: int, reserve: int) -> None:
        """Take in the parts of the next request, and compute its budget."""
        self.select(model)
        if fixed is not self.fixed_texts:
            before, self.fixed_texts = self.fixed, fixed
            self.fixed, name = 0, self.counter.name
            for text in fixed.values():
                self.fixed += _COUNTS.get((name, text)) or _count(self.counter, text)
            self.removed += max(before - self.fixed, 0)
        self.limit, self.reserve = limit, reserve
        self.compute()

    def compute(self) -> None:
        """Compute the budget, after an edit as well.

        What is not billed yet may be more than counted, and what was removed less: the estimate is too high for one
        kind of text, and too low for another. So there are two bounds: the bill and the changes since, and the count of
        the whole view.
        """
        self._most = min(self.limit - self.reserve, self.rejected)
        left, growth = self._most - self.billed, max(self._ratio, 1.0) + self._margin
        self.size = int(self.counted + left / (self._ratio + self._margin)) - self.fixed
        self.floor = size_in(self.size, self.retention.floor)
        self.surely = int(self._most / growth) - self.fixed
        grown = self.counted + (left - (growth - _LEAST_RATIO) * self.removed) / growth
        self.budget = max(int(grown) - self.fixed, self.surely)

    def expected(self, tokens: int) -> float:
        """Return the tokens that the provider will probably bill for a request with a view of counted *tokens*."""
        return self.billed + self._ratio * (tokens + self.fixed - self.counted)

    def fits(self, tokens: int, *, surely: bool = True) -> bool:
        """Return True if a request with a view of counted *tokens* is within the limit, surely or probably."""
        return tokens <= self.budget or (not surely and self.expected(tokens) <= self._most)

    def observe(self, tokens: int, billed: int) -> None:
        """Record that the provider billed *billed* tokens for a request with a view of counted *tokens*."""
        counted = tokens + self.fixed
        if counted and _LEAST_RATIO * counted <= billed <= _MOST_RATIO * counted:
            self.billed, self.counted, self.removed = billed, counted, 0
            if counted >= _ENOUGH:
                self._ratio = billed / counted

    def floor_error(self, view: View, reserve: int) -> ContextFloorError:
        """Return the error for a *view* that no edit can make fit; it names what fills the window."""
        sizes = {name: _count(self.counter, text) for name, text in self.fixed_texts.items()}
        sizes["reserve for the answer"] = reserve
        for index, message in zip(view.indexes, view.shown, strict=True):
            name = f"result of {message.name}" if isinstance(message, ToolMessage) else f"{message.role} message"
            if message.role in ("user", "tool") and message.retain == "pin":
                name = f"pinned {name}"
            sizes[name] = sizes.get(name, 0) + view.size(index)
        largest = sorted(sizes.items(), key=lambda part: -part[1])
        shares = ", ".join(f"{name} {size:,}" for name, size in largest)
        return ContextFloorError(
            f"the smallest possible request exceeds the context of {self.limit:,} tokens: {shares}. "
            f"Shorten the {largest[0][0]}, or use a model with a larger context"
        )


def size_in(budget: int, size: float) -> int:
    """Return *size* in tokens: a share of *budget* if it is less than 1."""
    return int(size * budget if size < 1 else size)
