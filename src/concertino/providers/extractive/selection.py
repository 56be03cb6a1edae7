"""Selection: from judged sentences to an answer that reads well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .cues import heads_answer, points_back, quality
from .evidence import Findings
from .fitness import is_named
from .judging import Candidate
from .pages import Page, Sentence
from .questions import Kind
from .quotes import APART, Quote
from .words import stem

_RELATIVE = 0.62
"""How good a sentence must be, compared with the best one."""
_COVERED = 0.55
_WORTH = 0.4
"""How much of the question a sentence must cover to stand beside the best, or where nothing answers."""
_READABLE = 0.5
"""How well a sentence must read on its own."""
_HELPFUL = 0.25
_TOLD, _OPENING = 700, 350
"""Characters that are told of a short page, and of the opening of a long one."""
_SHORT_PAGE = 30
_PER_PAGE = 4
_LIST_ITEMS = 7
_LIST_LENGTH = 900
_SAME = 0.7

_SHOWN = ("how", "definition")
"""Kinds of questions whose answer is the better for an example in program text."""

_LISTED = ("difference", "list")
_FEW = 6
_POINTED = ("who", "when", "amount")
"""Kinds of questions that one fact answers."""
_FLOORS: dict[Kind, float] = {"who": 0.7, "when": 0.7, "amount": 0.7, "definition": 0.5}

Place = tuple[int, int]


def select(findings: Findings, limit: int = 6) -> list[Quote]:
    """The best sentences, each with what it needs to be understood, by source and in its order.

    Nothing if the pages do not answer the question and are not even about its subject.
    """
    if not findings.answers and not findings.related:
        return []
    kind = findings.question.kind
    chosen = _chosen(findings, 3 if kind in _POINTED else limit, _FLOORS.get(kind, _RELATIVE))
    chosen += _for_uncovered(findings, chosen)
    wanted: dict[Place, None] = {}
    for candidate in chosen:
        company = _with_company(kind, findings.pages[candidate.page], candidate.place)
        wanted.update(dict.fromkeys((candidate.page, place) for place in company))
    if kind in _SHOWN and chosen:
        example = _example(findings.pages[chosen[0].page], chosen[0])
        wanted.update(dict.fromkeys((chosen[0].page, place) for place in example))
    if kind not in _POINTED:
        wanted.update(dict.fromkeys(_told_at_home(findings, wanted)))
    order: dict[int, int] = {}
    for candidate in chosen:
        order.setdefault(candidate.page, len(order))
    for page, _ in wanted:
        order.setdefault(page, len(order))
    places = sorted(wanted, key=lambda place: (order[place[0]], place[1]))
    return _quotes(findings.pages, [place for place in places if not _dangles(findings.pages, place, wanted)])


def _for_uncovered(findings: Findings, chosen: Sequence[Candidate]) -> list[Candidate]:
    """For each part of the question that no chosen sentence speaks of, the best sentence that does."""
    found: list[Candidate] = []
    for term in findings.question.content:
        speaking = [candidate.sentence for candidate in (*chosen, *found)]
        if not chosen or any(term.grade(sentence.stems) >= 0.6 for sentence in speaking):
            continue
        fit = [c for c in findings.candidates if term.grade(c.sentence.stems) >= 0.6 and _is_fit(c)]
        fit = [c for c in fit if not any(_alike(c.sentence, sentence) for sentence in speaking)]
        best = max(fit, key=lambda candidate: candidate.score, default=None)
        if best is not None and best.score >= _HELPFUL * chosen[0].score:
            found.append(best)
    return found


def _told_at_home(findings: Findings, wanted: Mapping[Place, None]) -> list[Place]:
    """More of the page that is about the very thing asked for: a short one nearly whole, of a long one its opening."""
    pages = dict.fromkeys(page for page, _ in wanted) or dict.fromkeys([findings.home or 0])
    home = next((page for page in pages if is_named(findings.pages[page].title, findings.question.focus)), None)
    if home is None:
        return []
    page = findings.pages[home]
    taken = sum(len(page.sentences[place].text) for index, place in wanted if index == home)
    most = _TOLD if len(page.sentences) <= _SHORT_PAGE else _OPENING
    found: list[Place] = []
    for place in range(page.start, min(len(page.sentences), page.start + _SHORT_PAGE)):
        sentence = page.sentences[place]
        if (home, place) in wanted or quality(sentence.text, item=sentence.kind == "item") < _READABLE:
            continue
        if sentence.kind == "item" or sentence.section != page.sentences[page.start].section:
            continue
        taken += len(sentence.text)
        if taken > most:
            break
        found.append((home, place))
    return found


def _is_fit(candidate: Candidate) -> bool:
    sentence = candidate.sentence
    return candidate.covered >= _WORTH and quality(sentence.text, item=sentence.kind == "item") >= _READABLE


def _dangles(pages: Sequence[Page], place: Place, wanted: Mapping[Place, None]) -> bool:
    """Whether a sentence announces something that is not quoted."""
    page, index = pages[place[0]], place[1]
    announces = page.sentences[index].text.endswith(":") and not page.sentences[index].code
    follows = (place[0], index + 1) in wanted and page.sentences[index + 1].intro == index
    return announces and not follows


def _chosen(findings: Findings, limit: int, relative: float) -> list[Candidate]:
    """The best candidates that do not say the same, best first."""
    ranked = sorted(findings.candidates, key=lambda found: (-found.score, found.page, found.place))
    least = _COVERED if findings.answers else _WORTH
    fit = [found for found in ranked if found.covered >= least and _is_fit(found)]
    if not findings.answers:
        # Where nothing answers, only what is about the very thing is worth showing.
        focus = {stem(word) for word in findings.question.focus.split()}
        about = [found for found in fit if not findings.pages[found.page].stems.isdisjoint(focus)]
        fit = about or [found for found in fit if found.page == fit[0].page]
    if findings.question.kind == "definition":
        # What is called just so is what was asked for; what only has the word in its name is something else.
        own = [found for found in fit if is_named(findings.pages[found.page].title, findings.question.focus)]
        fit = own or fit
    if not fit:
        return []
    floor = fit[0].score * relative
    taken: list[Candidate] = []
    per_page: dict[int, int] = {}
    for candidate in fit[: limit * 20]:
        full = per_page.get(candidate.page, 0) >= _PER_PAGE or len(taken) >= limit
        if candidate.score < floor or full or any(_alike(candidate.sentence, other.sentence) for other in taken):
            continue
        taken.append(candidate)
        per_page[candidate.page] = per_page.get(candidate.page, 0) + 1
    return taken


def _alike(one: Sentence, other: Sentence) -> bool:
    union = len(one.stems | other.stems)
    return union == 0 or len(one.stems & other.stems) / union > _SAME


def _with_company(kind: Kind, page: Page, place: int) -> list[int]:
    """A sentence with the one it leans on, the list it introduces, or the words that introduce its list."""
    sentence = page.sentences[place]
    if sentence.kind == "item" and kind in _POINTED:
        return [place]
    if sentence.kind == "item":
        return _with_list(kind, page, place)
    found = [place]
    while points_back(page.sentences[found[0]].text) and len(found) < 3 and found[0] > 0:
        before = page.sentences[found[0] - 1]
        if before.paragraph < sentence.paragraph - 1 or before.section != sentence.section or before.kind == "item":
            break
        found.insert(0, found[0] - 1)
    if len(found) == 1 and sentence.kind == "prose":
        found = _short_paragraph(page, place)
    if kind in _LISTED:
        found += _items_after(page, place)
    if sentence.text.endswith(":"):
        items = _items(page, place)
        if not items and not sentence.code:
            return found[:-1]
        found += items
    return found


def _items_after(page: Page, place: int) -> list[int]:
    """The items that directly follow a sentence, if they are few: they say what it has announced."""
    found: list[int] = []
    for after in range(place + 1, min(len(page.sentences), place + 1 + _FEW)):
        if page.sentences[after].kind != "item" or page.sentences[after].section != page.sentences[place].section:
            return found
        found.append(after)
    return found if len(found) < _FEW else []


def _short_paragraph(page: Page, place: int) -> list[int]:
    """A paragraph of two sentences is quoted whole."""
    paragraph = page.sentences[place].paragraph
    span = range(max(0, place - 2), min(len(page.sentences), place + 3))
    found = [one for one in span if page.sentences[one].paragraph == paragraph and page.sentences[one].kind == "prose"]
    whole = len(found) == 2 and all(quality(page.sentences[one].text, item=False) >= 0.7 for one in found)
    return found if whole else [place]


def _items(page: Page, intro: int) -> list[int]:
    found: list[int] = []
    for place in range(intro + 1, min(len(page.sentences), intro + 1 + _LIST_ITEMS)):
        if page.sentences[place].intro != intro:
            break
        found.append(place)
    return found


def _with_list(kind: Kind, page: Page, place: int) -> list[int]:
    """An item with its introduction; a short list that is introduced or numbered is quoted whole."""
    sentence = page.sentences[place]
    intro = sentence.intro
    if intro is not None and intro < place:
        items = _items(page, intro)
        short = sum(len(page.sentences[item].text) + len(page.sentences[item].code) for item in items) < _LIST_LENGTH
        return [intro, *items] if place in items and short and kind != "why" else [intro, place]
    first = last = place
    while first > 0 and _is_neighbour(page.sentences[first - 1], sentence):
        first -= 1
    while last + 1 < len(page.sentences) and _is_neighbour(page.sentences[last + 1], sentence):
        last += 1
    run = list(range(first, last + 1))
    belongs = any(page.sentences[one].marker for one in run) or heads_answer(kind, sentence.heading)
    return run if belongs and len(run) <= _LIST_ITEMS + 1 else [place]


def _example(page: Page, best: Candidate) -> list[int]:
    """The first program text of a short page, or of the best sentence's section, if a sentence introduces it."""
    for place, sentence in enumerate(page.sentences):
        if len(page.sentences) > _SHORT_PAGE and sentence.section != best.sentence.section:
            continue
        if sentence.code and (sentence.text.endswith(":") or re.search(r"\bexample", sentence.text, re.IGNORECASE)):
            return [place]
    return []


def _is_neighbour(one: Sentence, other: Sentence) -> bool:
    return one.kind == "item" and one.paragraph == other.paragraph


def _quotes(pages: Sequence[Page], places: Sequence[Place]) -> list[Quote]:
    found: list[Quote] = []
    for index, place in places:
        page = pages[index]
        sentence = page.sentences[place]
        keeps_code = sentence.code and (sentence.text.endswith(":") or quality(sentence.text, item=False) >= 0.7)
        found.append(
            Quote(
                sentence.text,
                (page.id,),
                label(page, sentence),
                sentence.kind,
                sentence.code if keeps_code else "",
                sentence.marker,
            )
        )
    return found


def label(page: Page, sentence: Sentence) -> str:
    """Where a sentence stands, for people."""
    title = page.title.replace("*", "").strip()[:110]
    heading = re.sub(r"\(.*\)?$", "()", sentence.heading) if "." in sentence.heading else sentence.heading
    heading = heading.replace("*", "").strip()
    if not heading or heading.casefold() in title.casefold():
        return title
    return heading if title.casefold() in heading.casefold() else f"{title}{APART}{heading}"
