"""Search terms: the variants under which a query's words, names and unspaced scripts are found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_CAMEL = re.compile(r"\b(?:[A-Z]?[a-z0-9]+|[A-Z]{2,}(?=[A-Z][a-z]))[A-Z][A-Za-z0-9]*\b")
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_HYPHENATED = re.compile(r"\b[A-Za-z]{2,}(?:-[A-Za-z]{2,})+\b")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002fa1f]+"
)
"""Runs of scripts that put no spaces between words, or attach particles to them as Korean does."""
_WORD = re.compile(r"[^\W_]+(?:(?:[._\-\u2019']|::)+[^\W_]+)*")
_MAX_TERMS = 32
STOP_WORDS = frozenset(
    """a about after again all also am an and any are as at be because been before being between both but by can cannot
    could did do does doing each few for from further had has have having he her here his how i if in into is it its
    itself just like may me might more most must my need no nor not now of off on once one only or other our out over
    own please same shall she should so some such tell than that the their them then there these they this those
    through to too under until up upon us use used using very was way we were what when where whether which while who
    whom whose why will with would you your explain describe difference differ s t re ve ll d m""".split()
)


@dataclass(frozen=True, slots=True)
class Term:
    """One word or name of a query, with the phrases that count as finding it."""

    variants: tuple[tuple[str, float], ...]
    """Phrases with the weight of a match, from 0 to 1."""


def hidden_words(text: str) -> str:
    """Return what FTS5's tokenizer does not see in *text*: parts of CamelCase, joined compounds, character pairs."""
    found: dict[str, None] = {}
    for word in _CAMEL.findall(text):
        found[" ".join(_CAMEL_PART.findall(word)).lower()] = None
    for compound in _HYPHENATED.findall(text):
        found[compound.replace("-", "").lower()] = None
    for run in UNSPACED.findall(text):
        found.update(dict.fromkeys(map("".join, pairwise(run))))
    return " ".join(found)


def query_terms(query: str) -> list[Term]:
    """Return the terms of *query*, each once. Stop words count only if there is nothing else."""
    query = UNSPACED.sub(lambda run: f" {run[0]} ", query.replace("\0", " ").encode("utf-8", "ignore").decode())
    words = [re.sub(r"['\u2019](?:s|t|re|ve|ll|d|m)$", "", word) for word in _WORD.findall(query)[: 8 * _MAX_TERMS]]
    useful = [word for word in words if word.lower() not in STOP_WORDS] or words
    found: dict[Term, None] = {}
    for place, word in enumerate(useful):
        for term in _terms(word):
            joined = [word + other for other in useful[place + 1 : place + 2]] + [
                other + word for other in useful[max(place - 1, 0) : place]
            ]
            extra = tuple((one.lower(), 0.8) for one in joined if one.isascii() and one.isalpha() and len(word) > 2)
            found[Term(term.variants + extra)] = None
    return list(found)[:_MAX_TERMS]


def _terms(word: str) -> list[Term]:
    if UNSPACED.fullmatch(word):
        pairs = ["".join(pair) for pair in pairwise(word)]
        return [Term(((pair, 1.0),)) for pair in pairs] or [Term(((f"{word}*", 1.0),))]
    parts = re.split(r"\.+|::", word)
    if len(parts) > 1:
        tails = [".".join(parts[place:]) for place in range(len(parts))]
        name = Term(tuple((tail, 0.5 if place == len(parts) - 1 else 1.0) for place, tail in enumerate(tails)))
        return [name, Term(((parts[0].lower(), 1.0),))]
    variants = [(word.lower(), 1.0)]
    if _CAMEL.fullmatch(word):
        variants.append((" ".join(_CAMEL_PART.findall(word)).lower(), 0.9))
    if "-" in word:
        variants.append((word.replace("-", "").lower(), 0.9))
    return [Term(tuple(variants))]


def stem(word: str) -> str:
    """Return *word* without its most common endings, so that `retries`, `retried` and `retrying` compare equal."""
    for ending in ("ing", "ies", "ied", "es", "ed", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word[: -len(ending)]
    return word
