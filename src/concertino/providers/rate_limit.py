"""Rate limits of one provider key, shared fairly by all users of a process.

A request counts only while its model call runs. A parent run that waits for sub-agents has no call in progress, so it
cannot block theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from threading import Lock
from time import monotonic

from ..errors import RateLimitError
from ..number_checks import check_amount, check_whole
from ..quotas import Bucket
from .fair_queue import FairQueue

_CORRECTED = 60.0
"""Seconds after which a correction is too late, because the provider's minute is over."""


class RateLimit:
    """Admit requests in turn by tenant and user, within limits per minute and a limit of concurrency.

    None means unlimited. After a time without requests, a burst of up to a tenth of a minute's limit is admitted at
    once. A request larger than that burst is admitted once the full burst is available; one larger than a minute's
    tokens is refused.
    One instance serves any number of threads and event loops; a waiting request is woken in its own loop.

    A request waits for its turn without limit. For a pause that the provider asked for, it waits at most as long as its
    caller allows; for a longer pause, `admit` raises at once with the remaining seconds, as if the provider had refused
    the request.

    A pause short enough for the caller who received it applies to the whole key, and no burst follows it, because the
    provider has refused the last one. A longer pause is usually a quota of one model: it closes only that model, and
    requests to other models continue.

    Raises `ConfigurationError` if a limit is not a positive number.
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        name = type(self).__name__
        check_amount(name, "requests_per_minute", requests_per_minute, optional=True)
        check_amount(name, "tokens_per_minute", tokens_per_minute, optional=True)
        check_whole(name, "max_concurrent", max_concurrent, optional=True)
        self._rates = (requests_per_minute, tokens_per_minute)
        self._bucket = Bucket(self._rates)
        self._refilled = 0.0
        self._max_concurrent = max_concurrent
        self._active = 0
        self._queue = FairQueue[Admission]()
        self._pauses: dict[str, float] = {}
        """The end of each pause, by model; "" for the whole key."""
        self._lock = Lock()  # guards all state above; never held across an await

    @property
    def active(self) -> int:
        """The number of admitted requests that have not finished."""
        return self._active

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        with self._lock:
            return len(self._queue)

    @asynccontextmanager
    async def admit(
        self, user: str, tokens: int, *, tenant: str = "", model: str = "", longest: float = inf
    ) -> AsyncIterator[Admission]:
        """Wait for the turn of *tenant* and *user*, and count the request as active inside the block.

        *tokens* is the most that the request can use, *model* its model's id, and *longest* the longest pause in
        seconds to wait for. The block sets `Admission.used` once it knows the request's usage. Raises `RateLimitError`
        if that model is closed, the pause is longer, or the request is larger than a minute's tokens.
        """
        admission = Admission(tokens, model, longest)
        with self._lock:
            if (refusal := self._refusal(admission, monotonic())) is not None:
                raise refusal
            self._queue.add(tenant, user, admission)
            self._admit_waiting()
        try:
            if not admission.admitted:
                await admission.turn
            yield admission
        finally:
            with self._lock:
                admission.cancel_alarm()
                if admission.admitted:  # even if its task was cancelled before it resumed
                    self._active -= 1
                    if admission.used is not None and monotonic() - admission.since < _CORRECTED:
                        self._correct(admission.tokens - admission.used)
                else:
                    self._queue.remove(tenant, user, admission)
                self._admit_waiting()

    def pause(self, seconds: float, model: str = "") -> None:
        """Admit no request for *seconds*, as the provider has asked; with *model*, close that model only."""
        with self._lock:
            self._pause({model: seconds}, monotonic())
            self._admit_waiting()

    def _on_alarm(self) -> None:
        with self._lock:
            self._admit_waiting()

    def _pause(self, pauses: dict[str, float], now: float) -> None:
        """Extend the pauses, and refuse the requests that may not wait so long."""
        for model, seconds in pauses.items():
            if seconds > 0:
                self._pauses[model] = max(self._pauses.get(model, 0.0), now + seconds)
        if pauses.get("", 0.0) > 0:
            self._bucket.empty()
        self._refuse(lambda admission: self._refusal(admission, now))

    def _refuse(self, refusal: Callable[[Admission], Exception | None]) -> None:
        """End the waits for which *refusal* returns an error."""
        kept = self._queue.emptied()
        for tenant, user, admission in self._queue.items():
            if (error := refusal(admission)) is None:
                kept.add(tenant, user, admission)
            else:
                admission.refuse(error)
        self._queue = kept

    def _refusal(self, admission: Admission, now: float) -> RateLimitError | None:
        """Return the error for a request that may not wait for its turn, or None."""
        provider, most = admission.model.partition(":")[0] or "the provider", self._rates[1]
        if most is not None and admission.tokens > most:
            left = inf
            message = (
                f"not sent: the request may use {admission.tokens:,} tokens, and the rate limit of {provider} admits "
                f"{most:,.0f} a minute: raise tokens_per_minute, or lower Limits.context or Limits.output"
            )
        else:
            of_model = self._pauses.get(admission.model, 0.0) - now if admission.model else 0.0
            of_key = self._pauses.get("", 0.0) - now
            if of_model <= 0 and of_key <= admission.longest:
                return None
            left = max(of_model, of_key)
            message = f"not sent: {provider} has asked for a pause; {left:.0f} s remain"
        error = RateLimitError(message, provider=admission.model.partition(":")[0], retry_after=left)
        error.sent = False
        return error

    def _admit_waiting(self) -> None:
        now = monotonic()
        while self._queue and (self._max_concurrent is None or self._active < self._max_concurrent):
            admission = self._queue.head
            delay = max(self._pauses.get("", 0.0) - now, self._delay(admission.tokens, now))
            if delay > 0 and self._wait(admission, delay):
                return
            self._queue.pop()
            if admission.admit(now):
                self._active += 1
                self._take(admission.tokens)

    # -- in this process; `SharedRateLimit` replaces what follows ------------------------------------------------------

    def _delay(self, tokens: int, now: float) -> float:
        """Return the seconds until a request of *tokens* can be admitted."""
        elapsed, self._refilled = now - max(self._refilled, min(now, self._pauses.get("", 0.0))), now
        self._bucket.refill(elapsed)
        return self._bucket.delay(tokens)

    def _wait(self, head: Admission, delay: float) -> bool:
        """Try again after *delay*. Return False if the loop of *head* is closed."""
        return head.set_alarm(delay, self._on_alarm)

    def _take(self, tokens: int) -> None:
        self._bucket.take(tokens)

    def _correct(self, tokens: int) -> None:
        """Give back *tokens* of an estimate, or take more if they are negative."""
        self._bucket.add(0, tokens)


class Admission:
    """A request before a rate limit, and its event loop. Methods return False if that loop is closed."""

    __slots__ = ("_alarm", "_loop", "admitted", "longest", "model", "since", "tokens", "turn", "used")

    def __init__(self, tokens: int, model: str, longest: float) -> None:
        self.tokens = tokens
        self.model = model
        self.longest = longest
        self.used: int | None = None
        """The tokens that the request has used; None while unknown, which counts as `tokens`."""
        self.admitted = False
        self.since = 0.0
        """When it was admitted."""
        self._loop = asyncio.get_running_loop()
        self.turn: asyncio.Future[None] = self._loop.create_future()
        self._alarm: asyncio.TimerHandle | None = None

    def admit(self, now: float) -> bool:
        """End the wait."""
        self.since, self.admitted = now, self._in_loop(self._end_wait)
        return self.admitted

    def refuse(self, refusal: Exception) -> None:
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
