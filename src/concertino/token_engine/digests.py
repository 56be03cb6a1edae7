"""Digests of results that are no longer sent, and extracts of results that are too long."""

from __future__ import annotations

import re

from ..ids import handle_for
from ..messages import ToolMessage
from .counting.base import TokenCounter

RECALL = "recall"
"""Name of the tool by which a model recalls omitted content."""
_SHARE, _SHORTEST, _LONGEST = 0.2, 48, 900
"""Share of a result, and characters, that a digest may have."""
_TELLING = re.compile(
    r"error|fail|exception|traceback|fatal|panic|denied|not found|warning|\btotal|\bpassed|exit(?:ed)?\b|return ?code",
    re.IGNORECASE,
)
"""Words of lines that a digest shows: errors, failures, totals and exit codes."""
_SCANNED, _LINE = 200_000, 160
"""Characters at the end of a text in which such lines are looked for, and of a line."""
_HEAD, _LINES = 0.5, 0.2
"""Shares of an extract that its head, and telling lines between head and tail, may have."""
_LONGEST_TOKEN = 12
"""Characters per token that no ordinary text reaches: a longer text exceeds the limit without counting."""


def handle_of(message: ToolMessage) -> str:
    """Return the name by which the whole result of *message* is recalled; it depends on the content alone."""
    return message.handle or handle_for(whole_of(message))


def whole_of(message: ToolMessage) -> str:
    """Return the full result of *message*."""
    return message.content if message.whole is None else message.whole


def is_cut(message: ToolMessage) -> bool:
    """Return whether *message* does not show its full result."""
    return message.whole is not None and not message.content.startswith(message.whole)


def hint(handle: str, *, recallable: bool) -> str:
    """Return the sentence that tells a model how to recall *handle*; empty unless it has the tool (*recallable*)."""
    return f' {RECALL}("{handle}") shows it.' if recallable else ""


def digest(message: ToolMessage, *, recallable: bool) -> str:
    """Return the text that replaces a result: the tool's own summary, or an extract; nothing of what is not stored."""
    note = hint(handle_of(message), recallable=recallable)
    text = message.content
    length = min(int(len(text) * _SHARE), _LONGEST)
    if message.stored and message.summary:
        return f"[{message.summary[:_LONGEST]}{note}]"
    if not message.stored or length < _SHORTEST:
        return f"[left out.{note}]"
    return f"[In short:\n{_extract(text, length)}\n{note}]"


def _extract(text: str, size: int, hint: str = "") -> str:
    """Return about *size* characters of *text*: its beginning, a line with *hint*, its telling lines and its end."""
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
    """Return *text* if it has at most *limit* tokens, else an extract with *hint*; *limit* bounds the work."""
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
