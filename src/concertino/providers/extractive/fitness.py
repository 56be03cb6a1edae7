"""Fitness: how well a sentence fits the kind of a question, and whether it says what a thing is."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile

from .cues import heads_answer, is_aside, kind_bonus, points_back, quality, says_what, speaks_of_itself
from .pages import Page
from .questions import Question
from .words import is_content, listed, stem, stems


def fitness(question: Question, page: Page, place: int) -> float:
    """How well a sentence fits the kind of question and can stand alone: a factor around 1."""
    sentence = page.sentences[place]
    factor = 1.0 + 0.35 * kind_bonus(question.kind, sentence.text, sentence.heading)
    if points_back(sentence.text):
        factor *= 0.5 if sentence.first else 0.85
    if question.kind == "definition":
        defining = defines(question, page, place)
        factor *= 1.0 + (0.9 if defining == 1.0 else 0.6 * defining)
    if (category := _category(question.text)) and category not in sentence.stems:
        factor *= 0.5  # `Which PEP` is answered by naming one
    if is_aside(sentence.heading) and not is_aside(question.text):
        factor *= 0.6
    if sentence.kind == "item" and question.kind not in ("how", "why") and _is_asked_field(question, sentence.text):
        factor *= 2.0
    if place == page.start and page.location and page.title.startswith(page.location):
        # A docstring's first sentence says what the thing is for.
        factor *= 1.25
    if sentence.code and question.kind == "how":
        factor *= 1.15
    return factor * quality(sentence.text, item=sentence.kind == "item")


@lru_cache(maxsize=64)
def _category(text: str) -> str:
    """The stem of what a question asks one of: `which PEP`, `what method`; empty if it asks for nothing of the kind."""
    match = re.match(r"\W*(?:which|what) ([^\W\d_]{3,}) \w", text, re.IGNORECASE)
    return stem(match[1]) if match and is_content(match[1]) else ""


def _is_asked_field(question: Question, text: str) -> bool:
    """Whether a line such as `Status: Final` says just what was asked for."""
    key, colon, _ = text.partition(": ")
    if not colon or len(key) > 40:
        return False
    asked = {term.stem for term in question.content}
    return all(part in asked for part in stems(key))


def defines(question: Question, page: Page, place: int) -> float:
    """From 0 to 1: whether a sentence says what the thing asked about is."""
    sentence = page.sentences[place]
    focus = [stem(word) for word in question.focus.split()] or [term.stem for term in question.content]
    if not focus:
        return 0.0
    in_title = all(part in page.stems for part in focus)
    if place == page.start and in_title:
        return 1.0 if is_named(page.title, question.focus) else 0.7
    if in_title and speaks_of_itself(sentence.text):
        return 0.9 if heads_answer("definition", sentence.heading) or place < page.start + 5 else 0.2
    if sentence.first and all(part in frozenset(stems(sentence.heading)) for part in focus):
        return 0.7
    words = sentence.text.split()[: len(focus) + 3]
    subject = takewhile(lambda word: word.casefold() not in _PREPOSITIONS, words)
    opening = frozenset(stems(" ".join(subject)))
    return 0.8 if all(part in opening for part in focus) and says_what(sentence.text) else 0.0


def is_named(title: str, focus: str) -> bool:
    """Whether a page's own name is *focus*, and not a longer name that holds it."""
    name = title.partition(" (")[0]
    if len(focus.split()) > 1:
        return focus.casefold() in name.casefold()
    return bool(focus) and stem(focus) in (stem(name), stem(re.split(r"[./\s]", name)[-1]))


_PREPOSITIONS = listed("of in for with from to on by like as when if is are was")
