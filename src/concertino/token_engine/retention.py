"""Retention: the settings for what the view keeps."""

from __future__ import annotations

import math

from ..errors import ConfigurationError
from ..records import record

SECTIONS = (
    "The user's words: requests, constraints and corrections, word for word",
    "Decisions, with their reasons",
    "Files, ids and numbers touched, exactly as they were",
    "Errors, with their fixes",
    "Done",
    "Open",
    "Next step",
)
"""The sections of a summary, unless `SummaryStyle.sections` names others."""


def _check_number(name: str, value: object, least: float, *, inclusive: bool) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < least or (value == least and not inclusive):  # type: ignore[operator]
        bound = f"of at least {least:g}" if inclusive else f"above {least:g}"
        raise ConfigurationError(f"invalid Retention({name}={value!r}): use a finite number {bound}")


def _check_integer(kind: str, name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(f"invalid {kind}({name}={value!r}): use an integer of at least {least}")


@record(kw_only=True)
class SummaryStyle:
    """Settings for how summaries are written. Raises `ConfigurationError` if a value is invalid."""

    sections: tuple[str, ...] = SECTIONS
    """Headings of the summary, in order."""
    instructions: str = ""
    """Added to the engine's request for a summary."""
    model: str | None = None
    """Id of the model that writes the summaries. None: the model of the conversation, which reads most of the request
    from its cache."""
    words: int = 1_000
    """Words that a summary should have at most."""

    def __post_init__(self) -> None:
        if not self.sections or not all(isinstance(each, str) and each.strip() for each in self.sections):
            raise ConfigurationError(f"invalid SummaryStyle(sections={self.sections!r}): use headings")
        _check_integer("SummaryStyle", "words", self.words, 50)


@record(kw_only=True)
class Retention:
    """Settings for what stays in the view. Raises `ConfigurationError` if a value is invalid.

    `floor`, `keep`, `users` and `frees` are shares of the window if they are less than 1, else tokens.
    """

    floor: float = 0.5
    """Size of the conversation below which nothing is summarized."""
    keep: float = 0.08
    """The newest messages, which stay when older ones are summarized."""
    users: float = 0.25
    """The user's messages that stay: the newest, up to this size. The first and the newest one always stay."""
    frees: float = 0.3
    """What a summary must free at least; a third of it in a full window where no summary frees as much."""
    patience: float = 2.5
    """Ratio of carrying cost to price at which messages are summarized before the window is full. 1 is cheapest in the
    long run; a higher value keeps more in view."""
    price: float = 0.03
    """Largest price of a summary before the window is full, as a share of the bill so far."""
    soft_limit: int | None = None
    """Tokens that a request should have at most, although the model takes more. The conversation may have half of them
    however long system prompt and tools are. None: the model's limit."""
    max_result_tokens: int = 20_000
    """Tokens that a tool result may have, unless its tool sets a lower limit."""
    summaries: bool = True
    """True to summarize older messages, False to omit them."""
    style: SummaryStyle = SummaryStyle()
    """How summaries are written."""

    def __post_init__(self) -> None:
        for name in ("floor", "keep", "users", "frees", "price"):
            _check_number(name, getattr(self, name), 0.0, inclusive=True)
        _check_number("patience", self.patience, 0.0, inclusive=False)
        _check_integer("Retention", "max_result_tokens", self.max_result_tokens, 1)
        if self.soft_limit is not None:
            _check_integer("Retention", "soft_limit", self.soft_limit, 1)
        if not isinstance(self.summaries, bool):
            raise ConfigurationError(f"invalid Retention(summaries={self.summaries!r}): use True or False")
