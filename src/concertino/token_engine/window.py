"""The context window of the model that is asked: its limit, and the budget that a view may use of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..cache_rules import binding, cache_rule
from ..errors import ContextFloorError
from ..messages import ToolMessage
from .counting.base import TokenCounter
from .retention import Retention
from .view import View, unmeasured_view

_NOTE = 32
"""Tokens for the note that a message was cut."""
_LARGEST_MESSAGE = 0.75
"""Share of the budget that one message of the user may fill."""
_ANSWER = 2_000
_MARGIN, _MARGIN_EXACT = 0.15, 0.02
"""Safety margins of an estimate, and of a tokenizer's count, which omits what the provider adds."""
_LEAST_RATIO, _MOST_RATIO = 0.4, 2.5
"""Bounds of billed per counted tokens: no two tokenizers differ more on ordinary text."""
_ENOUGH = 1_000
"""Counted tokens of a request below which its bill does not show the ratio."""
_AFTER_REJECTION = 0.75
"""Share of a rejected request's tokens that the next attempt may have."""
_MOST_TEXTS = 64
"""Fixed texts whose counts are kept; the oldest is dropped first."""


class TokenStatistics:
    """Counts of fixed texts, and the ratio of billed to counted tokens by model and counter, of all runs together."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self.ratios: dict[tuple[str, str], float] = {}
        """Of the last request with a plausible figure."""

    def count(self, counter: TokenCounter, texts: Mapping[str, str]) -> dict[str, int]:
        """Return the tokens of each of *texts*, system prompts and tool lists that many runs send; count each once."""
        counts, found = self._counts, {}
        for name, text in texts.items():
            key = counter.name, text
            if key not in counts:
                while len(counts) >= _MOST_TEXTS:
                    del counts[next(iter(counts))]
                counts[key] = counter.count(text)
            found[name] = counts[key]
        return found


class Window:
    """The limits of the model that is asked, and the budget of a view in counted tokens.

    A request has the tokens that the provider billed for the last one, and the change since: counted tokens, times the
    ratio of billed to counted ones. *limit* is the model's context in tokens.
    """

    def __init__(self, counter: TokenCounter, limit: int, retention: Retention, statistics: TokenStatistics) -> None:
        self.counter = counter
        self.retention = retention
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
        self._removed = 0  # counted tokens of that request that edits have removed since
        self.size = self.budget = self.least = limit
        self.floor = 0
        """Counted tokens that a view may have, and below which nothing is summarized."""

    def select(self, model: str) -> None:
        """Use the rules and the ratio of *model* from now on."""
        if model != self.model:
            self.model = model
            provider, _, name = model.partition(":")
            self.rule, self.binding = cache_rule(provider, name), binding(provider, name)
            self._ratio = self._statistics.ratios.get((model, self.counter.name), 1.0)
            self._billed, self._counted, self._removed, self._rejected = 0, 0, 0, math.inf

    @property
    def anchor(self) -> list[int]:
        """Return the counted and billed tokens of the last request; empty if its messages are not all in the view."""
        return [self._counted, self._billed] if self._billed and not self._removed else []

    @anchor.setter
    def anchor(self, anchor: list[int]) -> None:
        self._counted, self._billed = anchor or (0, 0)

    def prepare(self, model: str, fixed: Mapping[str, str], limit: int, reserve: int) -> None:
        """Take in the parts of the next request, and compute its budget."""
        self.select(model)
        if fixed is not self.fixed_texts:
            self.fixed_texts, self.fixed_sizes = fixed, self._statistics.count(self.counter, fixed)
            self.fixed = sum(self.fixed_sizes.values())
        self.limit, self.reserve = limit, reserve
        self._set_budget()

    def removed(self, tokens: int) -> None:
        """Record that an edit removed *tokens* counted tokens from the view."""
        self._removed += tokens
        self._set_budget()

    def _set_budget(self) -> None:
        most = min(self.limit - self.reserve, self._rejected)
        left = most - self._billed
        self.size = int(self._counted + left / (self._ratio + self._margin)) - self.fixed
        self.floor = size_in(self.size, self.retention.floor)
        # What is not billed yet may be more than counted, and what was removed less: one text has more tokens than the
        # estimate, another fewer. So there are two bounds: the bill and the changes since, and the count of all.
        growth = max(self._ratio, 1.0) + self._margin
        sure = (left - (growth - _LEAST_RATIO) * self._removed) / growth
        self.least = int(most / growth) - self.fixed
        self.budget = max(int(self._counted + sure) - self.fixed, self.least)
        self._most = most

    def probably_fits(self, tokens: int) -> bool:
        """Return True if a request with a view of counted *tokens* fits by expectation, without a margin."""
        return self.billed(tokens) <= self._most

    def billed(self, tokens: int) -> float:
        """Return the tokens that the provider will probably bill for a request with a view of counted *tokens*."""
        return self._billed + self._ratio * (tokens + self.fixed - self._counted)

    def observe(self, tokens: int, billed: int) -> None:
        """Record that the provider billed *billed* tokens for a request with a view of counted *tokens*."""
        counted = tokens + self.fixed
        if counted and _LEAST_RATIO * counted <= billed <= _MOST_RATIO * counted:
            self._billed, self._counted, self._removed = billed, counted, 0
            if counted >= _ENOUGH:
                self._ratio = billed / counted
                self._statistics.ratios[self.model, self.counter.name] = self._ratio

    def rejected(self, tokens: int) -> None:
        """Lower the budget: the provider rejected a request with a view of counted *tokens* as too long."""
        self._rejected = _AFTER_REJECTION * self.billed(tokens)

    def floor_error(self, view: View, reserve: int) -> ContextFloorError:
        """Return the error for a *view* that no edit can make fit; it names what fills the window."""
        sizes = {**self.fixed_sizes, "reserve for the answer": reserve}
        for index, message in zip(view.indexes, view.shown, strict=True):
            name = f"result of {message.name}" if isinstance(message, ToolMessage) else f"{message.role} message"
            sizes[name] = sizes.get(name, 0) + view.size(index)
        largest = sorted(sizes.items(), key=lambda part: -part[1])
        shares = ", ".join(f"{name} {size:,}" for name, size in largest)
        return ContextFloorError(
            f"the smallest possible request exceeds the context of {self.limit:,} tokens: {shares}. "
            f"Shorten the {largest[0][0]}, or use a model with a larger context"
        )

    def truncate(self, text: str, fixed: Mapping[str, str], limit: int, reserve: int, model: str) -> str:
        """Return the beginning of *text* that a user's message may have; see `TokenEngine.truncate`."""
        if len(text) * 4 + sum(map(len, fixed.values())) * 4 <= _LARGEST_MESSAGE * (limit - reserve - _NOTE):
            return text  # a token is at least a byte, and a character at most four bytes
        self.prepare(model, fixed, limit, reserve + _NOTE)
        left = min(int(_LARGEST_MESSAGE * self.least), max(self.least // 2, self.least - _ANSWER)) - _NOTE
        if left <= 0:
            raise self.floor_error(unmeasured_view(), reserve)
        return text if self.counter.count(text) <= left else self.counter.cut(text, left)


def size_in(budget: int, size: float) -> int:
    """Return *size* in tokens: a share of *budget* if it is less than 1."""
    return int(size * budget if size < 1 else size)
