"""Prices of tokens, from the list that genai-prices ships. Nothing is downloaded."""

from __future__ import annotations

import threading
from bisect import bisect_left
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache, partial
from typing import Any

from ..usage import Tokens

FREE = frozenset({"demo", "scripted"})
"""Providers without a remote model, which cost nothing."""


def price(provider: str, model: str, tokens: Tokens) -> tuple[Decimal | None, str]:
    """Return the cost of *tokens* in US dollars and the name of the price list; (None, "") if no price is known.

    Input includes cache reads and cache writes, in `Tokens` and in the list alike. Each part is charged at its own
    price, or at that of input where the list has none. Anthropic's cache writes cost 1.25 times the input for five
    minutes and twice the input for an hour ("Prompt caching", pricing). Prices are those of today. The size of this
    one request selects the tier of a list with tiers.

    The first call for a provider with prices loads the list; call `preload` early to load it in the background.
    """
    if provider in FREE:
        return Decimal(0), "free"
    listed = _listed(provider, model)
    cost = None if listed is None else listed.cost(tokens)
    return (None, "") if cost is None else (cost, _list_name())


@lru_cache(maxsize=256)
def preload(provider: str, model: str) -> None:
    """Load the price list in a background thread, so that the first `price` of *model* does not block an event loop.

    Return at once. A call of `price` before the thread has finished waits for it.
    """
    if provider not in FREE:
        target = partial(price, provider, model, Tokens(prompt=1, completion=1))
        threading.Thread(target=target, name="concertino-prices", daemon=True).start()


class _Listed:
    """A model of the list with its rates. Asking the list takes longer than a step, so each rate is asked for once."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tiers: dict[int, tuple[list[int], dict[int, _Rates | None]]] = {}
        # By id of the model's prices, which may change with the hour: where its tiers begin, and the rates of each.

    def cost(self, tokens: Tokens) -> Decimal | None:
        """Return the cost; None if the model is not paid by token, or the counts contradict each other."""
        read, written, hour = tokens.cached, tokens.cache_write, tokens.cache_write_1h
        plain = tokens.prompt - read - written
        if min(plain, read, written - hour, hour, tokens.completion) < 0:
            return None
        prices = self._model.get_prices(datetime.now(tz=UTC))
        if id(prices) not in self._tiers:
            found = {tier.start for value in vars(prices).values() for tier in getattr(value, "tiers", ())}
            self._tiers[id(prices)] = sorted(found), {}
        starts, known = self._tiers[id(prices)]
        tier = bisect_left(starts, tokens.prompt)
        if tier not in known:
            known[tier] = _rates(prices, starts[tier - 1] + 1 if tier else 1)
        rates = known[tier]
        if rates is None or (tokens.completion and prices.output_mtok is None):
            return None
        cost = plain * rates[0] + read * rates[1] + (written - hour) * rates[2] + hour * rates[3]
        return cost + tokens.completion * rates[4] + rates[5]


_Rates = tuple[Decimal, Decimal, Decimal, Decimal, Decimal, Decimal]
"""US dollars per token: input, cache read, cache write, cache write for an hour, output; then per request."""


def _rates(prices: Any, prompt: int) -> _Rates | None:
    """Return the rates in *prices* for requests of *prompt* tokens; None if input has no price."""
    from genai_prices import Usage  # noqa: PLC0415 - takes a quarter of a second to import

    if prices.input_mtok is None:
        return None

    def dollars(**counts: int) -> Decimal:
        total: Decimal = prices.calc_price(Usage(**counts))["total_price"]
        return total

    def each(**counts: int) -> Decimal:
        return (dollars(input_tokens=prompt, **counts) - request) / prompt

    request = dollars(input_tokens=0)
    return (
        each(),
        each(cache_read_tokens=prompt),
        each(cache_write_tokens=prompt),
        each(cache_write_tokens=prompt, cache_write_1h_tokens=prompt),
        dollars(input_tokens=prompt, output_tokens=1) - dollars(input_tokens=prompt),
        request,
    )


@lru_cache(maxsize=1_024)
def _listed(provider: str, model: str) -> _Listed | None:
    """Return the model of the list, or None. The cache also keeps misses, which take longest to find."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - takes a quarter of a second to import

    try:
        return _Listed(get_snapshot().find_provider_model(model, None, provider, None)[1])
    except LookupError:
        return None


@cache
def _list_name() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - takes as long to import as the whole engine

    return f"genai-prices {version('genai-prices')}"
