"""The port of token counters, and the default counter."""

from __future__ import annotations

from typing import Protocol


class TokenCounter(Protocol):
    """Counts the tokens of a text without network access."""

    name: str
    """The counter's name, recorded with each estimated usage record."""
    exact: bool
    """True for the model's own tokenizer, False for an estimate."""

    def count(self, text: str) -> int:
        """Return the number of tokens in *text*; at most its length in UTF-8 bytes."""
        ...

    def cut(self, text: str, limit: int) -> str:
        """Return the longest prefix of *text* that has at most *limit* tokens by this counter."""
        ...


_VOWELS = b"aioAIO"
_COMMON = b"cdeflmnprstuCDEFLMNPRSTU"
_CAPITALS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTERS = b"abcdefghijklmnopqrstuvwxyz" + _CAPITALS
_DIGITS = b"0123456789"
_CONTROLS = bytes([*range(9), *range(11, 32), 127])
_BEYOND_ASCII = bytes(range(128, 256))

# A linear program fitted these to o200k_base on 500 texts of 150 kinds, so that each is between 0.95 and 1.6 and prose
# and code are near 1.15: other tokenizers make more tokens. Letters that are rare in words measure how random a text
# is: a word has few and is one token; a key, a name in camel case or a rare language has many, and more tokens. So do
# three vowels, which other languages have more of than English.
_PER_VOWEL, _PER_COMMON, _PER_RARE, _PER_CAPITAL = 0.3, 0.04, 1.07, 0.29
_PER_DIGIT, _PER_SPACE, _PER_SIGN, _PER_CONTROL = 1.24, 0.32, 0.66, 0.55
_SHAPE = bytes.maketrans(b"123456789\t,=_.*#~+", b"000000000 :-------")
_RUNS = (
    (b"000", -2.24),
    (b" " * 4, -0.5),
    (b" " * 16, -3.0),
    (b"-" * 4, -2.53),
    (b"\n" * 4, -2.36),
    (b'":"', -1.6),
)
"""Corrections for what has fewer tokens than characters, by its shape: numbers, blanks, rules, and JSON's signs."""
_SHORT = 32
"""Characters of an ASCII text below which a third of its length is close enough."""

_ACCENTED = 1.4
_SCRIPTS: tuple[tuple[float, bytes], ...] = (
    (1.6, bytes([*range(0x1F, 0x30), *range(0xF9, 0xFF)])),  # punctuation, symbols, lines of boxes
    (_ACCENTED, b"\x01\x02"),
    (0.37, b"\x04\x09\x0b\x0d"),  # Cyrillic, Devanagari, Bengali, Tamil, Malayalam
    (0.34, b"\x06"),  # Arabic
    (1.0, bytes([*range(0x30, 0x34), *range(0x4E, 0xAC)])),  # Japanese, Chinese
    (0.85, bytes(range(0xAC, 0xD8))),  # Korean
    (1.1, bytes(range(0xD8, 0xE0))),  # half an emoji
    (0.5, b"\x03\x0e"),  # Greek, Thai
    (0.47, b"\x05\x0c"),  # Armenian, Hebrew, Telugu, Kannada
    (0.62, b"\x0a\x10\x17"),  # Gurmukhi, Gujarati, Burmese, Khmer
    (0.05, b"\x1e"),  # Vietnamese, besides its other letters
    (1.8, b"\x07\x08\x0f\x11\xff"),  # Syriac, Tibetan, wide letters
    (2.7, bytes([*range(0x12, 0x1E), *range(0xE0, 0xF9)])),  # Ethiopic, private use
    (3.0, bytes(range(0x34, 0x4E))),  # rare Chinese
)
"""Tokens of o200k_base per UTF-16 unit, by its high byte."""
_PARTS_OF_SCRIPTS = (
    (b"\x02", 0.6, (b"\xc9", b"\xca", b"\xcb")),  # phonetic letters
    (b"\x03", 1.5, (b"\xcc", b"\xcd")),  # combining accents
    (b"\x0b", 0.9, (b"\xe0\xac", b"\xe0\xad")),  # Odia
    (b"\x0d", 0.4, (b"\xe0\xb6", b"\xe0\xb7")),  # Sinhala
    (b"\x0e", 1.5, (b"\xe0\xba", b"\xe0\xbb")),  # Lao
    (b"\x10", -0.25, (b"\xe1\x83",)),  # Georgian
    (b"\x13", 0.6, (b"\xe1\x8e", b"\xe1\x8f")),  # Cherokee
)
"""Scripts that share a high byte with another one: what they have more per character, and how their UTF-8 begins."""
_ENDS_OF_CAPITALS, _PER_CAPITALIZED = bytes(range(0x90, 0xAA)), 0.4
"""Second bytes of most Greek and Cyrillic capitals in UTF-8, and what capitals have more, apart from some initials."""
_TABS, _PER_TABS = b"\t" * 4, -1.05
_DIFFERENT, _PER_DIFFERENT = 600, 1.25
"""Of a thousand characters of prose, fewer are different; others are rare, and have more tokens."""


class EstimatingCounter:
    """Estimates o200k tokens from the scripts, letters, digits, spaces and signs of a text."""

    name = "character classes"
    exact = False

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        ascii_only = text.isascii()
        if ascii_only and len(text) < _SHORT:
            return (len(text) + 2) // 3
        plain = encoded = text.encode("utf-8", "surrogatepass")
        shape = encoded.translate(_SHAPE)
        estimate = sum([shape.count(run) * weight for run, weight in _RUNS]) + encoded.count(_TABS) * _PER_TABS
        if not ascii_only:
            plain = encoded.translate(None, _BEYOND_ASCII)
            estimate += _foreign(text, encoded, len(plain))
        no_vowels = plain.translate(None, _VOWELS)
        no_common = no_vowels.translate(None, _COMMON)
        no_letters = no_common.translate(None, _LETTERS)
        rest = no_letters.translate(None, _DIGITS)
        signs, spaces = len(rest), rest.count(b" ")
        estimate += (
            (len(plain) - len(no_vowels)) * _PER_VOWEL
            + (len(no_vowels) - len(no_common)) * _PER_COMMON
            + (len(no_common) - len(no_letters)) * _PER_RARE
            + (len(plain) - len(plain.translate(None, _CAPITALS))) * _PER_CAPITAL
            + (len(no_letters) - signs) * _PER_DIGIT
            + spaces * _PER_SPACE
            + (signs - spaces) * _PER_SIGN
            + (signs - len(rest.translate(None, _CONTROLS))) * _PER_CONTROL
        )
        return min(max(int(estimate + 0.999), 1), len(encoded))

    def cut(self, text: str, limit: int) -> str:
        """See `TokenCounter.cut`."""
        if self.count(text) <= limit:
            return text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.count(text[:middle]) <= limit:
                low = middle
            else:
                high = middle - 1
        return text[:low]


def _foreign(text: str, encoded: bytes, plain: int) -> float:
    """Return the estimated tokens of the characters beyond ASCII; *plain* is the number of the others."""
    highs = text.encode("utf-16-be", "surrogatepass")[::2]
    left = highs.translate(None, b"\0")
    estimate = (len(highs) - len(left) - plain) * _ACCENTED
    for weight, bytes_ in _SCRIPTS:
        if not left:
            break
        rest = left.translate(None, bytes_)
        estimate += weight * (len(left) - len(rest))
        left = rest
    for high, more, beginnings in _PARTS_OF_SCRIPTS:
        if high in highs:
            estimate += more * sum(map(encoded.count, beginnings))
    foreign = len(text) - plain
    if highs.count(b"\x03") + highs.count(b"\x04") > foreign / 2:
        capitals = len(encoded) - len(encoded.translate(None, _ENDS_OF_CAPITALS))
        estimate += _PER_CAPITALIZED * max(capitals - foreign // 8, 0)
    if len(set(text[:1_000])) > _DIFFERENT:
        estimate += _PER_DIFFERENT * foreign
    return estimate
