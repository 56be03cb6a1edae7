"""Retry and fallback: the next attempt after a model call failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from ...errors import (
    AuthenticationError,
    BrokenStreamError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from ...number_checks import check_amount, check_whole
from ...records import record

_PASSING = (RateLimitError, OverloadedError, ProviderTimeoutError, ProviderConnectionError, BrokenStreamError)
"""Failures that may not occur again if the same request is repeated."""
_THE_MODELS_OWN = (*_PASSING, AuthenticationError, PermissionDeniedError, ModelNotFoundError, ContextTooLongError)
"""Failures that another model may not have."""
AMBIGUOUS = (OverloadedError, ProviderTimeoutError, ProviderConnectionError, BrokenStreamError)
"""Failures after which the provider may have done and billed part of the work."""


@record(kw_only=True)
class Retry:
    """The number of attempts and the waits between them. The SDKs' own retries are off, so every attempt is booked.

    Raises `ConfigurationError` for invalid figures.
    """

    attempts: int = 3
    """Attempts at each model, including the first one."""
    first: float = 0.5
    """Seconds before the second attempt, doubled before each further one. A wait is a random time between half of this
    and all of it."""
    longest: float = 30.0
    """The longest wait in seconds. If a provider demands more, it is not called again."""
    restart: bool = False
    """Whether to retry after the consumer has seen a part of the answer. The answer then begins again."""

    def __post_init__(self) -> None:
        check_whole("Retry", "attempts", self.attempts)
        for name in ("first", "longest"):
            check_amount("Retry", name, getattr(self, name), "seconds of at least 0", zero=True)


class Attempts:
    """The attempts of one request, over a model and its *fallback*.

    *opens* returns whether the model with an id can be opened; a model that cannot be opened is passed over.
    """

    __slots__ = ("_fallback", "_made", "_opens", "_retry")

    def __init__(self, retry: Retry, fallback: Sequence[str], opens: Callable[[str], bool] = lambda _: True) -> None:
        self._retry = retry
        self._fallback = list(fallback)
        self._opens = opens
        self._made = 0

    def after(self, error: ProviderError, model: str, *, seen: bool) -> tuple[str, float] | None:
        """Return the model to call next and the seconds to wait first, or None to raise *error*.

        *seen* is True if the consumer has seen a part of the answer.
        """
        self._made += 1
        if seen and not self._retry.restart:
            return None
        if isinstance(error, (*_PASSING, ContextTooLongError)) and self._made < self._retry.attempts:
            wait = 0.0 if isinstance(error, ContextTooLongError) else self._wait(error)  # less is sent then
            if wait <= self._retry.longest and wait < inf:
                return model, wait
        if isinstance(error, _THE_MODELS_OWN):
            while self._fallback:
                other = self._fallback.pop(0)
                if other != model and self._opens(other):
                    self._made = 0
                    return other, 0.0
        return None

    def _wait(self, error: ProviderError) -> float:
        import random  # noqa: PLC0415 - rarely needed, and slow to import

        if error.retry_after is not None:
            return error.retry_after
        doubled = self._retry.first * 2.0 ** (self._made - 1)
        return min(doubled, self._retry.longest) * random.uniform(0.5, 1.0)  # noqa: S311 - it only spreads the load
