"""Questions: the parts that are researched on their own, and the queries that find passages for a part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from ..text import STOP_WORDS, stem, stems

_LONGEST, _MOST_PARTS, _MOST_QUERIES, _OWN_TOPIC = 1_500, 4, 4, 3
_ASKING = "how|what|why|when|where|which|who|is|are|does|do|can|should|did|was|were|will"
_END = re.compile(r"(?<=\?)\s+|;\s+")
_NEXT = re.compile(rf"(?:,\s*|\s+)(?:and|but|or)\s+(?=(?:in\s+)?(?:{_ASKING})\b)|,\s*(?=(?:{_ASKING})\b)", re.I)
_SIDES = (
    re.compile(r"\b(?:differences?|choose|compar\w+) (?:between |of )?(.{2,80}?) (?:and|or|with|to) (.{2,80})", re.I),
    re.compile(r"^(?:.{0,40}\b(?:is|are|use) )?(.{2,60}?) (?:vs\.?|versus|instead of|rather than) (.{2,80})", re.I),
)
_POINTING = re.compile(r"\b(?:its?|they|them|their|this|that|these|those|ones?|both|either|then)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_](?:[\w.:'\u2019-]*\w)?")
_NAME = re.compile(r"\w+(?:[._]\w+)+|\w*[a-z]\w*[A-Z]\w*|[A-Z]{2,}\w*")


def words(text: str) -> list[str]:
    """Return the words of *text* that carry meaning, each once."""
    return list(dict.fromkeys(word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS))


def parts(question: str, earlier: Sequence[str] = ()) -> list[str]:
    """Return the questions that *question* consists of, each understandable alone; none if it asks nothing.

    A question that points back, as in "and how do I undo it?", or is too short to have a topic of its own gets the
    names or words of the one before it, and a first part those of the one after it: "When `add` and when `extend`?".
    """
    sentences = _END.split(question[:_LONGEST].strip())
    pieces = [piece.strip(" ,.") for sentence in sentences for piece in _NEXT.split(sentence)]
    pieces = [piece for piece in pieces if words(piece)]
    context = earlier[-1] if earlier else ""
    found: list[str] = []
    for piece, following in zip_longest(pieces, pieces[1:], fillvalue=""):
        shortest = _OWN_TOPIC if context and not _NAME.search(piece) else 2
        if len(words(piece)) < shortest or (context and _POINTING.search(piece)):
            found.append(_with_context(piece, context or ("" if _POINTING.search(following) else following)))
            context = context or piece
        else:
            found.append(piece)
            context = piece
    return list(dict.fromkeys(found))[:_MOST_PARTS]


def _with_context(piece: str, context: str) -> str:
    known = stems(piece)
    missing = [word for word in _NAME.findall(context) or words(context)[:6] if stem(word.lower()) not in known]
    return f"{piece} (about: {' '.join(missing)})" if missing else piece


def queries(question: str) -> list[str]:
    """Return the searches for a question: itself, then the sides of a comparison and the technical names in it."""
    match = next((match for pattern in _SIDES if (match := pattern.search(question))), None)
    found = [side.strip(" ?.,()") for side in match.groups()] if match else []
    sides = [re.sub(r"^(?:using|use|the|a|an)\s+", "", side, flags=re.IGNORECASE) for side in found]
    names = [name for name in _NAME.findall(question) if len(name) > 2]
    several = len(words(question)) > 1
    narrower = [query for query in [*sides, *names] if several and words(query)]
    return list(dict.fromkeys([question, *narrower]))[:_MOST_QUERIES]
