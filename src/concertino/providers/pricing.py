"""Prices of tokens, from the list that genai-prices ships. Nothing is downloaded."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache, partial
from itertools import product
from typing import Any

from ..ids import in_family
from ..usage import Receipt, Tokens

FREE = frozenset({"demo", "scripted"})
"""Providers without a remote model, which cost nothing."""
_NOTHING = Decimal(0), "free"


def price(provider: str, model: str, tokens: Tokens, receipt: Receipt | None = None) -> tuple[Decimal | None, str]:
    """Return the cost of *tokens* in US dollars and the name of the price list; (None, "") if no price is known.

    The provider's own bill in *receipt* takes precedence. Otherwise the receipt's service tier selects the prices, its
    searches are added, and so is what audio, images and videos cost more than text. A tier, a search or another tool at
    the provider that the list does not price makes the cost unknown. The receipt of a reservation has the tier that the
    request asks for.

    Input includes cache reads and cache writes, in `Tokens` and in the list alike. Each part is charged at its own
    price, or at that of input where the list has none. Anthropic's cache writes cost 1.25 times the input for five
    minutes and twice the input for an hour ("Prompt caching", pricing). Prices are those of today. The size of this
    one request selects the tier of a list with tiers.

    The first call for a provider with prices loads the list; call `preload` early to load it in the background.
    """
    if provider in FREE:
        return _NOTHING
    if receipt is not None and receipt.cost is not None:
        return receipt.cost, f"billed by {provider}"
    listed = _listed(provider, model)
    cost = None if listed is None else listed.cost(tokens, receipt)
    return (None, "") if cost is None else (cost, _list_name())


@lru_cache(maxsize=256)
def preload(provider: str, model: str) -> None:
    """Load the price list in a background thread, so that the first `price` of *model* does not block an event loop.

    Return at once. A call of `price` before the thread has finished waits for it.
    """
    if provider not in FREE:
        target = partial(price, provider, model, Tokens(prompt=1, completion=1))
        threading.Thread(target=target, name="concertino-prices", daemon=True).start()


_STANDARD = frozenset({"", "default", "standard", "standard_only", "auto", "on_demand"})
"""Names of the tier that the list's ordinary prices are for, at all providers."""
_PER_PROMPT = r"gemini-(1|2)"
"""Models whose provider bills grounding per prompt, not per search ("Gemini Developer API pricing", grounding)."""
_SEARCHES = {"web_search": "web_searches_kcount", "file_search": "storage_searches_kcount"}
_BY_TOKENS = frozenset({"web_fetch", "code_execution"})
"""Tools at the provider that cost their tokens only: Anthropic's and Google's. All others that are no searches, such as
OpenAI's `code_interpreter`, which is billed by session, have a price that the list does not know."""


class _Listed:
    """A model of the list. Asking the list takes longer than a step, so its prices are asked for once."""

    def __init__(self, model: Any, *, own: bool) -> None:
        self._model = model
        self._own = own  # not another provider's, whose tiers and searches the list does not know
        self._per_prompt = in_family(_PER_PROMPT, model.id)
        self._prices: dict[tuple[int, str], _Prices | None] = {}
        # By id of the model's prices, which may change with the hour, and service tier.

    def cost(self, tokens: Tokens, receipt: Receipt | None) -> Decimal | None:
        """Return the cost; None if a part of it has no price, or the counts contradict each other."""
        prices = self._prices_of("" if receipt is None else receipt.service_tier)
        cost = None if prices is None else prices.cost(tokens)
        if prices is None or cost is None or receipt is None:
            return cost
        for name, count in receipt.server_tools.items():
            if name not in _BY_TOKENS and count > 0:
                each = prices.search(name) if name in _SEARCHES else None
                if each is None:
                    return None
                cost += each * (min(count, 1) if self._per_prompt else count)
        return cost + prices.surcharge(tokens, receipt.modalities) if receipt.modalities else cost

    def _prices_of(self, tier: str) -> _Prices | None:
        """Return the prices of a tier; None if the list does not know them."""
        now = datetime.now(tz=UTC)
        tier = tier.lower().removeprefix("service_tier_").removeprefix("on_demand_")
        standard = self._model.get_prices(now)
        key = (id(standard), "" if tier in _STANDARD else f"{tier} {now.date()}")  # variants have a first day
        if key not in self._prices:
            self._prices[key] = _Prices(standard) if not key[1] else self._variant(tier, now)
        return self._prices[key]

    def _variant(self, tier: str, now: datetime) -> _Prices | None:
        context = {"processing": tier} if tier == "batch" else {"service_tier": tier, "speed": tier}
        for variant in self._model.price_variants or () if self._own else ():
            begun = variant.constraint is None or variant.constraint.active(now)
            if begun and all(context.get(name) == value for name, value in variant.when.items()):
                return _Prices(self._model.get_prices(now, context))
        return None


class _Prices:
    """The prices of a model in one service tier."""

    def __init__(self, prices: Any) -> None:
        self._prices = prices
        found = {tier.start for value in vars(prices).values() for tier in getattr(value, "tiers", ())}
        self._starts = sorted(found)
        self._rates: dict[int, list[Decimal]] = {}  # by the number of the size that selects them

    def cost(self, tokens: Tokens) -> Decimal | None:
        """Return the cost of *tokens*; None if the model is not paid by token, or the counts contradict each other."""
        read, written, hour = tokens.cached, tokens.cache_write, tokens.cache_write_1h
        plain = tokens.prompt - read - written
        if min(plain, read, written - hour, hour, tokens.completion) < 0 or self._prices.input_mtok is None:
            return None
        if tokens.completion and self._prices.output_mtok is None:
            return None
        size = bisect_left(self._starts, tokens.prompt)
        if size not in self._rates:
            self._rates[size] = self._rates_of(tokens.prompt)
        rates = self._rates[size]
        cost = plain * rates[0] + read * rates[1] + (written - hour) * rates[2] + hour * rates[3]
        return cost + tokens.completion * rates[4] + rates[5]

    def _rates_of(self, prompt: int) -> list[Decimal]:
        """Return the dollars per token of input, cache read, cache write, for an hour, and output; then per request."""
        usual = self._at("input_mtok", prompt)
        write = self._at("cache_write_mtok", prompt, usual)
        found = [
            usual,
            self._at("cache_read_mtok", prompt, usual),
            write,
            self._at("cache_write_1h_mtok", prompt, write),
        ]
        found.append(self._at("output_mtok", prompt))
        return [*[each / 1_000_000 for each in found], self._at("requests_kcount", prompt) / 1_000]

    def _at(self, name: str, prompt: int, otherwise: Decimal = Decimal(0)) -> Decimal:
        """Return the price *name* for a request of *prompt* tokens; *otherwise* if the list has none."""
        listed = getattr(self._prices, name)
        found: Decimal = otherwise if listed is None else getattr(listed, "base", listed)
        for tier in getattr(listed, "tiers", ()):
            found = tier.price if prompt > tier.start else found
        return found

    def search(self, tool: str) -> Decimal | None:
        """Return the price of one call of a search tool; else None. A price per request covers it."""
        if getattr(self._prices, _SEARCHES[tool]) is None:
            return None if self._prices.requests_kcount is None else Decimal(0)
        return self._at(_SEARCHES[tool], 0) / 1_000

    def surcharge(self, tokens: Tokens, modalities: Mapping[str, int]) -> Decimal:
        """Return what tokens of other modalities cost in addition to the price of text."""
        total = Decimal(0)
        for direction, kind in product(("input", "output"), ("audio", "image", "video")):
            count, name = modalities.get(f"{direction}_{kind}", 0), f"{direction}_{kind}_mtok"
            if count > 0 and getattr(self._prices, name) is not None:
                if direction == "input":
                    count -= modalities.get(f"cached_{kind}", 0)
                most = tokens.prompt if direction == "input" else tokens.completion
                more = self._at(name, tokens.prompt) - self._at(f"{direction}_mtok", tokens.prompt)
                total += more * max(0, min(count, most)) / 1_000_000
        return total


@lru_cache(maxsize=1_024)
def _listed(provider: str, model: str) -> _Listed | None:
    """Return the model of the list, or None. The cache also keeps misses, which take longest to find."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - takes a quarter of a second to import

    try:
        maker, found = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    return _Listed(found, own=any(found is each for each in maker.models))


@cache
def _list_name() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - takes as long to import as the whole engine

    return f"genai-prices {version('genai-prices')}"
