"""Passages: the results of searches, put in order, and the part of each that is quoted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..tools.documents.markdown import Block, blocks, join
from .questions import stems
from .transcript import Step, parse_object

WEAK = 0.45
"""Below this share of the question's words, a passage is called a weak match."""
_LONGEST_QUOTE = 1_100
_MOST_PASSAGES = 4
_SOURCE_ID = re.compile(r"s[0-9a-f]{10}")
_FUSION = 4


@dataclass(slots=True)
class Passage:
    """A search result, with its score over all searches."""

    id: str
    title: str
    location: str
    heading: str
    snippet: str
    version: str = ""
    date: str = ""
    coverage: float = 0.0
    """The share of the question that the passage contains."""
    score: float = 0.0

    @property
    def section(self) -> str:
        """The location that opens the passage's section alone."""
        return f"{self.location}#{self.heading.rpartition(' > ')[2]}" if self.heading else self.location


def ranked(question: str, searches: Sequence[Step]) -> list[Passage]:
    """Return the passages of all searches, best first, by reciprocal rank fusion.

    A search for the whole question counts in full, a search for a name in it by half.
    """
    found: dict[tuple[str, str], Passage] = {}
    asked = stems(question)
    for step in searches:
        whole = step.text == question
        rows = parse_object(step.content).get("results")
        for rank, row in enumerate(rows if isinstance(rows, list) else []):
            if not isinstance(row, dict) or not _SOURCE_ID.fullmatch(str(row.get("id"))):
                continue
            text = {name: str(row.get(name) or "") for name in Passage.__annotations__ if name not in ("coverage", "score")}
            passage = found.setdefault((text["id"], text["snippet"]), Passage(**text))
            shared = len(asked & stems(f"{passage.title} {passage.heading} {passage.snippet}")) / max(len(asked), 1)
            stated = row.get("coverage")
            coverage = stated if whole and isinstance(stated, int | float) else shared
            passage.coverage = max(passage.coverage, coverage)
            passage.score += (1.0 if whole else 0.5) / (_FUSION + rank)
    for passage in found.values():
        passage.score *= 0.3 + passage.coverage
    return sorted(found.values(), key=lambda passage: -passage.score)


def chosen(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages to quote: those that come near the best one."""
    if not passages:
        return []
    enough = [one for one in passages if one.score >= 0.4 * passages[0].score]
    return enough[:_MOST_PASSAGES]


def quoted(question: str, passage: Passage, section: str) -> str:
    """Return the part of a passage that answers *question* best, in whole blocks.

    With the text of the passage's *section*, code and lists that follow an announcing colon are added.
    """
    parts = [block for block in blocks(passage.snippet) if block.kind != "heading"]
    if parts and parts[-1].text.endswith(":"):
        following = [block for block in blocks(section) if block.kind != "heading"]
        place = next((place for place, block in enumerate(following) if block.text == parts[-1].text), -1) + 1
        for block in following[place:] if place else []:
            if block.kind == "text" or len(join(parts)) > 2 * _LONGEST_QUOTE:
                break
            parts.append(block)
    start, end = _window(parts, stems(question))
    before = "[…]\n\n" if start else ""
    after = "\n\n[…]" if end < len(parts) else ""
    return before + join(parts[start:end]) + after


def _window(parts: Sequence[Block], asked: frozenset[str]) -> tuple[int, int]:
    """Return the run of blocks that has most of the rare words of the question, within the length of a quote."""
    have = [stems(block.text) & asked for block in parts]
    frequency = Counter(word for words in have for word in words)
    sizes = [len(block.text) + 2 for block in parts]
    best, found = (-1.0, 0), (0, len(parts))
    for start in range(len(parts)):
        # A quote begins with a sentence, not with the program text or list that another one announces.
        if start and (parts[start].kind != "text" or parts[start - 1].text.endswith(":")):
            continue
        end = start + 1
        while end < len(parts) and (
            sum(sizes[start : end + 1]) <= _LONGEST_QUOTE or parts[end - 1].text.endswith(":")
        ):
            end += 1
        covered = frozenset().union(*have[start:end])
        value = sum(1 / frequency[word] ** 0.5 for word in covered)
        if (value, -start) > best:
            best, found = (value, -start), (start, end)
    return found
