"""What tokens cost, by the price lists that genai-prices ships. Nothing is fetched: no list is ever updated here."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from ..usage import Tokens

FREE = frozenset({"demo", "scripted"})
"""Providers that ask nobody and cost nothing."""


def price(provider: str, model: str, tokens: Tokens) -> tuple[Decimal | None, str]:
    """The cost of *tokens* in US dollars, and the price list it was worked out by.

    (None, "") where no price is known, which is never the same as free. In `Tokens` and in the lists alike, input
    includes what was read from and written to the cache; each part is charged at its own price, or at that of input
    where the list has none. Anthropic's cache writes cost 1.25 times the input for five minutes and twice the input for
    an hour ("Prompt caching", pricing). The price of the day is taken, and a list that has steps is entered by the size
    of this one request.
    """
    if provider in FREE:
        return Decimal(0), "free"
    listed = _found(provider, model)
    cost = None if listed is None else listed.cost(tokens)
    return (None, "") if cost is None else (cost, _list_name())


class _Listed:
    """A model of the list. Its rates are asked of the list once: working out a price there takes longer than a step."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._steps: dict[int, tuple[list[int], dict[int, _Rates | None]]] = {}
        """By price of the model, which may change with the hour: where its steps begin, and the rates of each."""

    def cost(self, tokens: Tokens) -> Decimal | None:
        """None if it is paid by something else than tokens, or the counts contradict each other."""
        read, written, hour = tokens.cached, tokens.cache_write, tokens.cache_write_1h
        plain = tokens.prompt - read - written
        if min(plain, read, written - hour, hour, tokens.completion) < 0:
            return None
        prices = self._model.get_prices(datetime.now(tz=UTC))
        if id(prices) not in self._steps:
            found = {tier.start for value in vars(prices).values() for tier in getattr(value, "tiers", ())}
            self._steps[id(prices)] = sorted(found), {}
        starts, known = self._steps[id(prices)]
        step = bisect_left(starts, tokens.prompt)
        if step not in known:
            known[step] = _rates(prices, starts[step - 1] + 1 if step else 1)
        rates = known[step]
        if rates is None or (tokens.completion and prices.output_mtok is None):
            return None
        cost = plain * rates[0] + read * rates[1] + (written - hour) * rates[2] + hour * rates[3]
        return cost + tokens.completion * rates[4] + rates[5]


_Rates = tuple[Decimal, Decimal, Decimal, Decimal, Decimal, Decimal]
"""US dollars for a token: of input, read from the cache, written to it, written for an hour, of output; and for the
request."""


def _rates(prices: Any, prompt: int) -> _Rates | None:
    """The rates in *prices* for requests of *prompt* tokens; None where input has no price."""
    from genai_prices import Usage  # noqa: PLC0415 - it takes a quarter of a second

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
def _found(provider: str, model: str) -> _Listed | None:
    """The model in the list; None for one that is not there, which takes long to find out."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - it takes a quarter of a second

    try:
        return _Listed(get_snapshot().find_provider_model(model, None, provider, None)[1])
    except LookupError:
        return None


@cache
def _list_name() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - it takes as long to import as all of the engine

    return f"genai-prices {version('genai-prices')}"
