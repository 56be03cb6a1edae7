"""Rate limits of a provider's key that all processes on a store share."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import islice
from math import inf
from time import monotonic

from ..errors import ConfigurationError, StorageError
from ..ids import token
from ..quotas import SLICE, QuotaDemand, QuotaGrant, QuotaStore
from ..scope import OPERATOR
from .rate_limit import Admission, RateLimit

_MOST = 256
"""Waiting requests that one demand names."""
_PAUSE = SLICE / 20
"""Seconds between two exchanges at least, so that requests that arrive one by one do not each cost one."""


class SharedRateLimit(RateLimit):
    """A `RateLimit` whose requests and tokens per minute all processes on *store* share, by the name of the *key*.

    A process draws grants from the store for one second at a time: what its requests need, plus as much as the last
    second needed. A pause that the provider asked one process for applies to the others at most a second later. Tenants
    take turns, fewer in each process if they wait in several, and processes are served in proportion. The
    grant of a killed process is lost, and its turn ends after two seconds. If the store fails, waiting requests fail
    with its `StorageError`.

    *max_concurrent* limits this process only. All processes must set the same limits. Raises `ConfigurationError` as
    `RateLimit` does, and for an empty key.
    """

    def __init__(
        self,
        store: QuotaStore,
        key: str,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        super().__init__(
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            max_concurrent=max_concurrent,
        )
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"SharedRateLimit(key={key!r:.80}): use a name for the provider's key")
        if not hasattr(store, "draw_quota"):
            raise ConfigurationError(f"SharedRateLimit(store={store!r:.80}): use a store of runs")
        self._store, self._key, self._owner = store, key, token()
        self._held = (0, 0)
        """Requests and tokens that are left of the grant."""
        self._until = -inf
        """When the grant ends."""
        self._next = -inf
        """When the next exchange may begin."""
        self._sizes: list[int] = []
        """The tokens of the requests that the grant has admitted."""
        self._correction = 0
        self._new_pauses: dict[str, float] = {}
        self._reporting = False
        self._asking: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    def pause(self, seconds: float, model: str = "") -> None:
        """Admit no request in any process for *seconds*; with *model*, close that model only."""
        with self._lock:
            self._new_pauses[model] = max(self._new_pauses.get(model, 0.0), seconds)
            self._pause({model: seconds}, monotonic())
            self._admit_waiting()
            with suppress(RuntimeError):  # without a running loop, the next exchange reports it
                self._ask()

    def _delay(self, tokens: int, now: float) -> float:
        """Return 0 if the grant covers the request, else the seconds until it is worth asking for another one."""
        limited, (requests, left) = self._rates, self._held
        if now < self._until and (limited[0] is None or requests >= 1) and (limited[1] is None or left >= tokens):
            return 0.0
        return max(self._next - now, 1e-9)

    def _wait(self, head: Admission, delay: float) -> bool:
        if delay <= 1e-9 and not self._is_asking():
            self._ask()
        # Even during an exchange: its loop may end before it does.
        return head.set_alarm(max(delay, SLICE) if self._is_asking() else delay, self._on_alarm)

    def _take(self, tokens: int) -> None:
        self._sizes.append(tokens)
        self._held = (self._held[0] - 1, self._held[1] - tokens)

    def _correct(self, tokens: int) -> None:
        if self._rates[1] is not None:
            self._correction += tokens
            self._report_later()

    def _report_later(self) -> None:
        """Let the others have a correction soon, also if this process makes no other request."""
        if self._correction and not self._reporting:
            self._reporting = True
            asyncio.get_running_loop().call_later(SLICE / 2, self._report)

    def _report(self) -> None:
        with self._lock:
            self._reporting = False
            if self._correction:
                self._ask()

    def _is_asking(self) -> bool:
        return self._asking is not None and not self._asking[0].is_closed()

    def _ask(self) -> None:
        """Begin an exchange, unless there is one."""
        if not self._is_asking():
            loop = asyncio.get_running_loop()
            self._asking = loop, loop.create_task(self._exchange())

    async def _exchange(self) -> None:
        with self._lock:
            sent = monotonic()
            demand = self._demand(sent)
            self._held, self._sizes = (0, 0), []
            self._correction, self._new_pauses = 0, {}
        problem: Exception | None = None
        grant = QuotaGrant()
        try:
            grant = await self._store.draw_quota(OPERATOR, demand)
        except asyncio.CancelledError:  # this loop ends: the alarm of a request in another one begins anew
            self._asking = None
            raise
        except Exception as error:  # noqa: BLE001 - the waiting requests raise it
            problem = error
        with self._lock:
            self._asking = None
            now = monotonic()
            self._next = now + max(grant.wait, _PAUSE)
            if problem is None:
                # Counted from before the exchange: the store's slice began later, so it does not end earlier.
                self._until, self._held = sent + SLICE, (grant.requests, grant.tokens)
                self._queue.weigh(grant.weights)
                self._pause(dict(grant.pauses), now)
            else:
                self._refuse(lambda _: self._failure(problem))
            self._admit_waiting()
            self._report_later()
            if self._new_pauses:
                self._ask()

    def _failure(self, cause: Exception) -> StorageError:
        error = StorageError(f"the rate limit of the key {self._key!r} cannot be read: {cause}")
        error.__cause__ = cause
        return error

    def _demand(self, now: float) -> QuotaDemand:
        most = _MOST
        if self._max_concurrent is not None:
            most = min(most, self._max_concurrent - self._active)
        waiting = tuple([admission.tokens for admission in islice(self._queue, most)])
        expected = self._sizes if now < self._until + SLICE else []
        held = self._held if now < self._until else (0, 0)
        return QuotaDemand(
            key=self._key,
            owner=self._owner,
            rates=self._rates,
            waiting=waiting,
            expected=tuple(expected[: most - len(waiting)]),
            tenants=tuple(self._queue.tenants[:_MOST]),
            unused=held,
            correction=self._correction,
            pauses=self._new_pauses,
        )
