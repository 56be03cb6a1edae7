"""Searching: in which words to search, and which of the pages found to open."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .evidence import Findings, judge, tightness
from .fitness import is_named
from .pages import snippet_page
from .questions import Question
from .quotes import Quote
from .synonyms import plain_synonyms
from .transcript import Hit
from .words import is_identifier, joined_form, stem, stems

_OPEN_FIRST = 4
_OPEN_LATER = 3
_RELEVANT = 0.3
_ELSEWHERE = re.compile(
    r"\b(?:superseded[- ]by|replaced by|see also|see|use|instead of|prefer|deprecated in favou?r of|in favou?r of)"
    r":?\s+(?:the\s+)?[\"'`]?([A-Za-z_][\w.]*(?:\s\d+)?)",
    re.IGNORECASE,
)


def first_queries(question: Question) -> list[str]:
    """One to three phrasings: all its words, its names or main thing alone, and other words for the same."""
    words = [term.word for term in question.terms if term.weight > 0.3] or [term.word for term in question.terms]
    found = [" ".join([*words[:12], *filter(None, map(joined_form, words[:12]))])]
    names = [term.word for term in question.terms if is_identifier(term.word)]
    if names:
        found += names[:2]
    elif question.focus and len(question.content) > 2:
        found.append(question.focus)
    if not names:
        found.append(" ".join(_reworded(question)[:12]))
    return _distinct(found)[:3]


def later_queries(question: Question, findings: Findings, quotes: Sequence[Quote], made: Sequence[str]) -> list[str]:
    """What to search for after the first pages: names that they point to, terms not yet covered, other words."""
    found: list[str] = []
    if quotes:
        found += _pointed_to(question, quotes)[:1]
        found += _uncovered(question, quotes)[:1]
    else:
        present = [term for term in question.content if term not in findings.missing]
        if findings.missing and len(present) > 1:
            found.append(" ".join(term.word for term in present))
        found.append(" ".join(_reworded(question)))
        found += sorted((term.word for term in question.content), key=len, reverse=True)[:1]
    known = {_key(query) for query in made}
    return [query for query in _distinct(found) if _key(query) not in known][:2]


def pages_to_open(question: Question, hits: Sequence[Hit], opened: Sequence[Hit] = ()) -> list[Hit]:
    """The hits that are worth opening, best first; *opened* is what has been opened before."""
    known = {hit.id for hit in opened}
    by_id: dict[str, list[Hit]] = {}
    for hit in hits:
        if hit.id not in known and hit.location:
            by_id.setdefault(hit.id, []).append(hit)
    groups = list(by_id.values())
    snippets = ["\n\n".join(dict.fromkeys(hit.snippet for hit in group)) for group in groups]
    pages = [
        snippet_page(group[0].id, group[0].title, group[0].location, snippet)
        for group, snippet in zip(groups, snippets, strict=True)
    ]
    findings = judge(question, pages)
    worth = [0.0] * len(groups)
    for candidate in findings.candidates:
        worth[candidate.page] = max(worth[candidate.page], candidate.covered + 0.5 * candidate.score)
    ranks = [sum(1 / (4 + hit.place) for hit in group) for group in groups]
    names = [term.word for term in question.content] if question.kind == "difference" else []
    for place, group in enumerate(groups):
        worth[place] += 0.5 if is_named(group[0].title, question.focus) and worth[place] else 0.0
        worth[place] += 0.4 * tightness(question, pages[place]) if worth[place] else 0.0
        # Of things compared each has a page of its own, and none of these need speak of the other.
        worth[place] += 0.5 if any(is_named(group[0].title, name) for name in names) else 0.0
    order = sorted(range(len(groups)), key=lambda index: (-(worth[index] + ranks[index]), index))
    good = [groups[index][0] for index in order if worth[index] >= _RELEVANT]
    if opened:
        return good[:_OPEN_LATER]
    # What the search itself holds to be best is opened in any case: it has seen all of the page, not a passage.
    first = [groups[0][0]] if groups and (worth[0] or not good) else []
    return [*good[: _OPEN_FIRST - 1], *(hit for hit in [*first, *good[_OPEN_FIRST - 1 :]] if hit not in good[:3])][
        :_OPEN_FIRST
    ]


def _reworded(question: Question) -> list[str]:
    """The question's words, with those that have synonyms replaced."""
    found: list[str] = []
    for term in question.content:
        others = () if term.named else plain_synonyms(term.word)
        found += others[:2] if others else (term.word,)
    return found


def _pointed_to(question: Question, quotes: Sequence[Quote]) -> list[str]:
    asked = {term.stem for term in question.terms}
    names = (match[1] for quote in quotes for match in _ELSEWHERE.finditer(quote.text))
    return [name for name in names if stem(name) not in asked and (is_identifier(name) or " " in name)]


def _uncovered(question: Question, quotes: Sequence[Quote]) -> list[str]:
    """A query for the terms that no quote mentions, together with the main thing."""
    mentioned = frozenset(form for quote in quotes for form in stems(f"{quote.label} {quote.text}"))
    left = [term.word for term in question.content if not term.grade(mentioned)]
    return [" ".join([*question.focus.split(), *left])] if left else []


def _distinct(queries: Sequence[str]) -> list[str]:
    found: dict[str, str] = {}
    for query in queries:
        if query.strip():
            found.setdefault(_key(query), query.strip())
    return list(found.values())


def _key(query: str) -> str:
    return " ".join(sorted({stem(word) for word in query.split()}))
