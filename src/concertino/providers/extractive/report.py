"""The report: what the researchers found, put together for a reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .cues import heads_answer, kind_bonus, points_back, quality, says_what
from .questions import Question, analyse
from .quotes import APART, CLOSEST, Quote, read, write
from .subquestions import SubQuestion
from .words import is_identifier, stem, stems

_SHORT = 3
_SAME = 0.8
_HEADED = 0.9
_CLEARLY = 1.25
"""How much better a quote must fit a later question, to be moved there from the first that has it."""
_MOST = 40
"""How many quotes of one answer are looked at: they are compared with each other."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A sub-question with what its researcher answered."""

    asked: SubQuestion
    answer: str
    failed: bool = False

    @property
    def quotes(self) -> list[Quote]:
        """The cited sentences of the answer; none if it says that there are none."""
        return [] if self.failed else read(self.answer)[:_MOST]

    @property
    def direct(self) -> bool:
        """Whether the researcher holds the quotes to be an answer, and not only what comes closest."""
        return not self.answer.startswith(CLOSEST)


def title_of(question: str) -> str:
    """The report's title: the question, shortened where it is long."""
    text = re.sub(r"[\s?.!]+$", "", " ".join(question.split())) or "Report"
    if len(text) > 90:
        text = text[:90].rpartition(" ")[0].rstrip(",;:") + " …"
    return text[:1].upper() + text[1:]


def compose(question: Question, findings: Sequence[Finding]) -> str:
    """The report in Markdown: a short answer, a section for each sub-question, and what was not found."""
    sections = _sections(findings)
    answered = any(finding.asked.asked for finding, _ in sections)
    if not answered and not (sections and is_identifier(question.focus)):
        return _nothing(question, findings)
    short = _short_answer([(finding, quotes) for finding, quotes in sections if finding.direct])
    blocks = ["## In short", _brief(short)] if short else ["## In short", _unanswered(question, near=answered)]
    for finding, quotes in sections:
        blocks += [f"## {finding.asked.text}", *([] if finding.direct else [f"*{CLOSEST}*"]), write(quotes)]
    unanswered = [finding for finding in findings if finding.asked.asked and not finding.quotes]
    if unanswered:
        gaps = [_gap(finding, [other for other, _ in sections]) for finding in unanswered]
        blocks += ["## What the sources do not say", "\n".join(gaps)]
    return "\n\n".join(blocks)


def _sections(findings: Sequence[Finding]) -> list[tuple[Finding, list[Quote]]]:
    """Each finding with the quotes that no section before it has."""
    seen: list[frozenset[str]] = []
    found: list[tuple[Finding, list[Quote]]] = []
    home = _homes(findings)
    for place, finding in enumerate(findings):
        fresh: list[Quote] = []
        for quote in finding.quotes:
            if not finding.asked.asked and not (finding.direct and _speaks_of(analyse(finding.asked.text), quote)):
                continue
            words = frozenset(stems(quote.text))
            if not any(_alike(words, other) for other in seen) and home.get(quote.text, place) == place:
                seen.append(words)
                fresh.append(quote)
        if not fresh and finding.asked.asked:
            fresh = finding.quotes[:1]
        if fresh:
            found.append((finding, fresh))
    return found


def _homes(findings: Sequence[Finding]) -> dict[str, int]:
    """For each quote that several answers have: the one whose question it answers best."""
    questions = [analyse(finding.asked.text) for finding in findings]
    best: dict[str, tuple[float, int]] = {}
    for place, finding in enumerate(findings):
        before = ""
        for quote in finding.quotes:
            if before and points_back(quote.text):
                # It is understood only behind the one before it, and stays there.
                best.setdefault(quote.text, (best[before][0], best[before][1]))
                continue
            before = quote.text
            worth = _worth(questions[place], quote, finding.quotes) * (1.0 if finding.asked.asked else 0.5)
            worth *= 2.0 if questions[place].kind == "difference" else 1.0  # what compares is not said of one alone
            if quote.text not in best or worth > _CLEARLY * best[quote.text][0] + 1e-9:
                best[quote.text] = (worth, place)
    return {text: place for text, (_, place) in best.items()}


def _speaks_of(question: Question, quote: Quote) -> bool:
    """Whether a quote is about the very thing that one of our own angles asks about."""
    focus = [stem(word) for word in question.focus.split()]
    title, _, heading = quote.label.partition(APART)
    if question.kind != "definition":
        return quote.label.startswith(question.focus) or all(part in set(stems(quote.text)) for part in focus)
    if all(part in set(stems(title)) for part in focus) and (not heading or heads_answer("definition", heading)):
        return True
    opening = set(stems(" ".join(quote.text.split()[: len(focus) + 2])))
    return all(part in opening for part in focus) and says_what(quote.text)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) > _SAME * max(1, len(one | other))


def _short_answer(sections: Sequence[tuple[Finding, list[Quote]]]) -> list[Quote]:
    """The best sentence for each thing asked, or the best few if only one thing was asked."""
    asked = [(analyse(finding.asked.text), quotes) for finding, quotes in sections if finding.asked.asked]
    each = 1 if len(asked) > 1 else 2
    found: list[Quote] = []
    for part, quotes in asked[:4]:
        worth = [_worth(part, quote, quotes) * (1.3 if quote.ids == quotes[0].ids else 1.0) for quote in quotes]
        if part.kind == "definition":
            worth[0] *= 2
        ranked = sorted(zip(worth, range(len(quotes)), strict=True), key=lambda pair: (-pair[0], pair[1]))
        said = {quote.text for quote in found}
        fresh = [index for value, index in ranked if value > 0 and quotes[index].text not in said]
        found += [replace(quotes[index], code="", marker="") for index in sorted(fresh[:each])]
    return found


def _brief(quotes: Sequence[Quote]) -> str:
    """One line for each quote, under the title that it stands under."""
    labelled = [(quote.label.partition(APART)[0], quote) for quote in quotes]
    return "\n".join(f"- **{title}** — {quote.cited}" if title else f"- {quote.cited}" for title, quote in labelled)


def _worth(question: Question, quote: Quote, beside: Sequence[Quote]) -> float:
    """How well a quote answers the question when it stands alone; what all quotes *beside* it say counts less."""
    heading = quote.label.partition(APART)[2]
    known, around = frozenset(stems(quote.text)), frozenset(stems(quote.label))
    others = [frozenset(stems(other.text)) for other in beside]
    whole = own = 0.0
    for term in question.terms:
        common = sum(1 for words in others if term.grade(words)) / max(1, len(others))
        weight = term.weight * (1.0 - 0.6 * common)
        whole += weight
        own += weight * max(term.grade(known), 0.6 * term.grade(around))
    own = own / whole if whole else 0.0
    if question.kind not in ("who", "when", "amount") and _is_headed(question, quote, beside):
        own = max(own, _HEADED)
    if points_back(quote.text) or quote.text.endswith(":"):
        own *= 0.3
    bonus = kind_bonus(question.kind, quote.text, heading)
    if bonus > 1 or heads_answer(question.kind, heading):
        own = max(own, 0.5)
    return own * (1 + 0.4 * bonus) * quality(quote.text, item=quote.kind == "item")


def _is_headed(question: Question, quote: Quote, beside: Sequence[Quote]) -> bool:
    """Whether a quote is the first that is said under a heading which asks the very thing."""
    title, _, heading = quote.label.partition(APART)
    in_title, in_heading = frozenset(stems(title)), frozenset(stems(heading))
    asked = [term.grade(in_heading) for term in question.content if not term.grade(in_title)]
    first = next((other.text for other in beside if other.label == quote.label), "")
    return bool(asked) and all(asked) and quote.text == first


def _gap(finding: Finding, answered: Sequence[Finding]) -> str:
    if finding.failed:
        return f"- {finding.asked.text} — this could not be researched: {' '.join(finding.answer.split())[:200]}"
    if answered and analyse(finding.asked.text).kind == "difference":
        return f"- {finding.asked.text} — no passage compares them directly; what was found on each stands above."
    mentioned = re.search(r"Nothing found mentions .*\.$", finding.answer)
    reason = f" {mentioned[0]}" if mentioned else ""
    return f"- {finding.asked.text} — the sources searched do not answer this.{reason}"


def _unanswered(question: Question, *, near: bool = False) -> str:
    if near:
        return f"The sources searched do not answer “{question.text}” directly. What comes closest is quoted below."
    return f"The sources searched do not answer this question: “{question.text}”."


def _nothing(question: Question, findings: Sequence[Finding]) -> str:
    blocks = ["## In short", _unanswered(question)]
    asked = [finding for finding in findings if finding.asked.asked]
    if asked:
        blocks += ["## What was searched", "\n".join(_searched(finding) for finding in asked)]
    elif not findings:
        blocks.append("Nothing has been researched yet.")
    blocks.append("No answer is given here, because none could be quoted from a source.")
    return "\n\n".join(blocks)


def _searched(finding: Finding) -> str:
    text = " ".join(finding.answer.split())
    details = re.search(r"Searched for: .*", text)
    if finding.failed:
        return f"- {finding.asked.text} — this could not be researched: {text[:200]}"
    return f"- {finding.asked.text} {details[0][:500] if details else ''}".rstrip()
