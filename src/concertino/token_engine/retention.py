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


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigurationError(f"invalid Retention({name}={value!r}): use a finite number of at least 0")


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

    `floor` and `users` are shares of the window if they are less than 1, else tokens. So is `frees` of the view.
    """

    floor: float = 0.7
    """Size of the conversation below which nothing is summarized."""
    users: float = 0.25
    """The user's messages that stay: the newest, up to this size. The first and the newest one always stay."""
    frees: float = 0.8
    """What a summary must free at least, as a share of the view; a third of it is enough in a full window."""
    price: float = 0.03
    """Largest price of a summary before the window is full, as a share of the bill so far."""
    max_result_tokens: int = 20_000
    """Tokens that a tool result may have, unless its tool sets a lower limit."""
    summaries: bool = True
    """True to summarize older messages, False to omit them."""
    style: SummaryStyle = SummaryStyle()
    """How summaries are written."""

    def __post_init__(self) -> None:
        for name in ("floor", "users", "frees", "price"):
            _check_number(name, getattr(self, name))
        _check_integer("Retention", "max_result_tokens", self.max_result_tokens, 1)
        if not isinstance(self.summaries, bool):
            raise ConfigurationError(f"invalid Retention(summaries={self.summaries!r}): use True or False")
