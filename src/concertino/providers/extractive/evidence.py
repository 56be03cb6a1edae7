"""Evidence: which sentences of the opened pages answer a question, and whether any does.

A sentence counts by the terms of the question that it mentions, rare ones for more; what stands around it (its
paragraph, its heading, its page's title) counts for less. One term that stands nowhere weighs as much as a question
has to lose: that is how a question about something else is told from one that these pages answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

from .fitness import is_named
from .judging import ANSWERS, RELATED, Candidate, Grades, PageJudge
from .pages import Page
from .questions import Question, Term
from .words import is_identifier, stem, stems

_ONE_FACT = ("why", "who", "when", "amount")
"""Kinds of questions to which something close is no help."""
_LEAST = 4
"""Letters that each part of a compound must have: of shorter ones there are too many by chance."""


@dataclass(slots=True)
class Findings:
    """All sentences of some pages, judged for one question."""

    question: Question
    pages: Sequence[Page]
    candidates: list[Candidate]
    """Of each page, in its order; sentences that have nothing to do with the question are left out."""
    missing: tuple[Term, ...]
    """The terms that stand nowhere."""

    @property
    def best(self) -> Candidate | None:
        """The sentence with the highest score."""
        return max(self.candidates, key=lambda candidate: candidate.score, default=None)

    @property
    def answers(self) -> bool:
        """Whether what was found is an answer rather than something that looks like one."""
        lacking = sum(1 for term in self.missing if term.weight > 0.3)
        if lacking * 4 >= max(1, len(self.question.content)) and lacking:
            return False
        return any(candidate.covered >= ANSWERS for candidate in self.candidates)

    @property
    def related(self) -> bool:
        """Whether what was found is at least about the thing asked for, though it may not answer."""
        focus = {stem(word) for word in self.question.focus.split()}
        if (
            self.question.kind in _ONE_FACT
            or not focus
            or any(term.stem in focus and term.weight > 0.3 for term in self.missing)
        ):
            return False
        lacking = sum(term.weight for term in self.missing)
        whole = sum(term.weight for term in self.question.terms)
        best = max((candidate.covered for candidate in self.candidates), default=0.0)
        return lacking <= 0.5 * whole and (best >= RELATED or self.home is not None)

    @property
    def home(self) -> int | None:
        """The page that is about the very thing asked for, if that is a name from a program."""
        focus = self.question.focus
        if not is_identifier(focus):
            return None
        return next((index for index, page in enumerate(self.pages) if is_named(page.title, focus)), None)


def judge(question: Question, pages: Sequence[Page]) -> Findings:
    """Score all sentences of *pages* for *question*; takes time in proportion to their length."""
    question = replace(question, terms=_with_compounds(question.terms, pages))
    terms = question.terms
    own = [[[term.grade(sentence.stems) for term in terms] for sentence in page.sentences] for page in pages]
    titles = [[term.grade(page.stems) for term in terms] for page in pages]
    weights = _weights(terms, own, titles)
    missing = tuple(
        term for index, term in enumerate(terms)
        if not any(title[index] for title in titles) and not any(grades[index] for page in own for grades in page)
    )  # fmt: skip
    candidates: list[Candidate] = []
    if sum(weights) > 0 and not any(term.named for term in missing):
        entitled = [sum(w * g for w, g in zip(weights, title, strict=True)) / sum(weights) for title in titles]
        most = max(entitled, default=0.0)
        for index, page in enumerate(pages):
            found = PageJudge(question, weights, page, own[index], titles[index]).candidates(index)
            factor = _standing(question, entitled[index], most) * _naming(question, index, titles)
            factor *= 0.8 + 0.3 * tightness(question, page)
            for candidate in found:
                candidate.score *= factor
            candidates += found
    return Findings(question, pages, candidates, missing)


def tightness(question: Question, page: Page) -> float:
    """How much of a page's title is what was asked for: a longer title is about something more special."""
    words = set(stems(re.sub(r"\(.*?\)|\d+", "", page.title)))
    asked = {term.stem for term in question.terms}.union(*(term.parts for term in question.terms))
    return len(words & asked) / len(words) if words else 0.0


def _with_compounds(terms: Sequence[Term], pages: Sequence[Page]) -> tuple[Term, ...]:
    """Terms such as `deepcopy`, which a page may write as `deep copy`, with the words that they are made of."""
    known: set[str] = set()
    for page in pages:
        known.update(page.stems, *(sentence.stems for sentence in page.sentences))
    return tuple(replace(term, parts=_split(term.word, known)) if not term.parts else term for term in terms)


def _split(word: str, known: set[str]) -> tuple[str, ...]:
    word = word.casefold()
    if word.isalpha() and word.isascii():
        for place in range(_LEAST, len(word) - _LEAST + 1):
            pair = stem(word[:place]), stem(word[place:])
            if known.issuperset(pair):
                return pair
    return ()


def _standing(question: Question, entitled: float, most: float) -> float:
    """A factor for a page by its title: where one names what is asked for, the others name something else."""
    if most < 0.6 or question.kind == "difference":
        return 1.0
    gap = most - entitled
    return max(0.2, 1.0 - 0.9 * gap - (0.2 if most > 0.9 and gap > 0.05 else 0.0))


def _naming(question: Question, index: int, titles: Sequence[Grades]) -> float:
    """A factor for a page whose title lacks a proper name of the question that another title has."""
    if question.kind == "difference":
        return 1.0
    named = [i for i, term in enumerate(question.terms) if term.named and any(title[i] for title in titles)]
    return 0.6 if any(not titles[index][i] for i in named) else 1.0


def _weights(terms: Sequence[Term], own: Sequence[Sequence[Grades]], titles: Sequence[Grades]) -> Grades:
    """Each term's weight, less where it is common in the texts at hand; in full where it does not occur."""
    total = max(60, sum(len(page) for page in own))
    found: Grades = []
    for index, term in enumerate(terms):
        hits = sum(1 for page in own for grades in page if grades[index]) + sum(1 for title in titles if title[index])
        rarity = log((total + 1) / (hits + 1)) / log(total + 1)
        found.append(term.weight * (0.35 + 0.65 * rarity))
    return found
