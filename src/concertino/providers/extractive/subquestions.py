"""Sub-questions: what one question asks, taken apart, and angles from which a single one can be looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .questions import Question, analyse, continued
from .words import STOPWORDS, WORD, is_identifier, listed, stem

_MOST = 5
_ASKING = r"(?:what|why|when|who|whom|whose|which|where|how|can|could|should|is|are|does|do|did|must|may|will)"
_SECOND = re.compile(
    rf"[,;]?\s+(?:and|but|or|also)(?:,)?\s+(?:also\s+)?(?={_ASKING}\b)|[;,]\s+(?={_ASKING}\b)", re.IGNORECASE
)
_MARKER = re.compile(r"^\s*(?:[-*+•]|\(?\d{1,2}[.)])\s+")
_ENDED = re.compile(r"(?<=[?\uff1f])\s+(?=\S)|(?<=[.!])\s+(?=[A-Z])|\n+")
_IT = re.compile(
    r"\b(it|its|they|them|their|this|that|these|those)\b(?!\s+(?:pep|module|function|class|account|card)\b)",
    re.IGNORECASE,
)
_ONE = re.compile(r"\b(?:ones?|such|there|same)\b", re.IGNORECASE)
_BETWEEN = re.compile(
    r"\b(?:differences?|distinction|choose|compare|comparison|trade-?offs?)\b.*?\bbetween\s+(.+?)\s+and\s+(.+)",
    re.IGNORECASE,
)
_FROM = re.compile(
    r"\b(?:how|what|where|in what way)\b.*?\b(?:does|do|is|are|makes)\s+(.+?)\s+(?:differ(?:ent)?"
    r"|distinct)\s+(?:from|to|than)\s+(.+)",
    re.IGNORECASE,
)
_DIFFER = re.compile(r"\bhow\s+do(?:es)?\s+(.+?)\s+and\s+(.+?)\s+(?:differ|compare)\b", re.IGNORECASE)
_VERSUS = re.compile(r"(.+?)\s+(?:vs\.?|versus|compared (?:to|with)|or rather)\s+(.+)", re.IGNORECASE)
_COMPARE = re.compile(r"\bcompare\s+(.+?)\s+(?:and|with|to|against)\s+(.+)", re.IGNORECASE)
_CHOICE = re.compile(
    r"\b(?:should|when|which|better|use|prefer|pick|choose)\b.*?\b(?:use|prefer|pick|choose"
    r"|better[,:]?)\s+(.+?)\s+(?:or|rather than|over|instead of|and when)\s+(.+)",
    re.IGNORECASE,
)
_FACETS = re.compile(
    r"^(?P<ask>what (?:is|are|were"
    r"|was) the )(?P<first>[\w' -]+?)(?P<more>(?:,\s*[\w' -]+?)*),?\s+and (?:the )?(?P<last>[\w' -]+?)"
    r"(?P<rest>\s+(?:of|for|in|on|with|to|when)\s+.+)$",
    re.IGNORECASE,
)
_LEAD = re.compile(rf"^(?:.*\b)?{_ASKING}\b\s+", re.IGNORECASE)
_THING_STOP = re.compile(
    r"\s+(?:in|for|when|if|to|with|on|of|while|during|as)\s+.*$|[?!,;:]+.*$|\.(?:\s.*)?$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One question for a researcher."""

    text: str
    asked: bool = True
    """Whether the user asked it; otherwise it is an angle of ours, and finding nothing is nothing to report."""


def split(text: str, earlier: Sequence[str] = ()) -> list[SubQuestion]:
    """One to five sub-questions of the user's message *text*; *earlier* are the messages before it."""
    text = text.strip()[:2_000]
    if not analyse(text).terms:
        return []
    clauses = _clauses(text)
    if len(clauses) == 1:
        whole = continued(analyse(clauses[0]), earlier)
        found = _facets(clauses[0]) or _compared(clauses[0]) or _with_angles(whole, clauses[0], earlier)
    else:
        found = [part for clause in clauses for part in _facets(clause) or [SubQuestion(clause)]]
        if len(found) < 3:
            found = [
                part for clause in clauses for part in _facets(clause) or _compared(clause) or [SubQuestion(clause)]
            ]
    return _distinct(found)[:_MOST]


def _clauses(text: str) -> list[str]:
    """The questions that stand side by side in a message, each made to stand alone."""
    unmarked = "\n".join(_MARKER.sub("", line) for line in text.splitlines())
    lines = [part.strip() for part in _ENDED.split(unmarked)]
    parts = [piece.strip() for line in lines if line for piece in _SECOND.split(line)]
    found: list[str] = []
    remark = ""
    for part in parts:
        asks = part.rstrip().endswith(("?", "\uff1f")) or re.match(rf"\W*{_ASKING}\b", part, re.IGNORECASE)
        if not analyse(part).content and found:
            if not asks or len(part.split()) < 3:
                found[-1] = f"{found[-1].rstrip('?')} and {part[:1].lower()}{part[1:]}"
                continue
        elif not asks and len(parts) > 1 and not found:
            # What is said before the first question is what it is about.
            remark = part
            continue
        found.append(_standing_alone(part, found[0] if found else remark))
    return found or [text]


def _standing_alone(part: str, before: str) -> str:
    """*part* with a word such as `it` replaced by the thing that the question before it is about."""
    question = analyse(part)
    focus = _with_article(before, analyse(before).subject) if before else ""
    if focus and _IT.search(part) and not any(term.named for term in question.terms):
        part = _IT.sub(lambda match: f"{focus}'s" if match[1].lower() in ("its", "their") else focus, part, count=1)
    elif (
        focus
        and (not question.content or _leaves_open(question) or (len(question.content) < 2 and _ONE.search(part)))
        and focus.casefold() not in part.casefold()
    ):
        part = f"{part.rstrip(' ?.!')} ({focus})"
    return _as_question(part)


def _leaves_open(question: Question) -> bool:
    """Whether a question asks for something that there must be more of than it says: which alternatives, of what?"""
    things = [term for term in question.content if term.weight >= 1.0]
    return all(not term.named and term.stem in _OF_SOMETHING for term in things)


_OF_SOMETHING = frozenset(
    stem(word)
    for word in listed(
        "alternative reason step limit option difference problem error exception example consequence cost fee rule"
        " requirement status history motivation author drawback advantage disadvantage risk effect result condition"
        " exemption exception deadline penalty parameter argument method value kind type"
    )
)


def _with_article(text: str, thing: str) -> str:
    """The thing with the article that it has in *text*."""
    found = re.search(rf"\b(?:the|an?)\s+{re.escape(thing)}", text, re.IGNORECASE) if thing else None
    return found[0].lower().replace(thing.lower(), thing) if found else thing


def _as_question(part: str) -> str:
    part = part.strip(" ,;")
    asks = re.match(rf"{_ASKING}\b", part, re.IGNORECASE)
    return f"{part[:1].upper()}{part[1:].rstrip('?.!, ')}?" if asks else part[:1].upper() + part[1:]


def _facets(clause: str) -> list[SubQuestion]:
    """`What are the fees and limits of X?` as one question for each facet."""
    match = _FACETS.match(clause.rstrip(" ?"))
    if not match:
        return []
    facets = [match["first"], *(piece for piece in match["more"].split(",") if piece.strip()), match["last"]]
    if len(facets) > _MOST or any(len(facet.split()) > 4 for facet in facets):
        return []
    return [SubQuestion(f"{_verb(match['ask'], facet)}{facet.strip()}{match['rest']}?") for facet in facets]


def _verb(ask: str, facet: str) -> str:
    """`What are the` for several things and `What is the` for one."""
    several = facet.strip().endswith("s") and not facet.strip().endswith(("ss", "us"))
    past = re.search(r"\bw(?:as|ere)\b", ask, re.IGNORECASE)
    return f"What {('were' if several else 'was') if past else ('are' if several else 'is')} the "


def _is_or_are(thing: str) -> str:
    """`are` for several things: a plural that is no name from a program."""
    last = thing.rsplit(maxsplit=1)[-1]
    plural = last.islower() and last.endswith("s") and not last.endswith(("ss", "us", "is"))
    return "are" if plural and len(last) > 3 and not is_identifier(last) else "is"


def _compared(clause: str) -> list[SubQuestion]:
    """What two things are, each for itself, after the question about both."""
    for pattern in (_BETWEEN, _FROM, _DIFFER, _COMPARE, _VERSUS, _CHOICE):
        match = pattern.search(clause)
        if match:
            one, other = _thing(match[1]), _thing(match[2])
            if one and other and one.casefold() != other.casefold():
                one, other = _completed(one, other)
                return [
                    SubQuestion(_as_question(clause)),
                    *(SubQuestion(f"What {_is_or_are(it)} {_with_article(clause, it)}?") for it in (one, other)),
                ]
    return []


def _thing(text: str) -> str:
    """A thing named in a comparison, without what stands around it."""
    text = _THING_STOP.sub("", _LEAD.sub("", text.strip()))
    words = text.strip(" \"'`").split()
    while words and words[0].casefold() in STOPWORDS | {"use", "using"} and len(words) > 1:
        words.pop(0)
    return " ".join(words) if len(words) <= 5 and any(analyse(text).terms) else ""


def _completed(one: str, other: str) -> tuple[str, str]:
    """`the Blue and the Green Account`: the noun that both share belongs to both."""
    last = other.rsplit(maxsplit=1)[-1]
    shared = len(other.split()) > 1 and len(one.split()) == 1 and last[0].isupper() and one[0].isupper()
    return (f"{one} {last}", other) if shared and not is_identifier(one) and not is_identifier(other) else (one, other)


def _with_angles(question: Question, clause: str, earlier: Sequence[str]) -> list[SubQuestion]:
    """A single question, and what helps to understand its answer."""
    text = _as_question(clause)
    if earlier and question.focus and question.focus.casefold() not in clause.casefold():
        text = _standing_alone(clause, earlier[-1])
    found = [SubQuestion(text)]
    focus = question.focus
    if not 0 < len(WORD.findall(focus)) <= 5 or focus.isdigit():
        return found
    if (
        re.search(rf"\b(?:an?|which|what|any|each|every) {re.escape(focus)}\b", clause, re.IGNORECASE)
        and focus.isupper()
    ):
        # `a PEP` is one of many, and what a PEP is was not the question.
        return found
    named = any(term.named for term in question.terms if term.word in focus)
    if not named and question.kind != "definition" and (len(focus.split()) < 2 or question.kind == "why"):
        return found
    name = focus if named else f"“{focus}”"
    if question.kind == "definition" and not re.match(r"\W*what does\b", text, re.IGNORECASE):
        angles = [f"How is {name} used?", f"What are the limits of {name}?"]
    else:
        angles = [f"What {_is_or_are(name)} {name}?" if name == focus else f"What is meant by {name}?"]
    return [*found, *(SubQuestion(angle, asked=False) for angle in angles)]


def _distinct(found: Sequence[SubQuestion]) -> list[SubQuestion]:
    seen: dict[str, SubQuestion] = {}
    for part in found:
        seen.setdefault(" ".join(sorted(set(part.text.casefold().strip(" ?.").split()))), part)
    return list(seen.values())
