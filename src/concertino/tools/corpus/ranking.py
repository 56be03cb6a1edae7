"""From a question to passages, best first.

BM25 chooses the candidates. They are then ordered by BM25 times how much of the question they answer (rare words
count for more), and documents that the question calls by their name come first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from ..library import Hit, Source
from . import words
from .index import ROW_BITS

_WEIGHTS = "6.0, 2.5, 1.0, 0.8"
"""Of title, heading, body and hidden words."""
_CANDIDATES = 300
_PER_DOCUMENT = 2
_NAMED_IN_PASSING = 1.6
"""The factor for a document whose name stands in a longer question."""
_SHORT = 400
_SHORTEST_FACTOR = 0.8
_RICH = 0.1
_COVERAGE = (0.25, 0.75, 0.3)
"""What counts at any rate, by the share that the passage answers, and by the share that its document answers."""


@dataclass(slots=True)
class _Candidate:
    row: int
    score: float

    @property
    def document(self) -> int:
        return self.row >> ROW_BITS


def search(connection: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """The best passages for a question in anyone's words, at most two of a document."""
    asked = words.terms(query)
    if not asked or limit < 1:
        return []
    candidates = _candidates(connection, query, asked)
    _boost_rich(candidates)
    _boost_named(connection, query, candidates)
    named = _called_by(connection, query, candidates)
    ordered = sorted(candidates.values(), key=lambda candidate: -candidate.score)
    top = ordered[0].score if ordered else 1.0
    first = [_Candidate(row, 2 * top + len(named) - place) for place, row in enumerate(named)]
    rows = {candidate.row for candidate in first}
    chosen = _spread([*first, *(candidate for candidate in ordered if candidate.row not in rows)], limit)
    return [hit for candidate in chosen if (hit := _hit(connection, candidate))]


def _candidates(connection: sqlite3.Connection, query: str, asked: Sequence[words.Term]) -> dict[int, _Candidate]:
    expression = " OR ".join([term.expression for term in asked] + [f'"{pair}"' for pair in words.phrases(query)])
    found = connection.execute(
        f"SELECT rowid, -bm25(passages, {_WEIGHTS}) AS score, length(body) FROM passages WHERE passages MATCH ?"  # noqa: S608
        " ORDER BY score DESC LIMIT ?",
        (expression, _CANDIDATES),
    ).fetchall()
    candidates = {row: _Candidate(row, score * _fullness(length)) for row, score, length in found}
    if len(asked) > 1:
        _weigh_coverage(connection, asked, candidates)
    return candidates


def _fullness(length: int) -> float:
    """BM25 likes short passages, readers do not: a line or two seldom answers a question."""
    return min(1.0, _SHORTEST_FACTOR + (1 - _SHORTEST_FACTOR) * length / _SHORT)


def _weigh_coverage(
    connection: sqlite3.Connection, asked: Sequence[words.Term], candidates: dict[int, _Candidate]
) -> None:
    """Multiply each score by the share of the question, rare words counting for more, that the passage answers.

    What the rest of its document answers counts as well, but for less.
    """
    total = connection.execute("SELECT count(*) FROM documents").fetchone()[0] * 4 + 1
    passages = dict.fromkeys(candidates, 0.0)
    documents = dict.fromkeys((candidate.document for candidate in candidates.values()), 0.0)
    whole = 0.0
    for term in asked:
        query = "SELECT rowid FROM passages WHERE passages MATCH ?"
        rows = {row for (row,) in connection.execute(query, (term.expression,))}
        # A word that stands nowhere cannot tell passages apart.
        weight = log(1 + total / (1 + len(rows))) if rows else 0.0
        whole += weight
        for row in passages.keys() & rows:
            passages[row] += weight
        for document in documents.keys() & {row >> ROW_BITS for row in rows}:
            documents[document] += weight
    for row, candidate in candidates.items():
        if whole:
            base, by_passage, by_document = _COVERAGE
            share, shared = passages[row] / whole, documents[candidate.document] / whole
            candidate.score *= base + by_passage * share + by_document * shared


def _boost_rich(candidates: dict[int, _Candidate]) -> None:
    """Raise the passages of documents that have several good ones: such a document is about the question."""
    scores: dict[int, list[float]] = {}
    for candidate in sorted(candidates.values(), key=lambda candidate: -candidate.score):
        scores.setdefault(candidate.document, []).append(candidate.score)
    for candidate in candidates.values():
        others = scores[candidate.document][1:4]
        candidate.score += _RICH * sum(others) / 3


def _boost_named(connection: sqlite3.Connection, query: str, candidates: dict[int, _Candidate]) -> None:
    """Raise the passages of documents whose name stands in the question."""
    names = words.names_in(query)
    if not names:
        return
    marks = ",".join("?" * len(names))
    rows = {row for (row,) in connection.execute(f"SELECT row FROM names WHERE key IN ({marks})", names)}  # noqa: S608
    documents = {row >> ROW_BITS for row in rows}
    for candidate in candidates.values():
        if candidate.row in rows or candidate.document in documents:
            candidate.score *= _NAMED_IN_PASSING


def _called_by(connection: sqlite3.Connection, query: str, candidates: dict[int, _Candidate]) -> list[int]:
    """The passages that the whole question names, such as `asyncio.TaskGroup`: one of each document, best first."""
    name = words.normal(words.clean(query))
    found = connection.execute(
        "SELECT row, location FROM names JOIN documents ON documents.id = row >> ? WHERE key = ?",
        (ROW_BITS, name),
    ).fetchall()

    def order(found_row: tuple[int, str]) -> tuple[bool, bool, int, float]:
        row, location = found_row
        score = candidates[row].score if row in candidates else 0.0
        plain = words.normal(location)
        return plain != name, not plain.endswith(f".{name}"), location.count("."), -score

    rows: dict[int, int] = {}
    for row, _location in sorted(found, key=order):
        rows.setdefault(row >> ROW_BITS, row)
    return list(rows.values())


def _spread(ordered: Iterable[_Candidate], limit: int) -> list[_Candidate]:
    """The best passage of each document; then, where there is room, the second best."""
    places: dict[int, int] = {}
    first, second = [], []
    for candidate in ordered:
        place = places.get(candidate.document, 0)
        places[candidate.document] = place + 1
        if place == 0:
            first.append(candidate)
        elif place < _PER_DOCUMENT:
            second.append(candidate)
    chosen = (first + second)[:limit]
    return sorted(chosen, key=lambda candidate: -candidate.score)


def _hit(connection: sqlite3.Connection, candidate: _Candidate) -> Hit | None:
    row = connection.execute(
        "SELECT source, title, location, (SELECT body FROM passages WHERE rowid = ?) FROM documents WHERE id = ?",
        (candidate.row, candidate.document),
    ).fetchone()
    if row is None or row[3] is None:
        return None
    return Hit(source=Source(id=row[0], title=row[1], location=row[2]), snippet=row[3], score=candidate.score)
