"""Digests of results that are no longer sent, and the lookup that recalls the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ids import handle_for
from ..messages import AssistantMessage, Message, ToolMessage
from ..records import record
from .counting.base import TokenCounter
from .edits import Edit, Summarize

RECALL = "recall"
"""Name of the tool by which a model recalls omitted content."""
_SHARE = 0.05
"""Largest share of a result that its extract may have."""
_LONGEST = 300
"""Characters of an extract; a tool's own summary may have three times as many."""
_SHORTEST = 24


def handle_of(message: ToolMessage) -> str:
    """Return the name by which the whole result of *message* is recalled."""
    # The content takes part because some providers use a call id again.
    return message.handle or handle_for(f"{message.call_id} {message.content[:200]}")


def hint(handle: str, *, recallable: bool) -> str:
    """Return the sentence that tells a model how to recall *handle*; empty unless it has the tool (*recallable*)."""
    return f' {RECALL}("{handle}") shows it.' if recallable else ""


def digest(message: ToolMessage, *, recallable: bool) -> str:
    """Return the text that replaces the result in *message*: the tool's own summary, or an extract.

    Edits are stored, so the text quotes nothing of a result that must not be kept.
    """
    note = hint(handle_of(message), recallable=True) if recallable else ""
    if not message.stored:
        return f"[left out.{note}]"
    if message.summary:
        return f"[{message.summary[: 3 * _LONGEST]}{note}]"
    length = min(int(len(message.content) * _SHARE), _LONGEST)
    if length < _SHORTEST:
        return f"[left out.{note}]"
    extract = " ".join(message.content[: 2 * length].split())[:length]
    return f"[left out, it began: {extract}...{note}]"


def digest_size(message: ToolMessage) -> int:
    """Return the approximate tokens of `digest(message)`."""
    if message.summary:
        return 12 + min(len(message.summary), 3 * _LONGEST) // 4
    length = min(int(len(message.content) * _SHARE), _LONGEST)
    return 12 + (length // 4 if length >= _SHORTEST else 0)


_HEAD = 0.7
_LONGEST_TOKEN = 12
"""Characters per token that no ordinary text reaches: a longer text exceeds the limit without counting."""


def cut_middle(counter: TokenCounter, text: str, limit: int, hint: str = "") -> str:
    """Return *text* if it has at most *limit* tokens, else its beginning and end around a line that ends in *hint*.

    The work is bounded by *limit*, not by the length of the text.
    """
    if len(text) <= limit and text.isascii():
        return text
    most = limit * _LONGEST_TOKEN
    if len(text) <= most and counter.count(text) <= limit:
        return text
    budget = max(limit - 16 - len(hint) // 3, 1)  # 16 for the line between both ends
    head_budget = int(budget * _HEAD)
    head = counter.cut(text[:most], max(head_budget, 1))
    tail = counter.cut(text[-most:][::-1], budget - head_budget)[::-1]
    while tail and counter.count(tail) > budget - head_budget:
        tail = tail[len(tail) // 10 + 1 :]  # reversed text can have fewer tokens
    tail = tail[-(len(text) - len(head)) :] if len(head) + len(tail) > len(text) else tail
    omitted = len(text) - len(head) - len(tail)
    return f"{head}\n[... {omitted:,} characters left out ...]{hint}\n{tail}"


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
            return Recalled(message.content if message.whole is None else message.whole, message.stored)
    for edit in edits:
        if isinstance(edit, Summarize) and edit.handle == handle:
            found = messages[edit.first : edit.end]
            return Recalled("\n\n".join(map(_transcript, found)), all(message.stored for message in found))
    return None


def _transcript(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return f"result of {message.name}:\n{message.content if message.whole is None else message.whole}"
    if isinstance(message, AssistantMessage):
        calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
        return f"assistant:\n{message.text}{calls}"
    return f"{message.role}:\n{message.text}"
