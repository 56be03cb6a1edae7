"""Ranking: BM25 finds candidates; coverage of the query and matching headings put them in order."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from itertools import chain
from math import log, sqrt

from ...records import record
from ...text import STOP_WORDS, bigrams, runs, stems
from ..library import Hit, Source

ROW_BITS = 20
"""A chunk's row number is its document's, shifted by this many bits, plus the chunk's index in the document."""
_WEIGHTS = "4.0, 3.0, 1.0, 0.7"  # of title, headings, body and hidden words, for BM25
_HIT = f"""SELECT source, documents.title, location, headings, body, version, date
    FROM chunks JOIN documents ON documents.id = chunks.rowid >> {ROW_BITS} WHERE chunks.rowid = ?"""  # noqa: S608
_FIND = f"""SELECT rowid, -bm25(chunks, {_WEIGHTS}), length(body), is_change, highlight(chunks, 0, char(1), char(2)),
    highlight(chunks, 1, char(1), char(2)) FROM chunks WHERE chunks MATCH ? ORDER BY 2 DESC LIMIT ?"""  # noqa: S608
_MARKED = re.compile(r"\x01([^\x02]*)\x02")
_CANDIDATES, _MOST_TERMS, _SHORT, _CHANGELOG, _LEAD = 200, 32, 300, 0.5, 1.1
_CAMEL = re.compile(r"\b(?:[A-Z]?[a-z0-9]+|[A-Z]{2,}(?=[A-Z][a-z]))[A-Z][A-Za-z0-9]*\b")
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_COMPOUND = re.compile(r"\b[A-Za-z]{2,}(?:-[A-Za-z]{2,})+\b")
_WORD = re.compile(r"[^\W_]+(?:(?:[._\-]|::)+[^\W_]+)*(?:['\u2019][^\W_]+)?")
_ASKS_FOR_CHANGES = re.compile(
    r"\b(?:changelog|chang(?:ed|es)|release[ds]?|version|since|when (?:was|were|did)|what'?s new|added|removed"
    r"|deprecated|introduced|dropped)\b", re.IGNORECASE
)  # fmt: skip


@record(frozen=False)
class _Candidate:
    row: int
    bm25: float
    length: int
    is_change: bool
    title: str  # the words of the query are between the characters 1 and 2, as in `headings`
    headings: str
    covered: float = 0.0  # the share of the query in the chunk; rare terms count for more
    headed: float = 0.0  # the share of the query in the chunk's title and headings


def hidden_words(text: str) -> str:
    """Return the words that FTS5 does not see in *text*: parts of CamelCase, joined compounds, pairs of characters."""
    found = [" ".join(_CAMEL_PART.findall(word)) for word in _CAMEL.findall(text)]
    found += [compound.replace("-", "") for compound in _COMPOUND.findall(text)]
    found += [pair for run, unspaced in ([] if text.isascii() else runs(text)) if unspaced for pair in bigrams(run)]
    return " ".join(dict.fromkeys(found))


def _terms(query: str) -> list[dict[str, float]]:
    """Return the terms of *query*: phrases, any of which counts as finding the term, and their worth from 0 to 1."""
    query = query.replace("\0", " ").encode("utf-8", "ignore").decode()
    words = [re.sub(r"['\u2019]\w+$", "", word) for word in _WORD.findall(query)[: 4 * _MOST_TERMS]]
    words = [word for word in words if word.lower() not in STOP_WORDS] or words
    found: list[dict[str, float]] = []
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        names = re.split(r"\.+|::", word)
        if any(unspaced for _, unspaced in runs(word)):
            parts = [(bigrams(run) or [f"{run}*"]) if unspaced else [run] for run, unspaced in runs(word)]
            found += [{part: 1.0} for part in chain(*parts)]
        elif len(names) > 1:  # a dotted name is also found by its tail, and by its last part at half the worth
            found += [{".".join(names[at:]): 1.0 if at < len(names) - 1 else 0.5 for at in range(len(names))}]
            found += [{names[0]: 1.0}]
        else:
            joined = [one for one in (before + word, word + after) if one != word and one.isascii() and one.isalpha()]
            camel = [" ".join(_CAMEL_PART.findall(word))] if _CAMEL.fullmatch(word) else []
            found.append(dict.fromkeys(joined, 0.8) | dict.fromkeys([*camel, word.replace("-", "")], 0.9) | {word: 1.0})
    return list({tuple(term): term for term in found}.values())[:_MOST_TERMS]


def _expression(phrases: Iterable[str]) -> str:
    """Return an FTS5 query for any of *phrases*; they are quoted, so that no character acts as an operator."""
    return " OR ".join(f'"{one.rstrip("*")}"{"*" * one.endswith("*")}' for one in phrases)


def search(connection: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """Return the best chunks for *query*, best first."""
    terms = _terms(query)
    if not terms or limit < 1:
        return []
    phrases = dict.fromkeys(chain(*terms))
    found = {row[0]: _Candidate(*row) for row in connection.execute(_FIND, (_expression(phrases), _CANDIDATES))}
    _measure(connection, terms, found)
    hits: dict[str, Hit] = {}
    for candidate in sorted(found.values(), key=lambda one: (-_score(query, one), one.row)):
        if len(hits) < limit:
            *source, headings, body, version, date = connection.execute(_HIT, (candidate.row,)).fetchone()
            hits[body] = hits.get(body) or Hit(
                source=Source(id=source[0], title=source[1], location=source[2]),
                headings=tuple(filter(None, headings.split("\n"))), snippet=body, version=version, date=date,
                score=_score(query, candidate), coverage=round(candidate.covered, 2),
            )  # fmt: skip
    return list(hits.values())


def _measure(connection: sqlite3.Connection, terms: list[dict[str, float]], found: dict[int, _Candidate]) -> None:
    """Fill in how much of the query each candidate contains."""

    def matches(expression: str) -> set[int]:
        return {row for (row,) in connection.execute("SELECT rowid FROM chunks WHERE chunks MATCH ?", (expression,))}

    total, whole = connection.execute("SELECT count(*) FROM chunks").fetchone()[0], 0.0
    for term in terms:
        worths: dict[int, float] = {}
        for phrase, worth in sorted(term.items(), key=lambda one: one[1]):
            worths |= dict.fromkeys(matches(_expression([phrase])), worth)
        weight = log(1 + total / (0.5 + len(worths)))
        whole += weight
        headed = matches(f"{{title headings}} : ({_expression(term)})")
        for row in worths.keys() & found.keys():
            found[row].covered += weight * worths[row]
            found[row].headed += weight * worths[row] * (row in headed)
    for candidate in found.values():
        candidate.covered, candidate.headed = candidate.covered / whole, candidate.headed / whole


def _score(query: str, one: _Candidate) -> float:
    """Return BM25, damped, times how much of the query the chunk covers and how well its heading names the topic."""
    heading = one.headings.rpartition("\n")[2] or one.title
    topic = len(stems(" ".join(_MARKED.findall(heading)))) / max(len(stems(heading)), 1)
    factor = _CHANGELOG if one.is_change and not _ASKS_FOR_CHANGES.search(query) else 1.0
    factor *= _LEAD if one.row % 2**ROW_BITS == 0 else 1.0  # the beginning introduces the topic
    factor *= min(1.0, 0.5 + 0.5 * one.length / _SHORT)  # BM25 prefers short chunks, readers do not
    return factor * sqrt(one.bm25 * (0.1 + one.covered) ** 3) * (1 + 0.5 * one.headed) * (1 + topic)
