"""Retention: the settings for what the view keeps."""

from __future__ import annotations

from ..errors import ConfigurationError
from ..number_checks import check_amount, check_size, check_whole
from ..records import record


@record(kw_only=True)
class SummaryStyle:
    """Settings for how summaries are written. Raises `ConfigurationError` if a value is invalid."""

    sections: tuple[str, ...] = (
        "The user's words: requests, constraints and corrections, word for word",
        "Decisions, with their reasons",
        "Files, ids and numbers touched, exactly as they were",
        "Errors, with their fixes",
        "Done",
        "Open",
        "Next step",
    )
    """Headings of the summary, in order."""
    instructions: str = ""
    """Added to the engine's request for a summary."""
    model: str | None = None
    """Id of the model that writes the summaries. None: the model of the conversation, which reads most of the request
    from its cache."""
    words: int = 600
    """Words that a summary should have at most."""

    def __post_init__(self) -> None:
        sections: object = self.sections
        listed = isinstance(sections, tuple | list) and bool(sections)
        if not listed or not all(isinstance(each, str) and each.strip() for each in self.sections):
            raise ConfigurationError(f"SummaryStyle(sections={sections!r:.80}): use a tuple of headings")
        if not isinstance(self.instructions, str):
            raise ConfigurationError(f"SummaryStyle(instructions={self.instructions!r:.80}): use text")
        if self.model is not None and not (isinstance(self.model, str) and self.model):
            raise ConfigurationError(f"SummaryStyle(model={self.model!r:.80}): use the id of a model, or None")
        check_whole("SummaryStyle", "words", self.words, 50)


@record(kw_only=True)
class Retention:
    """Settings for what stays in the view: shares of the window if below 1, else tokens.

    Raises `ConfigurationError` if a value is invalid.
    """

    floor: float = 0.7
    """Size of the conversation below which nothing is summarized."""
    users: float = 0.25
    """The user's messages that stay: the newest, up to this size. The first and the newest one always stay."""
    frees: float = 0.8
    """The smallest share of the view that a summary must free; in a full window, a third of it is enough."""
    price: float = 0.03
    """Largest price of a summary before the window is full, as a share of the bill so far."""
    max_result_tokens: int = 20_000
    """Tokens that a tool result may have, unless its tool sets a lower limit."""
    summaries: bool = True
    """True to summarize older messages, False to omit them."""
    style: SummaryStyle = SummaryStyle()
    """How summaries are written."""

    def __post_init__(self) -> None:
        check_size("Retention", "floor", self.floor, "window")
        check_size("Retention", "users", self.users, "window")
        check_size("Retention", "frees", self.frees, "view")
        check_amount("Retention", "price", self.price, "a finite share of the bill", zero=True, finite=True)
        check_whole("Retention", "max_result_tokens", self.max_result_tokens)
        if not isinstance(self.summaries, bool):
            raise ConfigurationError(f"Retention(summaries={self.summaries!r}): use True or False")
        if not isinstance(self.style, SummaryStyle):
            raise ConfigurationError(f"Retention(style={self.style!r:.80}): use a SummaryStyle")
