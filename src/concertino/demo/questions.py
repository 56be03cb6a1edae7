"""Questions: the parts that are researched on their own, and the queries that find passages for a part."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..text import STOP_WORDS, stem, stems

_LONGEST, _MOST_PARTS, _MOST_QUERIES = 1_500, 4, 4
_ASKING = "how|what|why|when|where|which|who|is|are|does|do|can|should|did|was|were|will"
_END = re.compile(r"(?<=\?)\s+|;\s+")
_NEXT = re.compile(rf"(?:,\s*|\s+)(?:and|but|or)\s+(?=(?:in\s+)?(?:{_ASKING})\b)|,\s*(?=(?:{_ASKING})\b)", re.I)
_SIDES = (
    re.compile(r"\b(?:differences?|choose|compar\w+) (?:between |of )?(.{2,80}?) (?:and|or|with|to) (.{2,80})", re.I),
    re.compile(r"^(?:.{0,40}\b(?:is|are|use) )?(.{2,60}?) (?:vs\.?|versus|instead of|rather than) (.{2,80})", re.I),
)
_POINTING = re.compile(r"\b(?:it|its|they|them|their|this|that|these|those|one|ones)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_](?:[\w.:'\u2019-]*\w)?")
_NAME = re.compile(r"\w+(?:[._]\w+)+|\w*[a-z]\w*[A-Z]\w*|[A-Z]{2,}\w*")


def words(text: str) -> list[str]:
    """Return the words of *text* that carry meaning, each once."""
    return list(dict.fromkeys(word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS))


def parts(question: str, earlier: Sequence[str] = ()) -> list[str]:
    """Return the questions that *question* consists of, each understandable alone; none if it asks nothing.

    A question that points back, as in "and how do I undo it?", gets the words of the part or question before it.
    """
    found: list[str] = []
    context = earlier[-1] if earlier else ""
    for sentence in _END.split(question[:_LONGEST].strip()):
        for part in _NEXT.split(sentence):
            part = part.strip(" ,.")  # noqa: PLW2901 - the part without punctuation
            if not words(part):
                continue
            if context and (_POINTING.search(part) or len(words(part)) < 2):
                known = stems(part)
                missing = [word for word in words(context)[:6] if stem(word.lower()) not in known]
                part = f"{part} (about: {' '.join(missing)})" if missing else part  # noqa: PLW2901
            elif not context or len(words(part)) > 2:
                context = part
            found.append(part)
    return list(dict.fromkeys(found))[:_MOST_PARTS]


def queries(question: str) -> list[str]:
    """Return the searches for a question: itself, then the sides of a comparison and the technical names in it."""
    match = next((match for pattern in _SIDES if (match := pattern.search(question))), None)
    sides = (
        [re.sub(r"^(?:using|use|the|a|an)\s+", "", side.strip(" ?.,()"), flags=re.I) for side in match.groups()]
        if match
        else []
    )
    names = [name for name in _NAME.findall(question) if len(name) > 2]
    several = len(words(question)) > 1
    return list(dict.fromkeys([question, *(side for side in [*sides, *names] if several and words(side))]))[
        :_MOST_QUERIES
    ]
