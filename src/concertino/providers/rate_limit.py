"""Admission: how many requests and tokens a minute one provider key may take, shared fairly by all users of a process.

A gate is held only while a model is asked. A parent that waits for its sub-agents is not asking, so that it cannot
keep them from asking.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from threading import Lock
from time import monotonic

from ..errors import ConfigurationError, RateLimitError


class Gate:
    """Lets requests through, user by user in turn, at most so many a minute and at once.

    *requests* and *tokens* are per minute, *at_once* is how many may be under way; None: no limit. Up to a tenth of a
    minute's worth may go at once after a pause. A single request over *tokens* goes alone, when the minute is full.
    One gate may serve any number of threads and event loops: who waits is woken in the loop in which it waits.

    For room one waits without limit: it comes in turn. For a pause that a provider asks for, nobody waits longer than
    it may: whoever may not is refused at once with the seconds that are left, and so decides as if the provider had
    said it. A delay that the one that met it may wait for slows all of the key. A longer one is no limit of a minute,
    and mostly one model's own: it closes that model alone, for which nobody waits, and the others are asked.

    Raises `ConfigurationError` for a limit that lets nothing through.
    """

    def __init__(
        self, *, requests: float | None = None, tokens: float | None = None, at_once: int | None = None
    ) -> None:
        for name, limit in (("requests", requests), ("tokens", tokens), ("at_once", at_once)):
            if limit is not None and (not isinstance(limit, int | float) or not limit > 0):
                raise ConfigurationError(f"Gate({name}={limit!r}) lets nothing through: use a number above 0, or None")
        self._rates = (requests, tokens)
        self._most = [None if rate is None else max(rate / 10, 1.0) for rate in self._rates]
        self._left = [most or 0.0 for most in self._most]
        self._at_once = at_once
        self._under_way = 0
        self._waiting: OrderedDict[str, deque[_Ticket]] = OrderedDict()
        self._at = 0.0
        self._closed_until = 0.0
        self._models_closed_until: dict[str, float] = {}
        self._lock = Lock()  # held over all that is read and changed here, and never while anything is awaited

    @property
    def under_way(self) -> int:
        """How many have been let through and are not back yet."""
        return self._under_way

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def admit(self, user: str, tokens: int, *, model: str = "", longest: float = inf) -> AsyncIterator[None]:
        """Wait for *user*'s turn, and hold a place while inside. *tokens*: what the request takes at most; *model*: the
        id of the model that is asked.

        Raises `RateLimitError` while that model is closed, and for a pause of all of more than *longest* seconds.
        """
        ticket = _Ticket(tokens, model, longest)
        with self._lock:
            if (refusal := self._refusal(ticket, monotonic())) is not None:
                raise refusal
            self._waiting.setdefault(user, deque()).append(ticket)
            self._let_through()
        try:
            if not ticket.through:
                await ticket.turn
            yield
        finally:
            with self._lock:
                self._leave(user, ticket)
                self._let_through()

    def pause(self, seconds: float, model: str = "") -> None:
        """The provider has said to one of us to wait for *seconds*: it holds for all, or for *model* alone."""
        with self._lock:
            now = monotonic()
            if model:
                self._models_closed_until[model] = max(self._models_closed_until.get(model, 0.0), now + seconds)
            else:
                self._closed_until = max(self._closed_until, now + seconds)
            for user, ticket in [(user, ticket) for user, tickets in self._waiting.items() for ticket in tickets]:
                if (refusal := self._refusal(ticket, now)) is not None:
                    self._take_out(user, ticket)
                    ticket.refuse(refusal)
            self._let_through()

    def _look_again(self) -> None:
        with self._lock:
            self._let_through()

    def _leave(self, user: str, ticket: _Ticket) -> None:
        ticket.cancel_alarm()
        if ticket.through:  # even where its task was cancelled before it knew
            self._under_way -= 1
            return
        self._take_out(user, ticket)

    def _take_out(self, user: str, ticket: _Ticket) -> None:
        tickets = self._waiting.get(user)
        if tickets is not None and ticket in tickets:
            tickets.remove(ticket)
            if not tickets:
                del self._waiting[user]

    def _refusal(self, ticket: _Ticket, now: float) -> RateLimitError | None:
        """What is said to a request that is not to wait for the end of a pause; None: it may go, or wait."""
        own, left = self._models_closed_until.get(ticket.model, 0.0) - now, self._closed_until - now
        if own <= 0 and left <= ticket.longest:
            return None
        left, provider = max(own, left), ticket.model.partition(":")[0]
        told = f"not sent: {provider or 'the provider'} has asked for a pause, of which {left:.0f} s are left"
        return RateLimitError(told, provider=provider, retry_after=left)

    def _let_through(self) -> None:
        now = monotonic()
        self._refill(now)
        while self._waiting and (self._at_once is None or self._under_way < self._at_once):
            user, tickets = next(iter(self._waiting.items()))
            wait = self._wait(tickets[0].tokens, now)
            if wait > 0 and tickets[0].set_alarm(wait, self._look_again):
                return
            ticket = tickets.popleft()
            if tickets:
                self._waiting.move_to_end(user)  # the next one's turn
            else:
                del self._waiting[user]
            if ticket.wake():
                self._under_way += 1
                self._left[0] -= 1
                self._left[1] -= ticket.tokens

    def _refill(self, now: float) -> None:
        passed, self._at = now - self._at, now
        for place, rate in enumerate(self._rates):
            most = self._most[place]
            if rate is not None and most is not None:
                self._left[place] = min(most, self._left[place] + rate * passed / 60)

    def _wait(self, tokens: int, now: float) -> float:
        """Seconds until a request of *tokens* may go."""
        wait = max(0.0, self._closed_until - now)
        for place, needed in enumerate((1.0, float(tokens))):
            rate, most = self._rates[place], self._most[place]
            if rate is None or most is None:
                continue
            missing = min(needed, most) - self._left[place]
            if missing > 1e-9:
                wait = max(wait, missing * 60 / rate)
        return wait


class _Ticket:
    """A request that waits, and the loop in which it does. False from a method: that loop is closed, nobody waits."""

    __slots__ = ("_alarm", "_loop", "longest", "model", "through", "tokens", "turn")

    def __init__(self, tokens: int, model: str, longest: float) -> None:
        self.tokens = tokens
        self.model = model
        self.longest = longest
        self.through = False
        self._loop = asyncio.get_running_loop()
        self.turn: asyncio.Future[None] = self._loop.create_future()
        self._alarm: asyncio.TimerHandle | None = None

    def wake(self) -> bool:
        """It is its turn."""
        self.through = self._in_loop(self._end_wait)
        return self.through

    def refuse(self, refusal: RateLimitError) -> None:
        """It is not to wait any longer."""

        def end_wait() -> None:
            self.cancel_alarm()
            if not self.turn.done():
                self.turn.set_exception(refusal)

        self._in_loop(end_wait)

    def set_alarm(self, seconds: float, look: Callable[[], None]) -> bool:
        """Call *look* after *seconds*, in place of what was to be called before."""

        def set_it() -> None:
            self.cancel_alarm()
            if not self.turn.done():
                self._alarm = self._loop.call_later(seconds, look)

        return self._in_loop(set_it)

    def cancel_alarm(self) -> None:
        """Call nothing. In its loop only."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _end_wait(self) -> None:
        self.cancel_alarm()
        if not self.turn.done():
            self.turn.set_result(None)

    def _in_loop(self, what: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            return False
        return True
