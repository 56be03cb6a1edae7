"""Rate limits of one provider key, shared fairly by all users of a process.

A request counts only while its model call runs. A parent run that waits for sub-agents makes no call, so it cannot
block theirs.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from threading import Lock
from time import monotonic

from ..errors import RateLimitError
from ..number_checks import check_amount, check_whole


class RateLimit:
    """Admit requests in turn by user, within limits per minute and of concurrency.

    None means unlimited. After a pause, a burst of up to a tenth of a minute's limit is admitted at once. A request
    larger than that burst is admitted once the full burst is available. One instance serves any number of threads and
    event loops; a waiting request is woken in its own loop.

    A request waits for its turn without limit, but for a pause that the provider asked for at most as long as its
    caller allows: beyond that, `admit` raises at once, with the remaining seconds, as if the provider had refused it.
    A pause that the caller who received it can wait for applies to the whole key. A longer one is usually a quota of
    one model: it closes that model only, and requests to other models continue.

    Raises `ConfigurationError` if a limit is not a positive number.
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        check_amount("RateLimit", "requests_per_minute", requests_per_minute, optional=True)
        check_amount("RateLimit", "tokens_per_minute", tokens_per_minute, optional=True)
        check_whole("RateLimit", "max_concurrent", max_concurrent, optional=True)
        self._rates = (requests_per_minute, tokens_per_minute)
        self._bursts = [None if rate is None else max(rate / 10, 1.0) for rate in self._rates]
        self._available = [burst or 0.0 for burst in self._bursts]
        self._max_concurrent = max_concurrent
        self._active = 0
        self._queues: OrderedDict[str, deque[_Ticket]] = OrderedDict()
        self._refilled = 0.0
        self._paused_until = 0.0
        self._models_paused_until: dict[str, float] = {}
        self._lock = Lock()  # guards all state above; never held across an await

    @property
    def active(self) -> int:
        """The number of admitted requests that have not finished."""
        return self._active

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        with self._lock:
            return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def admit(self, user: str, tokens: int, *, model: str = "", longest: float = inf) -> AsyncIterator[None]:
        """Wait for *user*'s turn and count the request as active inside the block.

        *tokens* is the most that the request can use, *model* its model's id, and *longest* the longest pause in
        seconds to wait for. Raises `RateLimitError` if that model is closed or the pause is longer.
        """
        ticket = _Ticket(tokens, model, longest)
        with self._lock:
            if (refusal := self._refusal(ticket, monotonic())) is not None:
                raise refusal
            self._queues.setdefault(user, deque()).append(ticket)
            self._admit_waiting()
        try:
            if not ticket.admitted:
                await ticket.turn
            yield
        finally:
            with self._lock:
                self._leave(user, ticket)
                self._admit_waiting()

    def pause(self, seconds: float, model: str = "") -> None:
        """Admit no request for *seconds*, as the provider has asked; with *model*, close that model only."""
        with self._lock:
            now = monotonic()
            if model:
                self._models_paused_until[model] = max(self._models_paused_until.get(model, 0.0), now + seconds)
            else:
                self._paused_until = max(self._paused_until, now + seconds)
            for user, ticket in [(user, ticket) for user, queue in self._queues.items() for ticket in queue]:
                if (refusal := self._refusal(ticket, now)) is not None:
                    self._remove(user, ticket)
                    ticket.refuse(refusal)
            self._admit_waiting()

    def _on_alarm(self) -> None:
        with self._lock:
            self._admit_waiting()

    def _leave(self, user: str, ticket: _Ticket) -> None:
        ticket.cancel_alarm()
        if ticket.admitted:  # even if its task was cancelled before it resumed
            self._active -= 1
            return
        self._remove(user, ticket)

    def _remove(self, user: str, ticket: _Ticket) -> None:
        queue = self._queues.get(user)
        if queue is not None and ticket in queue:
            queue.remove(ticket)
            if not queue:
                del self._queues[user]

    def _refusal(self, ticket: _Ticket, now: float) -> RateLimitError | None:
        """Return the error for a request that may not wait for the end of a pause, or None."""
        of_model, of_key = self._models_paused_until.get(ticket.model, 0.0) - now, self._paused_until - now
        if of_model <= 0 and of_key <= ticket.longest:
            return None
        left, provider = max(of_model, of_key), ticket.model.partition(":")[0]
        message = f"not sent: {provider or 'the provider'} has asked for a pause; {left:.0f} s remain"
        error = RateLimitError(message, provider=provider, retry_after=left)
        error.sent = False
        return error

    def _admit_waiting(self) -> None:
        now = monotonic()
        self._refill(now)
        while self._queues and (self._max_concurrent is None or self._active < self._max_concurrent):
            user, queue = next(iter(self._queues.items()))
            delay = self._delay(queue[0].tokens, now)
            if delay > 0 and queue[0].set_alarm(delay, self._on_alarm):
                return
            ticket = queue.popleft()
            if queue:
                self._queues.move_to_end(user)  # the next user's turn
            else:
                del self._queues[user]
            if ticket.admit():
                self._active += 1
                self._available[0] -= 1
                self._available[1] -= ticket.tokens

    def _refill(self, now: float) -> None:
        elapsed, self._refilled = now - self._refilled, now
        for index, (rate, burst) in enumerate(zip(self._rates, self._bursts, strict=True)):
            if rate is not None and burst is not None:
                self._available[index] = min(burst, self._available[index] + rate * elapsed / 60)

    def _delay(self, tokens: int, now: float) -> float:
        """Return the seconds until a request of *tokens* can be admitted."""
        delay = max(0.0, self._paused_until - now)
        for index, needed in enumerate((1.0, float(tokens))):
            rate, burst = self._rates[index], self._bursts[index]
            if rate is None or burst is None:
                continue
            missing = min(needed, burst) - self._available[index]
            if missing > 1e-9:
                delay = max(delay, missing * 60 / rate)
        return delay


class _Ticket:
    """A waiting request and its event loop. Methods return False if that loop is closed."""

    __slots__ = ("_alarm", "_loop", "admitted", "longest", "model", "tokens", "turn")

    def __init__(self, tokens: int, model: str, longest: float) -> None:
        self.tokens = tokens
        self.model = model
        self.longest = longest
        self.admitted = False
        self._loop = asyncio.get_running_loop()
        self.turn: asyncio.Future[None] = self._loop.create_future()
        self._alarm: asyncio.TimerHandle | None = None

    def admit(self) -> bool:
        """End the wait."""
        self.admitted = self._in_loop(self._end_wait)
        return self.admitted

    def refuse(self, refusal: RateLimitError) -> None:
        """End the wait with *refusal*."""

        def end_wait() -> None:
            self.cancel_alarm()
            if not self.turn.done():
                self.turn.set_exception(refusal)

        self._in_loop(end_wait)

    def set_alarm(self, seconds: float, callback: Callable[[], None]) -> bool:
        """Call *callback* after *seconds*, replacing an earlier alarm."""

        def set_it() -> None:
            self.cancel_alarm()
            if not self.turn.done():
                self._alarm = self._loop.call_later(seconds, callback)

        return self._in_loop(set_it)

    def cancel_alarm(self) -> None:
        """Cancel the alarm. Must be called in the request's loop."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _end_wait(self) -> None:
        self.cancel_alarm()
        if not self.turn.done():
            self.turn.set_result(None)

    def _in_loop(self, callback: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            return False
        return True
