"""The words by which a memory is found again: the same for every store."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

MOST_WORDS = 64
"""Of a query; more would find everything."""

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+)"
)


def words(text: str) -> list[str]:
    """The words of *text*, without case and accents, to be indexed.

    Scripts without spaces (Chinese, Japanese, Thai, …) give each character and each pair of neighbours.
    """
    found: list[str] = []
    for run, unspaced in _runs(text):
        found.extend(run if unspaced else [run])
        if unspaced:
            found.extend(_pairs(run))
    return found


def query_words(query: str) -> list[str]:
    """The distinct words to look for, at most `MOST_WORDS`: of unspaced scripts the pairs, which say more."""
    found: dict[str, None] = {}
    for run, unspaced in _runs(query):
        found.update(dict.fromkeys(_pairs(run) if unspaced and len(run) > 1 else [run]))
        if len(found) >= MOST_WORDS:
            break
    return list(found)[:MOST_WORDS]


def _pairs(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)]


def _runs(text: str) -> list[tuple[str, bool]]:
    apart = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(char for char in apart if unicodedata.category(char) != "Mn")
    plain = unicodedata.normalize("NFC", bare)
    # With its one group, `split` puts the unspaced runs at the odd places.
    return [
        (run, place % 2 == 1) for word in _WORD.findall(plain) for place, run in enumerate(_UNSPACED.split(word)) if run
    ]
