"""Admission: how many requests and tokens a minute one provider key may take, shared fairly by all users of a process.

A gate is held only while a model is asked. A parent that waits for its sub-agents is not asking, so that it cannot
keep them from asking.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..errors import ConfigurationError


class Gate:
    """Lets requests through, user by user in turn, at most so many a minute and at once.

    *requests* and *tokens* are per minute, *at_once* is how many may be under way; None: no limit. Up to a tenth of a
    minute's worth may go at once after a pause. A single request over *tokens* goes alone, when the minute is full.
    Belongs to one event loop. Raises `ConfigurationError` for a limit that lets nothing through.
    """

    def __init__(
        self, *, requests: float | None = None, tokens: float | None = None, at_once: int | None = None
    ) -> None:
        for name, limit in (("requests", requests), ("tokens", tokens), ("at_once", at_once)):
            if limit is not None and not limit > 0:
                raise ConfigurationError(f"Gate({name}={limit!r}) lets nothing through: use a number above 0, or None")
        self._rates = (requests, tokens)
        self._most = [None if rate is None else max(rate / 10, 1.0) for rate in self._rates]
        self._left = [most or 0.0 for most in self._most]
        self._at_once = at_once
        self._under_way = 0
        self._waiting: OrderedDict[str, deque[tuple[int, asyncio.Future[None]]]] = OrderedDict()
        self._at = 0.0
        self._closed_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def admit(self, user: str, tokens: int) -> AsyncIterator[None]:
        """Wait for *user*'s turn, and hold a place while inside. *tokens*: what the request takes at most."""
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append((tokens, ticket))
        self._let_through()
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self._leave()
            raise
        try:
            yield
        finally:
            self._leave()

    def pause(self, seconds: float) -> None:
        """Let nobody through for *seconds*: the provider has said so to one of us, and means all."""
        self._closed_until = max(self._closed_until, asyncio.get_running_loop().time() + seconds)

    def _leave(self) -> None:
        self._under_way -= 1
        self._let_through()

    def _let_through(self) -> None:
        loop = asyncio.get_running_loop()
        self._refill(loop.time())
        while self._waiting and (self._at_once is None or self._under_way < self._at_once):
            user, tickets = next(iter(self._waiting.items()))
            tokens, ticket = tickets[0]
            wait = 0.0 if ticket.done() else self._wait(tokens, loop.time())
            if wait > 0:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = loop.call_later(wait, self._let_through)
                return
            tickets.popleft()
            if tickets:
                self._waiting.move_to_end(user)  # the next one's turn
            else:
                del self._waiting[user]
            if not ticket.done():
                self._take(tokens)
                ticket.set_result(None)

    def _take(self, tokens: int) -> None:
        self._under_way += 1
        self._left[0] -= 1
        self._left[1] -= tokens

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
