"""Digests of results that are no longer sent, and the lookup that recalls the whole."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from ..ids import handle_for
from ..messages import AssistantMessage, Message, ToolMessage
from ..records import record
from .counting.base import TokenCounter
from .edits import Edit, Summarize

RECALL = "recall"
"""Name of the tool by which a model recalls omitted content."""
_SHARE, _LONGEST = 0.2, 900
"""Share of a result and characters that a digest may have at most."""
_SHORTEST = 48
_TELLING = re.compile(
    r"error|fail|exception|traceback|fatal|panic|denied|not found|warning|\btotal|\bpassed|exit(?:ed)?\b|return ?code",
    re.IGNORECASE,
)
"""Words of lines that a digest shows: errors, failures, totals and exit codes."""
_SCANNED = 200_000
"""Characters at the end of a text in which such lines are looked for."""
_LINE = 160
_HEAD, _LINES = 0.5, 0.2
"""Shares of an extract that its head, and telling lines between head and tail, may have."""
_LONGEST_TOKEN = 12
"""Characters per token that no ordinary text reaches: a longer text exceeds the limit without counting."""
_PASSAGE = 600
"""Characters of a passage that a search finds."""
_PASSAGES = 8
"""Passages that a search finds at most."""


def handle_of(message: ToolMessage) -> str:
    """Return the name by which the whole result of *message* is recalled; it depends on the content alone."""
    return message.handle or handle_for(whole_of(message))


def whole_of(message: ToolMessage) -> str:
    """Return the full result of *message*."""
    return message.content if message.whole is None else message.whole


def hint(handle: str, *, recallable: bool) -> str:
    """Return the sentence that tells a model how to recall *handle*; empty unless it has the tool (*recallable*)."""
    return f' {RECALL}("{handle}") shows it.' if recallable else ""


def digest(message: ToolMessage, *, recallable: bool) -> str:
    """Return the text that replaces the result in *message*: the tool's own summary, or an extract.

    Edits are stored, so the text quotes nothing of a result that must not be kept.
    """
    note = hint(handle_of(message), recallable=recallable)
    text = message.content
    length = min(int(len(text) * _SHARE), _LONGEST)
    if message.stored and message.summary:
        return f"[{message.summary[:_LONGEST]}{note}]"
    if not message.stored or length < _SHORTEST:
        return f"[left out.{note}]"
    return f"[In short:\n{_extract(text, length)}\n{note}]"


def _extract(text: str, size: int, hint: str = "") -> str:
    """Return about *size* characters of *text*: its beginning, its telling lines and its end.

    A line that ends in *hint* stands for what is left out.
    """
    head = text[: int(_HEAD * size)]
    lines = telling_lines(text[len(head) :], int(_LINES * size))
    left = min(size - len(head) - sum(map(len, lines)), len(text) - len(head))
    tail = text[len(text) - left :] if left > 0 else ""
    between = [line for line in lines if line not in tail]
    omitted = f"[... {len(text) - len(head) - len(tail):,} characters left out ...]{hint}"
    return "\n".join([head, omitted, *between, *(["[...]"] if between else []), tail])


def telling_lines(text: str, most: int) -> list[str]:
    """Return the last lines of *text* with errors, failures, totals or exit codes, of *most* characters together."""
    found: list[str] = []
    for line in reversed(text[-_SCANNED:].splitlines()):
        if (match := _TELLING.search(line)) is not None:
            start = max(match.start() - _LINE // 2, 0)
            shown = line[start : start + _LINE].strip()
            most -= len(shown) + 1
            if most < 0:
                break
            if shown not in found:
                found.insert(0, shown)
    return found


def cut_middle(counter: TokenCounter, text: str, limit: int, hint: str = "") -> str:
    """Return *text* if it has at most *limit* tokens, else an extract with *hint*.

    The work is bounded by *limit*, not by the length of the text.
    """
    if len(text) <= limit and text.isascii():
        return text
    most = limit * _LONGEST_TOKEN
    tokens = counter.count(text[:most])
    if len(text) <= most and tokens <= limit:
        return text
    size = min(most, len(text)) * max(limit - 16 - len(hint) // 3, 1) // max(tokens, 1)
    while counter.count(shown := _extract(text, size, hint)) > limit and size > 0:
        size = size * 9 // 10
    return shown


@record
class Recalled:
    """The whole content under a handle."""

    text: str
    stored: bool = True
    """False if a part of it must not be kept after the run."""


def recalled(messages: Sequence[Message], edits: Iterable[Edit], handle: str) -> Recalled | None:
    """Return the whole content that was cut, reduced, summarized or omitted under *handle*; None if unknown."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage) and handle_of(message) == handle:
            return Recalled(whole_of(message), message.stored)
    for edit in edits:
        if isinstance(edit, Summarize) and edit.handle == handle:
            found = messages[edit.first : edit.end]
            parts = list(map(transcript, found))
            return Recalled("\n\n".join([part.text for part in parts]), all(part.stored for part in parts))
    return None


def found_in(texts: Iterable[Recalled], query: str) -> Recalled | None:
    """Return the passages of *texts* that match *query* best, in order; None if nothing matches.

    A passage matches by the words that it contains; a rare word counts more, and the whole query most.
    """
    words = {word for word in re.findall(r"[\w./@:#-]+", query.lower()) if len(word) > 1} or {query.lower()}
    phrase = query.lower().strip()
    passages = [(Recalled(text, whole.stored), text.lower()) for whole in texts for text in _passages(whole.text)]
    frequency = {word: sum(word in lower for _, lower in passages) for word in words}
    weights = {word: math.log(1 + len(passages) / count) for word, count in frequency.items() if count}
    scores = [
        sum([weight for word, weight in weights.items() if word in lower]) + 10 * (phrase in lower)
        for _, lower in passages
    ]
    best = sorted(
        (number for number, score in enumerate(scores) if score), key=lambda number: (-scores[number], -number)
    )
    found = [passages[number][0] for number in sorted(best[:_PASSAGES])]
    return (
        Recalled("\n\n[...]\n".join(each.text for each in found), all(each.stored for each in found)) if found else None
    )


def _passages(text: str) -> Iterator[str]:
    """Yield *text* in passages that overlap by a quarter, so that none cuts a sentence that another has not whole."""
    step = _PASSAGE * 3 // 4
    for start in range(0, max(len(text) - _PASSAGE // 4, 1), step):
        yield text[start : start + _PASSAGE]


def transcript(message: Message, *, whole: bool = True) -> Recalled:
    """Return the text of *message* with its role; a result as it is sent unless *whole*."""
    if isinstance(message, ToolMessage):
        return Recalled(f"result of {message.name}:\n{whole_of(message) if whole else message.content}", message.stored)
    if isinstance(message, AssistantMessage):
        calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
        return Recalled(f"assistant:\n{message.text}{calls}", message.stored)
    return Recalled(f"{message.role}:\n{message.text}", message.stored)
