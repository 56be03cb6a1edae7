"""Passages: the results of searches, put in order, and the part of each that is quoted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace

from ..records import record
from ..text import stems
from ..tools.documents.markdown import Block, blocks, join
from ..tools.library import SOURCE_ID
from .transcript import Step, parse_object

WEAK = 0.45  # a passage with a smaller share of the question's words is a weak match
_LONGEST_QUOTE = 1_100
_MOST_PASSAGES = 4
_NEAR = 0.8  # the share of the best passage's coverage that another one needs to be quoted
_SOURCE_ID = re.compile(SOURCE_ID)
_TEXTS = ("id", "title", "location", "heading", "snippet", "version", "date")


@record(frozen=False)
class Passage:
    """A search result."""

    id: str
    title: str
    location: str
    heading: str
    snippet: str
    version: str = ""
    date: str = ""
    coverage: float = field(default=0.0, kw_only=True)  # the share of the question in the passage

    @property
    def path(self) -> str:
        """The title and the headings above the passage."""
        return f"{self.title} {self.heading}"

    @property
    def section(self) -> str:
        """The location that opens the passage's section alone."""
        return f"{self.location}#{self.heading.rpartition(' > ')[2]}" if self.heading else self.location


def chosen(question: str, searches: Sequence[Step]) -> list[Passage]:
    """Return the passages to quote, best first.

    These are the results for the whole question that come near the best one. A name or a side of a comparison that is
    not in any of their headings adds its own best result, if that has it in its heading.
    """
    found = {step.text: _results(step) for step in searches}
    first = found.pop(question, [])[:_MOST_PASSAGES]
    best = max((one.coverage for one in first), default=0.0)
    near = [one for at, one in enumerate(first) if one.coverage >= best * (_NEAR if at > 1 else _NEAR / 2)]
    for query, results in found.items():
        wanted = stems(query)
        if results and not any(wanted <= stems(one.path) for one in near) and wanted <= stems(results[0].path):
            near.append(replace(results[0], coverage=0.0))
    return near


def _results(step: Step) -> list[Passage]:
    """Return the results of a search in their order."""
    rows = parse_object(step.content).get("results")
    found = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and _SOURCE_ID.fullmatch(str(row.get("id"))):
            passage = Passage(*(str(row.get(name) or "") for name in _TEXTS))
            shared = stems(step.text) & stems(f"{passage.path} {passage.snippet}")
            stated = row.get("coverage")  # only local libraries know how rare a word is
            passage.coverage = stated if isinstance(stated, float) else len(shared) / max(len(stems(step.text)), 1)
            found.append(passage)
    return found


def quoted(question: str, passage: Passage, section: str) -> str:
    """Return the part of a passage that answers *question* best, in whole blocks.

    With the text of the passage's *section*, code and lists that follow an announcing colon are added.
    """
    parts = [block for block in blocks(passage.snippet) if block.kind != "heading"]
    if parts and parts[-1].text.endswith(":"):
        following = [block for block in blocks(section) if block.kind != "heading"]
        start = next((at for at, block in enumerate(following, 1) if block.text == parts[-1].text), len(following))
        for block in following[start:]:
            if block.kind == "text" or len(join(parts)) > 2 * _LONGEST_QUOTE:
                break
            parts.append(block)
    start, end = _window(parts, stems(question), from_items=bool(passage.version))
    before = "[…]\n\n" if start else ""
    after = "\n\n[…]" if end < len(parts) else ""
    return before + join(parts[start:end]) + after


def _window(parts: Sequence[Block], asked: set[str], *, from_items: bool) -> tuple[int, int]:
    """Return the run of blocks that has most of the rare words of the question, within the length of a quote."""
    have = [stems(block.text) & asked for block in parts]
    frequency = Counter(word for words in have for word in words)
    sizes = [len(block.text) + 2 for block in parts]
    best, found = (-1.0, 0), (0, len(parts))
    for start in range(len(parts)):
        # A quote begins with a sentence, not with the program text or list that another one announces.
        entry = from_items and parts[start].kind == "item" and bool(have[start])  # of a list of changes
        if start and not entry and (parts[start].kind != "text" or parts[start - 1].text.endswith(":")):
            continue
        end = start + 1
        while end < len(parts) and (sum(sizes[start : end + 1]) <= _LONGEST_QUOTE or parts[end - 1].text.endswith(":")):
            end += 1
        covered = set().union(*have[start:end])
        value = sum(1 / frequency[word] ** 0.5 for word in covered)
        if (value, start if entry else -start) > best:
            best, found = (value, start if entry else -start), (start, end)
    start, end = found
    while from_items and end > start + 1 and not have[end - 1]:  # later entries of the list are about other things
        end -= 1
    return start, end
