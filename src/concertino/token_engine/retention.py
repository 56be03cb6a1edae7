"""Retention: the settings for what the view keeps."""

from __future__ import annotations

from ..errors import ConfigurationError
from ..records import record


@record(kw_only=True)
class Retention:
    """Settings for what stays in the view. Raises `ConfigurationError` if a value is invalid."""

    results: int = 10
    """The newest tool results, which are reduced only in a full window."""
    messages: int = 24
    """The newest messages, which are summarized or omitted only in a full window."""
    patience: float = 2.5
    """Ratio of carrying cost to edit cost at which an edit is made. 1 is cheapest in the long run; a higher value keeps
    more in the view."""
    floor: float = 0.2
    """Share of the window, at most 32,000 tokens, below which no edit is made to save cost: a short conversation stays
    whole. Single-use results are reduced regardless. 0: edits depend on cost alone."""
    soft_limit: int | None = None
    """Tokens that a request should have at most, although the model takes more. The conversation may have half of them
    however long system prompt and tools are. None: the model's limit."""
    max_result_tokens: int = 20_000
    """Tokens that a tool result may have, unless its tool sets a lower limit."""
    summaries: bool = True
    """True to summarize older messages with the chat's own model, False to omit them."""

    def __post_init__(self) -> None:
        for name, least in (("results", 0), ("messages", 0), ("max_result_tokens", 1), ("soft_limit", 1)):
            value = getattr(self, name)
            if name == "soft_limit" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigurationError(f"invalid Retention({name}={value!r}): use an integer of at least {least}")
        patience = self.patience
        if not isinstance(patience, int | float) or isinstance(patience, bool) or not 0 < patience < float("inf"):
            raise ConfigurationError(f"invalid Retention(patience={patience!r}): use a finite number above 0")
        floor = self.floor
        if not isinstance(floor, int | float) or isinstance(floor, bool) or not 0 <= floor < 1:
            raise ConfigurationError(f"invalid Retention(floor={floor!r}): use a number from 0 to less than 1")
        if not isinstance(self.summaries, bool):
            raise ConfigurationError(f"invalid Retention(summaries={self.summaries!r}): use True or False")
