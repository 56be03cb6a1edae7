"""Questions: what one is about, and what kind of sentence would answer it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from .synonyms import synonyms
from .words import STOPWORDS, WEAK, WORD, is_content, is_identifier, joined_form, listed, parts, stem

Kind = Literal["difference", "why", "when", "who", "amount", "how", "limits", "list", "yesno", "definition", "about"]

_PATTERNS: tuple[tuple[Kind, str], ...] = (
        ("difference", r"\bdiffer\w*\b|\bvs\b|\bversus\b|\bcompar(?:e|ed|ison)\b|\brather than\b|\bbetter than\b"),
        ("why", r"\bwhy\b|\bwhat problems?\b|\bwhat for\b|\bare \S+(?: \S+){0,3} for\W*$"
                r"|\b(?:reasons?|rationale|motivation|justification)\b|\bwhat is the point\b"),
        ("when", r"\bwhen (?:was|were|did|is|are|will|does|do(?! (?:i|you|we)\b))\b|\bwhat (?:year|date|time)\b"
                 r"|\bwhich (?:year|version|release)\b|\bhow (?:soon|long|old|late)\b|\bdeadline\b"),
        ("who", r"\bwho(?:se|m)?\b"),
        ("limits", r"\bshould(?:n't| (?:it|they|one|i|you|we|\S+) not| not)\b|\bwhen not\b|\blimits of\b|\blimits\W*$"
                   r"|\b(?:limitations?|drawbacks?|caveats?|restrictions?|pitfalls?"
                   r"|disadvantages?|downsides?)\b"),
        ("amount", r"\bhow (?:many|much|large|big|often|fast|high|far)\b|\b(?:fees?|costs?|price|rate|apr|apy|"
                   r"maximum|minimum|number|amount|size) (?:of|for|on|in)\b"),
        ("how", r"\bhow\b|\bwhen (?:should|to|do|can|must)\b|\b(?:steps|procedure|instructions?|way) (?:to|for"
                r"|of)\b"),
        ("list", r"^\W*which\b"),
        ("definition", r"^\W*what(?:'s|\u2019s| is| are| was)(?: an?| the)?(?: (?!of\b|for\b"
                       r"|on\b)[\w.\"'-]+){1,4}\W*$"
                       r"|\b(?:define|definition|meaning|meant|explain|describe|overview|introduc\w+|tell me"
                       r"|summar\w+)\b"),
        ("list", r"\bwhich\b|\bwhat\b.*\b(?:are|exist|available|supported|options?)\b|^\W*list\b|\b(?:types"
                 r"|kinds) of\b"),
        ("yesno", r"^\W*(?:can|could|is|are|was|were|does|do|did|should|must|may|will|has|have|am)\b"),
        ("definition", r"^\W*what does\b"),
)  # fmt: skip
_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)
_NAMING: dict[Kind, frozenset[str]] = {
    "limits": frozenset(stem(word) for word in listed("limit limitation drawback caveat restriction")),
    "why": frozenset(stem(word) for word in listed("reason rationale motivation justification add added introduce")),
    "when": frozenset(stem(word) for word in listed("year date time version release")),
}  # fmt: skip
_VERB_BEFORE = listed("i to we you they one should can could must cannot not please")
_MEASURES = listed(
    "long many much often far soon old big large high fast late early deep wide hot cold warm heavy thick tall strong"
)
_NUMERALS = listed("two three four five six seven eight nine ten first second third twice")
_VERSIONED = listed("python version versions release")
_SENTENCE_END = re.compile(r"[.!?:;]\s*[\"'“(]*$|^\W*$|[\"“]$")
_QUOTED = re.compile(r"[\"“`']([^\"“”`']{2,60})[\"”`'](?!\w)")
_FOLLOW_UP = re.compile(r"^\W*(?:and|but|also|so|then|or|what about|how about|what if|same)\b", re.IGNORECASE)
_EITHER = re.compile(r"([\w.-]+) or ([\w.-]*\w)")
_POINTER = re.compile(r"\b(?:it|its|they|them|their|that|this|those|these|one|ones)\b", re.IGNORECASE)
_PARTICIPLE = re.compile(r"[a-z]{3}ed$")


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that a question asks about, and what counts as a mention of it."""

    word: str
    stem: str
    others: frozenset[str]
    """Stems of synonyms."""
    parts: tuple[str, ...]
    """For a name made of several words: their stems, all of which together stand for it."""
    weight: float
    named: bool
    """A proper name, an identifier or a number: nothing else can stand for it."""

    def grade(self, stems: frozenset[str]) -> float:
        """How well a text with these stems mentions the term, from 0 to 1."""
        if self.stem in stems:
            return 1.0
        if self.parts and all(part in stems for part in self.parts):
            return 0.8
        return 0.6 if not self.others.isdisjoint(stems) else 0.0


@dataclass(frozen=True, slots=True)
class Question:
    """A question, understood as far as rules go."""

    text: str
    kind: Kind
    terms: tuple[Term, ...]
    focus: str
    """The thing that it is mainly about, in its own words; empty if there is none."""
    subject: str = ""
    """The first thing that it names: what `it` means in the question after it."""

    @property
    def content(self) -> tuple[Term, ...]:
        """The terms that say what it is about; those that questions are merely asked with left out."""
        return tuple(term for term in self.terms if term.weight > 0.3)


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    verb: bool
    named: bool
    content: bool
    weak: bool
    gap: bool
    """Whether something other than a blank stands between it and the word before it."""


def analyse(text: str) -> Question:
    """Understand *text*; any text will do."""
    text = " ".join(text.split())[:2_000]
    found = _words(text)
    alternatives = dict(pair for one, other in _EITHER.findall(text) for pair in ((one, other), (other, one)))
    terms: dict[str, Term] = {}
    for word in found:
        if word.content:
            term = _term(word)
            if other := alternatives.get(term.word):
                term = replace(term, others=term.others | {stem(other)})
            known = terms.get(term.stem)
            terms[term.stem] = term if known is None or known.weight < term.weight else known
    kind = _kind(text)
    if kind in _NAMING:
        # The word that names the kind is answered by what is said, not by being repeated.
        terms = {key: replace(term, weight=0.25) if key in _NAMING[kind] else term for key, term in terms.items()}
    return Question(text, kind, tuple(terms.values()), _focus(text, found), _subject(text, found))


def continued(question: Question, earlier: Sequence[str]) -> Question:
    """*question* as a turn of a conversation: what it leaves out is taken from the user's message before it."""
    if not earlier or not needs_context(question):
        return question
    before = analyse(earlier[-1])
    if len(before.content) == 0 and len(earlier) > 1:
        before = analyse(earlier[-2])
    known = {term.stem for term in question.terms}
    carried = tuple(
        replace(term, weight=term.weight * 0.4, named=False) for term in before.content if term.stem not in known
    )
    kind = question.kind if question.kind != "about" else before.kind
    return Question(
        question.text,
        kind,
        question.terms + carried,
        question.focus or before.focus,
        question.subject or before.subject,
    )


def needs_context(question: Question) -> bool:
    """Whether a question cannot be understood without what was said before it."""
    few = len(question.content) < 2
    pointing = bool(_POINTER.search(question.text)) and not any(term.named for term in question.terms)
    return bool(_FOLLOW_UP.match(question.text)) or (few and (pointing or len(question.text.split()) < 5))


def _kind(text: str) -> Kind:
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), "about")


def _words(text: str) -> list[_Word]:
    matches = list(WORD.finditer(text))
    english = any(match[0].casefold() in STOPWORDS for match in matches)
    titled = sum(1 for match in matches if match[0][0].isupper())
    shouting = titled * 4 > len(matches) * 3 and len(matches) > 3
    found: list[_Word] = []
    for place, match in enumerate(matches):
        before = matches[place - 1][0].casefold() if place else ""
        word = match[0]
        first = bool(_SENTENCE_END.search(text[: match.start()][-12:]))
        acronym = len(word) > 1 and word.isupper() and not shouting
        proper = word[0].isupper() and not first and english and not shouting
        number = word[0].isdigit() and before not in _VERSIONED
        weak = stem(word) in _WEAK_STEMS or word.casefold() in WEAK
        content = is_content(word) and not (before == "how" and word.casefold() in _MEASURES)
        named = content and not weak and (is_identifier(word) or acronym or proper or number)
        gap = bool(place) and text[matches[place - 1].end() : match.start()].strip() not in ("", "-")
        verb = before in _VERB_BEFORE and not named
        found.append(_Word(word, verb, named, content, weak, gap))
    return found


_WEAK_STEMS = frozenset(stem(word) for word in WEAK)


def _term(word: _Word) -> Term:
    own = stem(word.text)
    weight = 1.0
    if word.weak:
        weight = 0.25
    elif is_identifier(word.text):
        weight = 1.6
    elif word.named:
        weight = 1.3
    elif (
        word.text[0].isdigit() or word.text.casefold() in _NUMERALS or (word.text.endswith("ly") and len(word.text) > 5)
    ):
        weight = 0.5
    elif word.verb or _PARTICIPLE.search(word.text):
        weight = 0.85
    others: frozenset[str] = frozenset() if word.named else frozenset(synonyms(own))
    whole = () if "." in word.text else parts(word.text)
    tail = word.text.rpartition(".")[2]
    if is_identifier(tail) and tail != word.text:
        others = frozenset([stem(tail)])
    if joined := joined_form(word.text):
        others |= {joined}
    return Term(word.text, own, others, whole, weight, word.named)


def _focus(text: str, found: Sequence[_Word]) -> str:
    """The main thing: a name from a program, something quoted, a proper name, or else the first noun phrase."""
    if identifier := next((word.text for word in found if is_identifier(word.text)), ""):
        return identifier
    if quoted := _QUOTED.search(text):
        return quoted[1]
    runs = _after_category(text, _runs(found))
    if subject := next((run for run in runs if _has_verb(text, run)), None):
        return " ".join(word.text for word in _without_kind(subject[:-1]))
    named = [run for run in runs if any(word.named for word in run)]
    best = max(named or runs, key=len, default=[]) if named else max(runs, key=lambda run: min(len(run), 2), default=[])
    return " ".join(word.text for word in _without_kind(best))


def _has_verb(text: str, run: list[_Word]) -> bool:
    """In `how does the logging module decide whether`, the run after `does` ends with a verb."""
    phrase = " ".join(word.text for word in run)
    before, after = (
        r"\b(?:does|do|did)\s+(?:the\s+|an?\s+)?",
        r"(?:\W*$|\s+(?:whether|if|when|how|what|that|an?|the|its)\b)",
    )
    asked = re.search(f"{before}{re.escape(phrase)}{after}", text, re.IGNORECASE)
    return asked is not None and len(run) > 1 and not run[-1].named


def _without_kind(run: list[_Word]) -> list[_Word]:
    """`the logging module` is called `logging`."""
    return run[:-1] if len(run) > 1 and run[-1].text.casefold() in _CATEGORIES else run


_CATEGORIES = listed("module modules package class function method library decorator exception object operator")


def _subject(text: str, found: Sequence[_Word]) -> str:
    """The first thing named; of `the status of PEP 1` it is the second."""
    names = [" ".join(word.text for word in run) for run in _after_category(text, _runs(found))]
    if len(names) > 1 and re.search(rf"{re.escape(names[0])} of (?:the |an? )?{re.escape(names[1])}", text):
        return names[1]
    return names[0] if names else ""


def _after_category(text: str, runs: list[list[_Word]]) -> list[list[_Word]]:
    """`Which PEP` asks for one of its kind; what the question is about comes after it."""
    category = len(runs) > 1 and re.match(rf"\W*(?:which|what) {re.escape(runs[0][0].text)}\b", text, re.IGNORECASE)
    return runs[1:] if category else runs


def _runs(found: Sequence[_Word]) -> list[list[_Word]]:
    """Runs of words that can make a noun phrase."""
    numbered: list[tuple[int, _Word]] = []
    run = 0
    for place, word in enumerate(found):
        fits = word.content and not word.verb and (not word.weak or word.named)
        inside = place and found[place - 1].content and _PARTICIPLE.search(word.text) and not word.named
        if inside and len(found) > place + 1:
            fits = False  # `PEP introduced f-strings` is two things and what one did to the other
        if not fits or word.gap:
            run += 1
        if fits:
            numbered.append((run, word))
    grouped = [[word for _, word in group] for _, group in groupby(numbered, key=lambda pair: pair[0])]
    trimmed = [_without_action(group) for group in grouped]
    return [group for group in trimmed if group]


def _without_action(group: list[_Word]) -> list[_Word]:
    """A phrase without the verb that ends it, as in `walrus operator added`."""
    return group[:-1] if len(group) > 1 and _PARTICIPLE.search(group[-1].text) else group
