"""Usage: the tokens and the cost of each attempt, one record each. Every total is a sum over records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from decimal import Decimal
from typing import Literal

from .records import record

UsageSource = Literal["measured", "estimated", "unknown"]
"""`measured`: reported by the provider. `estimated`: counted by concertino, or reported with counts that do not add up.
`unknown`: the provider may have billed the attempt without reporting it; the counts are at most a hint, and the cost is
None, never zero. `Runtime.settle_usage` replaces estimated and unknown records."""


@record
class Tokens:
    """Token counts of one attempt, with the same definition for every provider."""

    prompt: int = 0
    """All input tokens, including those read from or written to the cache."""
    completion: int = 0
    """All output tokens, including reasoning."""
    cached: int = 0
    """Part of `prompt` that was read from the provider's cache."""
    cache_write: int = 0
    """Part of `prompt` that was written to the provider's cache."""
    reasoning: int = 0
    """Part of `completion` that was reasoning."""
    cache_write_1h: int = 0
    """Part of `cache_write` that is cached for an hour, at a higher price (Anthropic)."""

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
            self.cache_write_1h + other.cache_write_1h,
        )

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.prompt + self.completion

    @property
    def negative(self) -> bool:
        """True if a count is negative. Such counts are never booked, because they would lower a bill."""
        return (
            self.prompt < 0
            or self.completion < 0
            or self.cached < 0
            or self.cache_write < 0
            or self.reasoning < 0
            or self.cache_write_1h < 0
        )


@record(kw_only=True)
class Receipt:
    """A provider's report about one attempt in addition to its tokens. It contains no text of the conversation."""

    response_id: str = ""
    """The provider's id of the answer."""
    service_tier: str = ""
    """The tier that served the request, by the provider's name: `default`, `flex`, `priority`, `batch`, `fast`, ..."""
    server_tools: dict[str, int] = field(default_factory=dict, hash=False)
    """Calls of tools that ran at the provider, such as `web_search` and `file_search`; some are billed per call."""
    modalities: dict[str, int] = field(default_factory=dict, hash=False)
    """Tokens by direction and modality, such as `input_audio`, `cached_text` and `output_image`. They are parts of the
    prompt, of its cached part, and of the completion."""
    cost: Decimal | None = None
    """The provider's own bill in US dollars; None if it reports none."""
    usage: str = ""
    """The provider's usage report as JSON, without texts; "" without one. A usage rule that was wrong can be applied
    again."""


@record(kw_only=True)
class UsageRecord:
    """Usage of one attempt at a model call, or of one tool that calls a model itself."""

    id: str
    """Deterministic: the same attempt always has the same id, so that it cannot be booked twice."""
    run_id: str
    agent_path: str
    provider: str
    model: str
    """The model as served; the requested model if the provider does not report it."""
    tokens: Tokens
    source: UsageSource = "measured"
    how: str = ""
    """Method of the estimate, if `source` is `estimated`."""
    cost: Decimal | None = None
    """US dollars; None if the price is unknown."""
    price_version: str = ""
    """Version of the price list behind `cost`."""
    tools: tuple[str, ...] = ()
    """Tools that the model called in this turn, or the tool that made the model call."""
    receipt: Receipt | None = None
    """What the provider reported; None if it reported nothing."""


@record
class Totals:
    """A sum over usage records."""

    tokens: Tokens
    """Tokens of the records with measured or estimated usage."""
    cost: Decimal | None
    """Sum of all costs; None if any of them is unknown."""
    unknown_tokens: Tokens = Tokens()
    """The hints of the records with unknown usage, which `tokens` leaves out."""


def total(records: Iterable[UsageRecord]) -> Totals:
    """Return the sum over *records*; zero for an empty sequence."""
    tokens, unknown, cost = Tokens(), Tokens(), Decimal(0)
    priced = True
    for usage_record in records:
        if usage_record.source == "unknown":
            unknown += usage_record.tokens
        else:
            tokens += usage_record.tokens
        if usage_record.cost is None:
            priced = False
        else:
            cost += usage_record.cost
    return Totals(tokens, cost if priced else None, unknown)
