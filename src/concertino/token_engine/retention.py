"""What of a conversation is to stay as it is, and what is known of it: settings, pins, and candidates for an edit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..errors import ConfigurationError
from ..messages import Message, ToolMessage
from .counting.sizes import FRAME, Measure
from .edits import Reduce
from .recall import digest, digest_size
from .view import View

_SHORT = 48
"""Characters of a result that is not worth reducing."""
_LEAST_SAVED = 16
"""Tokens that reducing a result must save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much of a conversation stays as it is. Raises `ConfigurationError` for figures that make no sense."""

    results: int = 10
    """The newest tool results, which are reduced only where nothing else helps."""
    messages: int = 24
    """The newest messages, which are summarised only where nothing else helps."""
    patience: float = 2.5
    """An edit is made when carrying what it would save has cost so many times what the edit costs. 1 is cheapest in
    the long run; more keeps more in sight."""
    most: int | None = None
    """Tokens that a request should have at most, although the model takes more, and half of them for the conversation,
    however long system prompt and tools are; None: what it takes."""
    largest_result: int = 20_000
    """Tokens that a tool result may have, unless its tool says less."""
    summaries: bool = True
    """Whether older messages are summarised, by the chat's own model; else they are left out."""

    def __post_init__(self) -> None:
        for name, least in (("results", 0), ("messages", 0), ("largest_result", 1), ("most", 1)):
            value = getattr(self, name)
            if not (name == "most" and value is None) and (not isinstance(value, int) or value < least):
                raise ConfigurationError(f"Retention({name}={value!r}): use a whole number of at least {least}")
        if not isinstance(self.patience, int | float) or not self.patience > 0:
            raise ConfigurationError(f"Retention(patience={self.patience!r}): use a number above 0")


class Candidates:
    """The tool results of a view that could be reduced, kept up to date as it grows; oldest first."""

    __slots__ = ("_keep", "_measure", "_newest", "_once", "_reducible", "pins", "recallable", "saved", "users")

    def __init__(self, keep: int, measure: Measure) -> None:
        self._keep = keep
        self._measure = measure
        self._newest: deque[int] = deque()
        self._once: list[int] = []
        self._reducible: dict[int, int] = {}
        """By place: the tokens that reducing the result would save, about."""
        self.saved = 0
        """And all of them together."""
        self.recallable = False
        """Whether the model has the tool to recall what is left out."""
        self.users: list[int] = []
        """The places of the user's messages."""
        self.pins: list[int] = []
        """The places of results that stay as they are."""

    def add(self, message: Message, place: int, view: View) -> None:
        """*message* has joined the record at *place*."""
        if message.role == "user":
            if message.tool is None:
                self.users.append(place)
        elif message.role == "tool":
            if message.retain == "pin":
                self.pins.append(place)
            elif message.retain == "once":
                self._once.append(place)
            else:
                self._newest.append(place)
                if len(self._newest) > self._keep:
                    self._offer(self._newest.popleft(), view)

    def _offer(self, place: int, view: View) -> None:
        if saved := self._saving(place, view):
            self._reducible[place] = saved
            self.saved += saved

    def _saving(self, place: int, view: View) -> int:
        """The tokens that reducing the result at *place* would save, about; 0 if that is not worth it."""
        message = view.at(place)
        if not isinstance(message, ToolMessage) or len(message.content) <= _SHORT:
            return 0
        size = self._measure(message).tokens - FRAME - len(message.call_id) // 3
        saved = size - digest_size(message)
        return saved if saved >= _LEAST_SAVED else 0

    @property
    def first(self) -> int | None:
        """The place of the oldest result that could be reduced."""
        return next(iter(self._reducible), None)

    @property
    def first_kept(self) -> int | None:
        """The place of the oldest of the newest results, which stay for now."""
        return self._newest[0] if self._newest else None

    @property
    def first_standing(self) -> int | None:
        """The place of the oldest result that is not reduced, where the next edit will begin."""
        return self.first_kept if self.first is None else self.first

    @property
    def first_once(self) -> int | None:
        """The place of the oldest use-and-throw result that is shown whole."""
        return self._once[0] if self._once else None

    def take(self, view: View) -> Reduce:
        """Reduce all of them."""
        places, self._reducible, self.saved = list(self._reducible), {}, 0
        return self._reduce(places, view)

    def take_seen(self, view: View, answered: int) -> Reduce | None:
        """Reduce the use-and-throw results that the model has seen: those before place *answered*. Small ones stay."""
        seen = [place for place in self._once if place < answered]
        self._once = self._once[len(seen) :]
        large = [place for place in seen if self._saving(place, view)]
        return self._reduce(large, view) if large else None

    def take_newest(self, view: View, before: int) -> Reduce | None:
        """Reduce also the newest results, up to place *before*: where nothing else helps."""
        while self._newest and self._newest[0] < before:
            self._offer(self._newest.popleft(), view)
        for place in [place for place in self._once if place < before]:
            self._offer(place, view)
        self._once = [place for place in self._once if place not in self._reducible]
        return self.take(view) if self._reducible else None

    def _reduce(self, places: list[int], view: View) -> Reduce:
        shown = [(place, view.at(place)) for place in sorted(places)]
        short = {
            place: digest(message, recallable=self.recallable)
            for place, message in shown
            if isinstance(message, ToolMessage)
        }
        return Reduce(tuple(short), tuple(short.values()))

    def settle(self, view: View) -> None:
        """The view was edited from elsewhere: forget what it no longer shows, or shows reduced already."""
        for place in [place for place in self._reducible if view.at(place) is not view.record[place]]:
            self.saved -= self._reducible.pop(place)
        self._newest = deque([place for place in self._newest if view.at(place) is view.record[place]])
        self._once = [place for place in self._once if view.at(place) is view.record[place]]
