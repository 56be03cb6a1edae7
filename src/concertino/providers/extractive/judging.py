"""Judging one page: every sentence by what it says and by what stands around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from .cues import heads_answer, kind_bonus, proves
from .fitness import defines, fitness
from .pages import Page, Sentence
from .questions import Question
from .words import stems

Grades = list[float]
"""For each term of a question, how well some text mentions it."""

ANSWERS = 0.7
"""How much of a question must be covered where its answer stands."""
RELATED = 0.45
"""How much of it must be covered by what is worth showing where nothing answers."""
_LONG_PAGE = 40
_ABOUT = 0.85
"""How much of a question a page's opening must cover for the page to be about it."""
_AROUND = {
    "own": 1.0,
    "intro": 0.9,
    "paragraph": 0.6,
    "heading": 0.6,
    "title": 0.5,
    "topic": 0.35,
    "section": 0.3,
}
_ASKED = {
    "own": 1.0,
    "intro": 0.95,
    "paragraph": 0.9,
    "heading": 0.9,
    "title": 0.9,
    "topic": 0.35,
    "section": 0.25,
}


_HEADED = {"h": 1.0, "t": 1.0}


@dataclass(slots=True)
class Candidate:
    """A sentence, judged."""

    page: int
    place: int
    sentence: Sentence
    score: float
    covered: float
    """How much of the question it and what stands around it cover, from 0 to 1."""
    own: float
    """How much of the question the sentence itself covers."""


class PageJudge:
    """One page before one question; *own* holds the grades of its sentences, *title* those of its title."""

    def __init__(self, question: Question, weights: Grades, page: Page, own: Sequence[Grades], title: Grades) -> None:
        self.question = question
        self.weights = weights
        self.page = page
        self.own = own
        self.title = title
        self.topic = [term.grade(page.topic) for term in question.terms]
        self.about = self._part(self.topic)
        # The opening of a short page is all of it: there the title alone can say what it is about.
        self.sure = self._part(self.topic if len(page.sentences) >= _LONG_PAGE else title) >= _ABOUT
        content = [i for i, term in enumerate(question.terms) if term.weight > 0.3]
        self.open = [i for i in content if not title[i]]
        self.rarest = max(content, key=lambda i: weights[i], default=None)
        self.paragraphs = _pooled(page, own, lambda sentence: sentence.paragraph)
        self.sections = _pooled(page, own, lambda sentence: sentence.section)
        self.headings = {sentence.heading: self._grades(sentence.heading) for sentence in page.sentences}

    def candidates(self, index: int) -> list[Candidate]:
        """The sentences that have to do with the question, judged; the page is known as *index*."""
        if self.question.kind != "difference" and self._lacks_a_name():
            return []
        found = (self._candidate(index, place) for place in range(len(self.page.sentences)))
        return [candidate for candidate in found if candidate is not None]

    def _lacks_a_name(self) -> bool:
        """Whether a proper name of the question stands nowhere in the page. Of things compared it may know one."""
        rows = [self.title, *self.sections.values(), *self.headings.values()]
        terms = enumerate(self.question.terms)
        return any(term.named and not any(row[i] for row in rows) for i, term in terms)

    def _candidate(self, index: int, place: int) -> Candidate | None:
        sentence = self.page.sentences[place]
        answering = self.sure and heads_answer(self.question.kind, sentence.heading)
        levels = self._levels(place)
        if not answering and not self._is_related(levels):
            return None
        covered = self._covered(place, levels, answering)
        near, own = self._shares(place, levels, answering, covered)
        score = (0.55 * near + 0.45 * own) * (0.8 + 0.4 * self.about)
        score *= fitness(self.question, self.page, place)
        if self._opens_its_section(place, levels):
            # What a heading asks, the first sentence below it answers, often without repeating it.
            score, covered = (
                1.6 * score,
                max(covered, 0.9 * self._share({"h": levels["heading"], "t": self.title}, _HEADED)),
            )
        if not proves(self.question.kind, sentence.text):
            score, covered = 0.5 * score, 0.6 * covered
        return Candidate(index, place, sentence, score * covered, covered, own)

    def _opens_its_section(self, place: int, levels: Mapping[str, Grades]) -> bool:
        first = place == 0 or self.page.sentences[place - 1].section != self.page.sentences[place].section
        return first and bool(self.open) and all(levels["heading"][i] for i in self.open)

    def _levels(self, place: int) -> dict[str, Grades]:
        """What is mentioned in the sentence and, step by step, around it."""
        sentence = self.page.sentences[place]
        introduced = sentence.intro is not None and sentence.intro < place
        return {
            "own": self.own[place],
            "intro": self.own[sentence.intro or 0] if introduced else [],
            "paragraph": self.paragraphs[sentence.paragraph] if sentence.kind == "prose" else [],
            "heading": self.headings[sentence.heading],
            "title": self.title,
            "topic": self.topic,
            "section": self.sections[sentence.section],
        }

    def _is_related(self, levels: Mapping[str, Grades]) -> bool:
        """Whether a sentence adds something to what the title says already."""
        if not any(levels["own"]) and not any(self.title):
            return False
        close = [grades for level in ("own", "intro", "heading", "paragraph") if (grades := levels[level])]
        return not self.open or any(grades[i] for grades in close for i in self.open)

    def _covered(self, place: int, levels: Mapping[str, Grades], answering: bool) -> float:
        """How much of the question is asked for by the place where the sentence stands."""
        covered = self._share(levels, _ASKED)
        if answering:
            covered = max(covered, self.about)
        field = kind_bonus(self.question.kind, self.page.sentences[place].text, "") > 1
        if field and self.about >= 0.6:
            # A field made for this kind of question answers it for the page's subject.
            covered = max(covered, ANSWERS)
        lacks_rarest = self.rarest is not None and not any(grades[self.rarest] for grades in levels.values() if grades)
        return 0.85 * covered if lacks_rarest else covered

    def _shares(self, place: int, levels: Mapping[str, Grades], answering: bool, covered: float) -> tuple[float, float]:
        """How much of the question stands near, and how much in the sentence itself."""
        opening = self.question.kind == "definition" and place == self.page.start
        if opening and defines(self.question, self.page, place) == 1.0:
            return covered, covered
        own = self._part(
            [grade or 0.45 * entitled for grade, entitled in zip(self.own[place], self.title, strict=True)]
        )
        if answering and own < 0.6 * self.about:
            return 0.6 * self.about, 0.6 * self.about
        return self._share(levels, _AROUND), own

    def _part(self, grades: Grades) -> float:
        """The part of the question's weight that these grades earn."""
        return sum(weight * grade for weight, grade in zip(self.weights, grades, strict=True)) / sum(self.weights)

    def _share(self, levels: Mapping[str, Grades], factors: Mapping[str, float]) -> float:
        """The part of the question's weight that the best mention of each term earns, wherever it stands."""
        rows = [(factors[level], grades) for level, grades in levels.items() if grades]
        best = [max(factor * grades[i] for factor, grades in rows) for i in range(len(self.weights))]
        return self._part(best)

    def _grades(self, text: str) -> Grades:
        known = frozenset(stems(text))
        return [term.grade(known) for term in self.question.terms]


def _pooled(page: Page, own: Sequence[Grades], key: Callable[[Sentence], int]) -> dict[int, Grades]:
    """The best grades in each paragraph, or in each section."""
    pooled: dict[int, Grades] = {}
    rows = zip(page.sentences, own, strict=True)
    for group, members in groupby(rows, key=lambda row: key(row[0])):
        pooled[group] = [max(column) for column in zip(*(grades for _, grades in members), strict=True)]
    return pooled
