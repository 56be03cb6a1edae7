"""The researcher's part: search, open the best pages, follow up once, and answer in their own words.

Each step follows from the transcript alone: what was planned and has not been called yet is called next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...messages import ToolSpec
from .evidence import Findings, judge
from .pages import Page, parse_page, snippet_page
from .questions import Question, analyse, continued
from .quotes import CLOSEST, Quote, write
from .searching import first_queries, later_queries, pages_to_open
from .selection import select
from .transcript import Hit, Step, Transcript, hits
from .turn import Call, Turn, argument_name, fill

SEARCH, FETCH = "web_search", "fetch_page"
_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|thanks|thank you|good (?:morning|day|evening)|bye|goodbye|ok|okay)\b[^?]{0,20}", re.IGNORECASE
)
_QUERY = ("query", "q", "question", "search_query")
_LOCATION = ("location", "url", "id", "source")


@dataclass(frozen=True, slots=True)
class _Desk:
    """What lies before the researcher."""

    question: Question
    transcript: Transcript
    tools: dict[str, ToolSpec]

    @property
    def searches(self) -> list[Step]:
        return self.transcript.named(SEARCH)

    @property
    def made(self) -> list[str]:
        """The queries of this turn of the conversation."""
        return [step.argument(*_QUERY) for step in self.searches]

    def hits(self, queries: Sequence[str] | None = None) -> list[Hit]:
        """What the searches found, or those for *queries* alone."""
        chosen = [step for step in self.searches if queries is None or step.argument(*_QUERY) in queries]
        return [hit for step in chosen for hit in hits(step.content)]

    def tried(self, hit: Hit) -> bool:
        """Whether a page was asked for, by its location or its id."""
        asked = {step.argument(*_LOCATION) for step in self.transcript.named(FETCH)}
        return hit.location in asked or hit.id in asked

    def pages(self, wanted: Sequence[Hit]) -> list[Page]:
        """The opened pages, each with the passages that were found of it but cut out of what was opened."""
        contents = {page.id: (page, step.content) for step in self.transcript.named(FETCH)
                    if step.content and (page := parse_page(step.content))}  # fmt: skip
        found: list[Page] = []
        for hit in wanted:
            page, content = contents.get(hit.id, (None, ""))
            if page is not None:
                found.append(page)
            if hit.snippet and (page is None or _is_elsewhere(hit.snippet, content)):
                found.append(snippet_page(hit.id, hit.title, hit.location, hit.snippet))
        return found


def _is_elsewhere(snippet: str, content: str) -> bool:
    """Whether a passage stands in the part of a page that was left out."""
    return "characters left out" in content and " ".join(snippet.split())[:200] not in " ".join(content.split())


def research(transcript: Transcript, tools: Sequence[ToolSpec]) -> Turn:
    """The next turn of a researcher."""
    question = continued(analyse(transcript.question), transcript.users[:-1])
    if not question.terms or _GREETING.fullmatch(transcript.question.strip()):
        return Turn("What would you like to know? Ask a question, and the sources are searched for an answer.")
    desk = _Desk(question, transcript, {spec.name: spec for spec in tools})
    first = first_queries(question)
    if left := [query for query in first if query not in desk.made]:
        return _search(desk, left)
    opened = pages_to_open(question, desk.hits(first))
    if calls := _unopened(desk, opened):
        return _open(desk, calls)
    findings, quotes = _found(desk, opened)
    later = later_queries(question, findings, quotes, first)
    if left := [query for query in later if query not in desk.made]:
        return _search(desk, left)
    more = pages_to_open(question, desk.hits(later), opened) if later else []
    if calls := _unopened(desk, more):
        return _open(desk, calls)
    if more:
        findings, quotes = _found(desk, [*opened, *more])
    return answer(desk.question, desk.transcript, findings, quotes)


def conclude(transcript: Transcript) -> Turn:
    """The answer from what there is, without another call."""
    question = continued(analyse(transcript.question), transcript.users[:-1])
    desk = _Desk(question, transcript, {})
    found = {hit.id: hit for hit in desk.hits()}
    pages = [page for step in transcript.named(FETCH) if step.content and (page := parse_page(step.content))]
    rest = [hit for hit in found.values() if hit.id not in {page.id for page in pages}]
    all_pages = [*pages, *(snippet_page(hit.id, hit.title, hit.location, hit.snippet) for hit in rest)]
    findings = judge(question, all_pages)
    return answer(question, transcript, findings, select(findings))


def answer(question: Question, transcript: Transcript, findings: Findings, quotes: Sequence[Quote]) -> Turn:
    """The quotes, with a word before them if they only come close; or the fact that there are none."""
    if not quotes:
        return Turn(not_found(question, transcript))
    return Turn(write(quotes) if findings.answers else f"{CLOSEST}\n\n{write(quotes)}")


def not_found(question: Question, transcript: Transcript) -> str:
    """That the sources do not answer, with what was searched and which words stood nowhere."""
    steps = transcript.named(SEARCH)
    queries = list(dict.fromkeys(query for step in steps if (query := step.argument(*_QUERY))))
    text = f"The sources searched do not answer this: “{question.text}”."
    if queries:
        text += " Searched for: " + "; ".join(f"“{query}”" for query in queries) + "."
    if steps and all(step.result is not None and step.result.is_error for step in steps):
        return f"{text} Every search failed, so this says nothing about what the sources hold."
    pages = [page for step in transcript.named(FETCH) if step.content and (page := parse_page(step.content))]
    seen = [snippet_page(hit.id, hit.title, hit.location, hit.snippet) for step in steps for hit in hits(step.content)]
    if not pages and not seen:
        return f"{text} Nothing was found." if queries else text
    missing = [term.word for term in judge(question, [*pages, *seen]).missing if term.weight > 0.3]
    if missing:
        text += " Nothing found mentions " + " or ".join(f"“{word}”" for word in missing) + "."
    return text


def _found(desk: _Desk, opened: Sequence[Hit]) -> tuple[Findings, list[Quote]]:
    findings = judge(desk.question, desk.pages(opened))
    return findings, select(findings)


def _unopened(desk: _Desk, wanted: Sequence[Hit]) -> list[Hit]:
    return [hit for hit in wanted if not desk.tried(hit)] if FETCH in desk.tools else []


def _search(desk: _Desk, queries: Sequence[str]) -> Turn:
    return Turn(calls=tuple(_call(desk.tools[SEARCH], _QUERY, query) for query in queries))


def _open(desk: _Desk, wanted: Sequence[Hit]) -> Turn:
    return Turn(calls=tuple(_call(desk.tools[FETCH], _LOCATION, hit.location) for hit in wanted))


def _call(spec: ToolSpec, names: Sequence[str], value: str) -> Call:
    return fill(spec, {argument_name(spec, names): value}, value)


def first_location(transcript: Transcript) -> str:
    """The location of the first thing that was found; empty if nothing was."""
    return next((hit.location for step in transcript.named(SEARCH) for hit in hits(step.content)), "")
