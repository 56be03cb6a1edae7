# ruff: noqa: RUF001 - the scripts of the world have letters that look alike
"""The port of token counters, and the default counter."""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol


class TokenCounter(Protocol):
    """Counts the tokens of a text without network access."""

    name: str
    """Recorded with each estimated usage record."""
    exact: bool
    """True for the model's own tokenizer, False for an estimate."""

    def count(self, text: str) -> int:
        """Return the number of tokens in *text*; at most its length in UTF-8 bytes."""
        ...

    def cut(self, text: str, limit: int) -> str:
        """Return the longest prefix of *text* that has at most *limit* tokens by this counter."""
        ...


# A linear program fitted these to o200k_base on 500 texts of 150 kinds, so that each is between 0.95 and 1.6 and prose
# and code are near 1.15: other tokenizers make more tokens. Letters that are rare in words measure how random a text
# is: a word has few and is one token; a key, a name in camel case or a rare language has many, and more tokens. So do
# three vowels, which other languages have more of than English. Signs are what is in no class.
_CLASSES: tuple[tuple[bytes, float], ...] = (
    (b"aio", 0.3),
    (b"cdeflmnprstu", 0.04),  # common in words
    (b"bghjkqvwxyz", 1.07),
    (b" ", 0.32),
    (b"0123456789", 1.24),
    (b"AIO", 0.59),  # a capital has 0.29 more
    (b"CDEFLMNPRSTU", 0.33),
    (b"BGHJKQVWXYZ", 1.36),
    (bytes([*range(9), *range(11, 32), 127]), 1.21),  # control characters
)
_PER_SIGN, _BEYOND_ASCII = 0.66, bytes(range(128, 256))
_SHAPE = bytes.maketrans(b"123456789\t,=_.*#~+", b"000000000 :-------")
_RUNS = ((b"000", -2.24), (b" " * 4, -0.5), (b" " * 16, -3.0), (b"-" * 4, -2.53), (b"\n" * 4, -2.36), (b'":"', -1.6))
"""Corrections for what has fewer tokens than characters, by its shape: numbers, blanks, rules, and JSON's signs."""
_TABS, _PER_TABS = b"\t" * 4, -1.05
_SHORT = 32
"""Characters of an ASCII text below which a third of its length is close enough."""


class EstimatingCounter:
    """Estimates o200k tokens from the scripts, letters, digits, spaces and signs of a text."""

    name = "character classes"
    exact = False

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        ascii_only = text.isascii()
        if ascii_only and len(text) < _SHORT:
            return (len(text) + 2) // 3
        rest = encoded = text.encode("utf-8", "surrogatepass")
        shape = encoded.translate(_SHAPE)
        estimate = sum([shape.count(run) * weight for run, weight in _RUNS]) + encoded.count(_TABS) * _PER_TABS
        if not ascii_only:
            rest = encoded.translate(None, _BEYOND_ASCII)
            estimate += foreign_tokens(text, encoded, len(rest))
        left = len(rest)
        for characters, weight in _CLASSES:
            rest = rest.translate(None, characters)
            estimate += (left - len(rest)) * weight
            left = len(rest)
        return min(max(int(estimate + left * _PER_SIGN + 0.999), 1), len(encoded))

    def cut(self, text: str, limit: int) -> str:
        """See `TokenCounter.cut`."""
        if self.count(text) <= limit:
            return text
        lengths = range(1, len(text) + 1)
        return text[: bisect_right(lengths, limit, key=lambda length: self.count(text[:length]))]


# Letters that are common in the words of a script are nearly free, as in ASCII, and all others are nearly a token each:
# so words have few tokens, and letters at random have many. The letters were selected so that prose, lists of names,
# random letters and pieces of 60 to 300 characters of them have between 0.9 and 1.6 times the tokens of o200k_base.
_ACCENTED = 1.4
_PER_COMMON_LETTER = 0.1
_SCRIPTS: tuple[tuple[float, bytes, str], ...] = (
    (1.6, b"\x20", ""),  # punctuation
    (1.8, bytes(range(0x21, 0x28)), ""),  # symbols, lines of boxes
    (_ACCENTED, b"\x01\x02", "ə"),
    (1.0, bytes([*range(0x31, 0x34), *range(0x4E, 0xA0)]), ""),  # Chinese
    (1.6, b"\x30", "ーいントしドをクでアてッルさイにるシ"),  # Japanese
    (0.85, bytes(range(0xAC, 0xD8)), ""),  # Korean
    (1.2, b"\x04", "еотаснлиурывмьқәіОЕА"),
    (1.25, b"\x05", "יוהלארןעקכ" + "անոերիտվհ։ւպմև"),
    (1.3, b"\x06", "لاتمرنوعکيهشےقہسأح"),
    (1.3, b"\x1e", "ạầếộớựủểốừềậọẹị"),  # Vietnamese
    (1.6, b"\x03", "αεοιντσρκπίέήςΗά"),
    (1.6, b"\x09", "ा्रकिनतसेमवोपहलीैआंअ" + "াি্রেনকসতয়বছগলভষপ"),  # Devanagari, Bengali
    (1.6, b"\x0a", "ਾਕਤੇਰਿਦਹੰਟੋਆਸ਼ਲ੍" + "ારક્વનેતિોયંમગસપુખ"),  # Gurmukhi, Gujarati
    (1.6, b"\x0b", "ାୁୈ" + "்துகிமடவாலறனயளஅ"),  # Odia, Tamil
    (1.6, b"\x0c", "ి్నాువరకయంేీడశట" + "್ಿನುಾರದತಕಲಗೂಂಅಯಸ"),  # Telugu, Kannada
    (1.6, b"\x0d", "്കിതുാനമചരലടളസംീങയ" + "්යකිීනුැාේෙෝෑසොූං"),  # Malayalam, Sinhala
    (1.6, b"\x0e", "านรอกม่งั้ดทละเหิีต"),  # Thai
    (1.6, b"\x10", "်းုာေိအင့ံ၊။မျ၏" + "აიემსრდოლვთცფშკზ"),  # Burmese, Georgian
    (1.6, b"\x17", "ា្រកនសប់ំពើ។"),  # Khmer
    (1.1, bytes(range(0xD8, 0xE0)), ""),  # half an emoji
    (2.1, b"\x07\x0f\x12\xff", ""),  # Syriac, Tibetan, Ethiopic, wide letters
    (3.0, bytes(range(256)), ""),  # all others
)
"""Tokens of o200k_base per UTF-16 unit, by its high byte, and the letters that have fewer: those common in words."""
_PARTS_OF_SCRIPTS = (
    (b"\x02", 0.85, (b"\xc9", b"\xca", b"\xcb")),  # phonetic letters
    (b"\x03", 0.3, (b"\xcc", b"\xcd")),  # combining accents
    (b"\x0e", 1.1, (b"\xe0\xba", b"\xe0\xbb")),  # Lao
    (b"\xd8", 1.4, (b"\xf0",)),  # old scripts, rare Chinese and
    (b"\xd8", -1.4, (b"\xf0\x9f",)),  # not emoji
)
"""Scripts that share a high byte with another one: what they have more per character, and how their UTF-8 begins."""
_SAMPLE, _PER_DIFFERENT = 1_000, 1.25
"""Of the first characters of prose, at most 60 % and 30 are different; others are rare, and have more tokens."""


def foreign_tokens(text: str, encoded: bytes, plain: int) -> float:
    """Return the estimated tokens of the characters beyond ASCII; *plain* is the number of the others."""
    highs = text.encode("utf-16-be", "surrogatepass")[::2]
    left = highs.translate(None, b"\0")
    estimate = (len(highs) - len(left) - plain) * _ACCENTED
    for weight, bytes_, common in _SCRIPTS:
        if not left:
            break
        rest = left.translate(None, bytes_)
        if len(rest) < len(left):
            estimate += weight * (len(left) - len(rest))
            estimate -= (weight - _PER_COMMON_LETTER) * sum(map(text.count, common))
            left = rest
    for high, more, beginnings in _PARTS_OF_SCRIPTS:
        if high in highs:
            estimate += more * sum(map(encoded.count, beginnings))
    sample = text[:_SAMPLE]
    if len(set(sample)) > 0.6 * len(sample) + 30:
        estimate += _PER_DIFFERENT * (len(text) - plain)
    return estimate
