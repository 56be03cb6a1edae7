"""The context of a conversation as data: the state for its next run, and a report of its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, fields
from decimal import Decimal
from functools import partial
from typing import Any

from .records import record
from .usage import Tokens


@record(frozen=False)
class ContextState:
    """The state with which the next run of a conversation continues this run's view. All fields are JSON."""

    edits: list[list[Any]] = field(default_factory=list, repr=False)
    """The edits so far, with indexes counted from the first message of the history."""
    prepared: list[list[Any]] = field(default_factory=list, repr=False)
    """Summaries that are made and not applied yet."""
    sent_at: float | None = None
    """Time of the last request, in seconds since 1970."""
    model: str = ""
    """Model of the last request (`provider:name`)."""
    bill: float = 0.0
    """Cost of the conversation's requests so far, in tokens of uncached input."""
    omitted: int = 0
    """Tokens that the edits have removed, by the run's counter: the next run need not count them."""
    anchor: list[int] = field(default_factory=list)
    """Tokens of the last request, by the run's counter and as billed, and those counted of system prompt and tools."""
    counted: bool = False
    """Whether the conversation is long enough for edits; the next run then counts it too."""
    failures: int = 0
    """Consecutive requests for a summary that failed, and may have been billed."""


class ModelPrice(partial[tuple[Decimal | None, str, str]]):
    """The price of one model: the product's function with the provider and the model. Copies share the function."""

    def __deepcopy__(self, memo: object) -> ModelPrice:
        return self


@record(frozen=False)
class ContextReport:
    """Tokens and costs of a run's requests, and those of the same requests without any edit."""

    edits: int = 0
    summaries: int = 0
    summary_tokens: int = 0
    """Input and output of the requests that made the summaries."""
    misses: int = 0
    """Requests for which the provider read fewer tokens from its cache than expected."""
    billed: list[tuple[int, int, int, int, int]] = field(default_factory=list, repr=False)
    """For each request the tokens sent, read from the cache and written to it; then the tokens of the untrimmed
    request, sent and read. Prices may depend on the size of a request."""
    price: Callable[[Tokens, None], tuple[Decimal | None, str, str]] | None = field(
        default=None, repr=False, compare=False
    )
    """The price of the model that answered all requests; None if there were several models."""

    @property
    def requests(self) -> int:
        """Return the number of requests."""
        return len(self.billed)

    @property
    def prompt(self) -> int:
        """Return the tokens sent."""
        return self._sum(0)

    @property
    def cached(self) -> int:
        """Return the part of `prompt` read from the provider's cache."""
        return self._sum(1)

    @property
    def written(self) -> int:
        """Return the part of `prompt` written to the cache."""
        return self._sum(2)

    @property
    def untrimmed_prompt(self) -> int:
        """Return the tokens without edits, estimated from the share of the conversation that was not sent."""
        return self._sum(3)

    @property
    def untrimmed_cached(self) -> int:
        """Return the part of `untrimmed_prompt` that an ideal cache would have served, without edits `cached`."""
        return self._sum(4)

    def _sum(self, column: int) -> int:
        return sum([request[column] for request in self.billed])

    @property
    def cost(self) -> Decimal | None:
        """Return the US dollars for the input; None if a price is unknown or the run used several models."""
        return self._total(self._sent())

    @property
    def untrimmed_cost(self) -> Decimal | None:
        """Return the US dollars for the untrimmed input."""
        return self._total(self._untrimmed())

    def _sent(self) -> list[Tokens]:
        return [Tokens(prompt, 0, cached, written) for prompt, cached, written, _, _ in self.billed]

    def _untrimmed(self) -> list[Tokens]:
        write = bool(self.written)
        return [Tokens(most, 0, held, (most - held) * write) for *_, most, held in self.billed]

    def _total(self, requests: Iterable[Tokens]) -> Decimal | None:
        total = Decimal(0)
        for tokens in requests:
            cost = None if self.price is None else self.price(tokens, None)[0]
            if cost is None:
                return None
            total += cost
        return total

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return the fields with a table of prices: the product's function may not fit into a pickle."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.price is not None:
            values["price"] = {tokens: self.price(tokens, None) for tokens in (*self._sent(), *self._untrimmed())}.get
        return None, values

    @property
    def hit_rate(self) -> float:
        """Return the share of all input that was read from the cache; 0.0 without input."""
        return self.cached / self.prompt if self.prompt else 0.0
