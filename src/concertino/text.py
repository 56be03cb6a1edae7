"""Texts of any script: their terms for full-text search, and the charset of a text file."""

from __future__ import annotations

import codecs
import re
import unicodedata
from itertools import pairwise

# Scripts that put no spaces between words, or attach particles to them: Thai and Lao, Myanmar, Khmer, kana, Han with
# its extensions and compatibility forms, Hangul.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+)"
)
_WORD = re.compile(r"[^\W_]+")
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
STOP_WORDS = frozenset(
    """a about again all also am an and any are as at be because been being between both but by can cannot could did do
    does doing each few for from further get gets had happen happens has have having he her here his how i if in into
    is it its itself just like make makes may me might more most must my need no nor not now of off on once one only
    or other our out over please shall she should so some such take takes tell than that the their them then there
    these they this those through to too under until up upon us use used using very was way we were what when where
    whether which while who whom whose why will with work works would you your explain describe difference differences
    different differ compare compared vs versus pros cons way ways want s t re ve ll d m""".split()  # noqa: SIM905 - a list takes a page
)
"""Words of English that say nothing about a topic."""


def marked_charset(data: bytes) -> str | None:
    """Return the charset that the byte order mark of *data* names, or None without one."""
    return next((charset for mark, charset in _MARKS.items() if data.startswith(mark)), None)


def fold(text: str) -> str:
    """Return *text* without case and accents, so that `Straße` and `STRASSE`, `é` and `e` compare equal."""
    # Compatibility forms decompose to capitals (`㎃` to `mA`), so decompose before and after folding the case.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    bare = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
    return unicodedata.normalize("NFC", bare)


def runs(text: str) -> list[tuple[str, bool]]:
    """Split *text* into maximal runs of letters and digits; the flag marks runs of a script without spaces."""
    # With its one group, `split` puts the unspaced runs at the odd indices.
    return [
        (run, index % 2 == 1) for word in _WORD.findall(text) for index, run in enumerate(_UNSPACED.split(word)) if run
    ]


def bigrams(run: str) -> list[str]:
    """Return each pair of neighbouring characters in *run*."""
    return [first + second for first, second in pairwise(run)]


def index_terms(text: str) -> list[str]:
    """Return the folded terms of *text* for a full-text index.

    A run of a script without spaces contributes each character and each pair of neighbours.
    """
    found: list[str] = []
    for run, unspaced in runs(fold(text)):
        found.extend([*run, *bigrams(run)] if unspaced else [run])
    return found


def query_terms(query: str, limit: int = 64) -> list[str]:
    """Return the distinct folded terms of *query* to search for, at most *limit*.

    A run of a script without spaces contributes its pairs, which are more selective than single characters.
    """
    found: dict[str, None] = {}
    for run, unspaced in runs(fold(query)):
        found.update(dict.fromkeys(bigrams(run) if unspaced and len(run) > 1 else [run]))
        if len(found) >= limit:
            break
    return list(found)[:limit]


def stem(word: str) -> str:
    """Return *word* without its most common endings: `retries`, `retried` and `retrying` compare equal."""
    for ending in ("ing", "ies", "ied", "es", "ed", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word[: -len(ending)]
    return word


def stems(text: str) -> set[str]:
    """Return the stems of the words of *text*, without stop words."""
    return {stem(word) for word in _WORD.findall(text.lower()) if word not in STOP_WORDS}
