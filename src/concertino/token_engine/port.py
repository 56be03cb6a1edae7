"""The port of all token counters."""

from __future__ import annotations

from typing import Protocol


class TokenCounter(Protocol):
    """Counts tokens of a text. Never uses the network."""

    name: str
    """Goes into usage records as the way in which an estimate was made."""
    exact: bool
    """Whether this is the tokenizer of the model, or an estimate."""

    def count(self, text: str) -> int:
        """The number of tokens of *text*; at most its length in UTF-8 bytes."""
        ...

    def cut(self, text: str, limit: int) -> str:
        """The longest beginning of *text* of at most *limit* tokens by this counter."""
        ...
