"""What tokens cost, by the price lists that genai-prices ships. Nothing is fetched: no list is ever updated here."""

from __future__ import annotations

from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from ..usage import Tokens

FREE = frozenset({"extractive", "scripted"})
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
    import genai_prices  # noqa: PLC0415 - it takes a quarter of a second

    known = _found(provider, model)
    if known is None:
        return None, ""
    try:
        usage = genai_prices.Usage(
            input_tokens=tokens.prompt,
            cache_read_tokens=tokens.cached,
            cache_write_tokens=tokens.cache_write,
            cache_write_1h_tokens=tokens.cache_write_1h,
            output_tokens=tokens.completion,
        )
        found = known[1].calc_price(usage, known[0])
    except ValueError:  # counts that are none, or contradict each other
        return None, ""
    prices = found.model_price
    if prices.input_mtok is None or (tokens.completion and prices.output_mtok is None):
        return None, ""  # it is paid by something else than tokens
    return found.total_price, _list_name()


@lru_cache(maxsize=1_024)
def _found(provider: str, model: str) -> Any:
    """The provider and the model in the list; None for one that is not there, which takes long to find out."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - see above

    try:
        return get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None


@cache
def _list_name() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - it takes as long to import as all of the engine

    return f"genai-prices {version('genai-prices')}"
