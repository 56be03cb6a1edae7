"""Ranking: BM25 chooses the candidates; coverage of the query, headings and adjacency order them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from ..library import Hit, Source
from .index import ROW_BITS
from .terms import STOP_WORDS, Term, query_terms, stem

_WEIGHTS = "4.0, 3.0, 1.0, 0.7"
"""Of BM25's columns: title, headings, body and hidden words."""
_CANDIDATES = 200
_CHANGE_FACTOR = 0.5
_SAME_DOCUMENT_FACTOR = 0.85
_SHORT = 300
_RARE = 0.005
"""Terms in a smaller share of the chunks all weigh the same."""
_WORD = re.compile(r'[^\W_]+')
_INTRODUCTION = re.compile(r'(?:introduction|overview|basics|usage|summary|abstract|description|example|getting started)s?$', re.I)
_ASKS_FOR_CHANGES = re.compile(
    r"\b(?:changelog|chang(?:ed|es)|release[ds]?|version|since when|when (?:was|were|did)|what'?s new|"
    r"added|removed|deprecated|introduced|dropped)\b",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Candidate:
    row: int
    bm25: float
    length: int
    covered: float = 0.0
    """Share of the query that the chunk contains, rare terms counting for more."""
    headed: float = 0.0
    """The same share in the title and headings alone."""
    adjacent: float = 0.0
    """Share of the neighbouring terms of the query that are near each other in the chunk."""
    score: float = 0.0


def search(connection: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """Return the best chunks for *query*, best first. Later chunks of one document rank a little lower."""
    terms = query_terms(query)
    if not terms or limit < 1:
        return []
    found = _candidates(connection, terms)
    _measure(connection, terms, found)
    changes = 1.0 if _ASKS_FOR_CHANGES.search(query) else _CHANGE_FACTOR
    stems = {stem(word) for word in _WORD.findall(query.lower()) if word not in STOP_WORDS}
    for row, title, headings, is_change in _described(connection, list(found)):
        named = next((name for name in reversed(headings.split("\n")) if name and not _INTRODUCTION.match(name)), title)
        words = [stem(word) for word in _WORD.findall(named.lower()) if word not in STOP_WORDS]
        precision = sum(word in stems for word in words) / max(len(words), 1)
        found[row].score = _score(found[row]) * (1 + precision) * (changes if is_change else 1.0)
    return _hits(connection, sorted(found.values(), key=lambda one: (-one.score, one.row)), limit)


def _score(candidate: _Candidate) -> float:
    fullness = min(1.0, 0.5 + 0.5 * candidate.length / _SHORT)  # BM25 prefers short chunks, readers do not
    return (
        candidate.bm25**0.5
        * (0.1 + candidate.covered) ** 1.5
        * (1 + 0.5 * candidate.headed)
        * (1 + 0.3 * candidate.adjacent)
        * fullness
    )


def _expression(variants: Sequence[str]) -> str:
    """Return the variants as an FTS5 query; each is quoted, so that no character acts as an operator."""
    return " OR ".join(f'"{one.rstrip("*")}"{"*" * one.endswith("*")}' for one in variants)


def _candidates(connection: sqlite3.Connection, terms: Sequence[Term]) -> dict[int, _Candidate]:
    expression = _expression([variant for term in terms for variant, _ in term.variants])
    rows = connection.execute(
        f"SELECT rowid, -bm25(chunks, {_WEIGHTS}) AS score, length(body) FROM chunks WHERE chunks MATCH ?"  # noqa: S608
        " ORDER BY score DESC LIMIT ?",
        (expression, _CANDIDATES),
    )
    return {row: _Candidate(row, score, length) for row, score, length in rows}


def _matches(connection: sqlite3.Connection, expression: str) -> set[int]:
    return {row for (row,) in connection.execute("SELECT rowid FROM chunks WHERE chunks MATCH ?", (expression,))}


def _measure(connection: sqlite3.Connection, terms: Sequence[Term], found: dict[int, _Candidate]) -> None:
    """Fill in how much of the query each candidate contains."""
    total = connection.execute("SELECT count(*) FROM chunks").fetchone()[0]
    weights = []
    for term in terms:
        covered: dict[int, float] = {}
        everywhere: set[int] = set()
        for variant, worth in sorted(term.variants, key=lambda one: one[1]):
            rows = _matches(connection, _expression([variant]))
            everywhere |= rows
            covered |= dict.fromkeys(rows & found.keys(), worth)
        weight = log(1 + total / (0.5 + _RARE * total + len(everywhere)))
        weights.append(weight)
        for row, worth in covered.items():
            found[row].covered += weight * worth
        headings = _expression([variant for variant, _ in term.variants])
        for row in _matches(connection, f"{{title headings}} : ({headings})") & covered.keys():
            found[row].headed += weight * covered[row]
    pairs = [(f'NEAR("{a.variants[0][0]}" "{b.variants[0][0]}", 4)', min(u, v))
             for (a, u), (b, v) in pairwise(zip(terms, weights, strict=True))
             if not (a.variants[0][0] + b.variants[0][0]).count("*")]  # fmt: skip
    for near, weight in pairs:
        for row in _matches(connection, near) & found.keys():
            found[row].adjacent += weight / sum(weight for _, weight in pairs)
    for candidate in found.values():
        candidate.covered /= sum(weights)
        candidate.headed /= sum(weights)


def _described(connection: sqlite3.Connection, rows: Sequence[int]) -> list[tuple[int, str, str, int]]:
    marks = ",".join("?" * len(rows))
    query = f"SELECT rowid, title, headings, is_change FROM chunks WHERE rowid IN ({marks})"  # noqa: S608
    return connection.execute(query, rows).fetchall()


def _hits(connection: sqlite3.Connection, ordered: Sequence[_Candidate], limit: int) -> list[Hit]:
    """Read the chunks of the best candidates, each text once."""
    earlier: dict[int, int] = {}
    for candidate in ordered:
        document = candidate.row >> ROW_BITS
        candidate.score *= _SAME_DOCUMENT_FACTOR ** earlier.get(document, 0)
        earlier[document] = earlier.get(document, 0) + 1
    hits: dict[str, Hit] = {}
    for candidate in sorted(ordered, key=lambda one: (-one.score, one.row)):
        source, title, location, headings, body, version, date = connection.execute(
            "SELECT source, documents.title, location, headings, body, version, date FROM chunks, documents"
            " WHERE chunks.rowid = ? AND documents.id = ?",
            (candidate.row, candidate.row >> ROW_BITS),
        ).fetchone()
        hits.setdefault(
            body,
            Hit(
                source=Source(id=source, title=title, location=location),
                headings=tuple(headings.split("\n")) if headings else (),
                snippet=body,
                version=version,
                date=date,
                score=candidate.score,
                coverage=round(candidate.covered, 2),
            ),
        )
        if len(hits) == limit:
            break
    return list(hits.values())
