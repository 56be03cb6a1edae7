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


_LETTERS = str.maketrans("", "", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = str.maketrans("", "", "0123456789")

# Weighted least squares against o200k_base on prose, JSON, source code and random hexadecimal text: 90 % of
# 2,000-character pieces of prose and code come out within 19 %, of JSON within 20 % (mean 0.9 to 1.02).
_PER_LETTER, _PER_DIGIT, _PER_SPACE, _PER_LINE, _PER_SIGN = 0.19, 0.95, 0.28, 0.58, 0.33
_SHORT = 32
"""Characters of a text that is not worth looking at: three to a token are rather too few."""
_PER_FOREIGN = 0.75  # letters beyond ASCII: between Cyrillic (0.4) and rarer scripts (1.0)


class EstimatingCounter:
    """Estimates o200k tokens from how many letters, digits, spaces and signs a text has."""

    name = "character classes"
    exact = False

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        size = len(text)
        if size < _SHORT and text.isascii():
            return (size + 2) // 3
        plain = text if text.isascii() else text.encode("ascii", "ignore").decode()
        foreign = size - len(plain)
        signs = plain.translate(_LETTERS)
        letters = len(plain) - len(signs)
        rest = signs.translate(_DIGITS)
        digits = len(signs) - len(rest)
        spaces, lines = rest.count(" "), rest.count("\n")
        estimate = (
            letters * _PER_LETTER
            + digits * _PER_DIGIT
            + spaces * _PER_SPACE
            + lines * _PER_LINE
            + (len(rest) - spaces - lines) * _PER_SIGN
            + foreign * _PER_FOREIGN
        )
        return min(int(estimate + 0.999), size + 3 * foreign)

    def cut(self, text: str, limit: int) -> str:
        """See `TokenCounter.cut`."""
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.count(text[:middle]) <= limit:
                low = middle
            else:
                high = middle - 1
        return text[:low]
