"""The room: how much the model that is asked takes, and what system prompt, tools and the answer leave of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import ContextFloorError
from .caching.rules import Binding, binding, cache_rule
from .counting.base import TokenCounter
from .counting.calibration import Calibration, Gauge, calibration_of
from .counting.sizes import KINDS, Fixed, measure_with
from .planner import floor_error
from .view import View

_NOTE = 32
"""Tokens of room for the words that a message was cut."""
_MOST_SAID = 0.75
"""The share of the room that one message of the user's may fill."""


class Room:
    """What is known of the model that is asked, and the tokens, in ours, that a conversation with it may have.

    *limit* is its context in tokens; *wanted* is how many of them a request should have, if that is less.
    """

    __slots__ = (
        "_counter",
        "_wanted",
        "binding",
        "fixed",
        "gauge",
        "hard",
        "limit",
        "model",
        "reserve",
        "rule",
        "soft",
    )

    def __init__(self, counter: TokenCounter, limit: int, wanted: int | None) -> None:
        self._counter = counter
        self._wanted = wanted
        self.limit = limit
        self.fixed = Fixed(counter)
        """System prompt and tools."""
        self.reserve = 0
        """Tokens for the answer."""
        self.model = ""
        """`provider:name`."""
        self.rule = cache_rule("", "")
        self.binding: Binding = "free"
        self.gauge = Gauge(Calibration(), exact=counter.exact)
        self.soft = self.hard = limit
        """What a view should have at most, and what it must not exceed."""

    def ask(self, model: str) -> None:
        """It is *model* that is asked from now on."""
        if model != self.model:
            self.model = model
            provider, _, name = model.partition(":")
            self.rule, self.binding = cache_rule(provider, name), binding(provider, name)
            self.gauge = self._gauge(model)

    def measure(self, by_kind: Sequence[int]) -> None:
        """Find out how much there is, where *by_kind* are shown now."""
        gauge, fixed, most, wanted = self.gauge, self.fixed.tokens, self.limit - self.reserve, self._wanted
        self.soft = self.hard = gauge.room(by_kind, fixed, most)
        if wanted is not None and wanted < most:
            self.soft = min(self.hard, gauge.room(by_kind, fixed, max(wanted, fixed + wanted // 2)))

    def exceeded(self, view: View, reserve: int) -> ContextFloorError:
        """The error for a *view* that does not fit, beside *reserve* tokens for the answer."""
        return floor_error(self.limit, {**self.fixed.sizes(), "room for the answer": reserve}, view)

    def cut(self, text: str, fixed: Mapping[str, str], reserve: int, model: str) -> str:
        """The beginning of *text* that a message to *model* may have, so that there is room to work on it; all of it,
        the same object, if it fits.

        Raises `ContextFloorError` if *fixed* and *reserve* leave no room at all.
        """
        room = self.limit - reserve - _NOTE
        if len(text) * 4 + sum(map(len, fixed.values())) * 4 <= _MOST_SAID * room:
            return text  # a token is at least a byte, and a character at most four
        self.fixed.take(fixed)
        room = int(_MOST_SAID * self._gauge(model).room([0] * KINDS, self.fixed.tokens, room)) - _NOTE
        if room <= 0:
            raise self.exceeded(View(measure_with(self._counter)), reserve)
        return text if self._counter.count(text) <= room else self._counter.cut(text, room)

    def _gauge(self, model: str) -> Gauge:
        return Gauge(calibration_of(model, self._counter.name), exact=self._counter.exact)
