"""What stands for a result that is no longer sent: the tool's own words or an extract, and how to recall the whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from ..messages import AssistantMessage, Message, ToolMessage
from .counting.base import TokenCounter
from .edits import Edit, Summarise

RECALL = "recall"
"""The tool by which a model recalls what was left out."""
_SHARE = 0.05
"""How much of a result its extract may be."""
_LONGEST = 300
"""Characters of an extract, and of a tool's own words three times as many."""
_SHORTEST = 24
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_SPACE = re.compile(r"\s+")


def handle_for(key: str) -> str:
    """A short name for what *key* names, easy to write: 35 bits of its BLAKE2b hash."""
    number = int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(0, 35, 5))


def handle_of(message: ToolMessage) -> str:
    """The name by which the whole result of *message* is recalled."""
    return message.handle or handle_for(f"{message.call_id} {message.content[:200]}")  # some use an id again


def hint(handle: str, *, recallable: bool) -> str:
    """How a model gets what was left out; *recallable*: whether it has the tool for that."""
    return f' {RECALL}("{handle}") shows it.' if recallable else ""


def digest(message: Message, *, recallable: bool) -> str:
    """What stands for the result in *message*."""
    assert isinstance(message, ToolMessage)
    told = hint(handle_of(message), recallable=recallable)
    own = message.summary
    if own:
        return f"[{own[: 3 * _LONGEST]}{told}]"
    room = min(int(len(message.content) * _SHARE), _LONGEST)
    if room < _SHORTEST:
        return f"[left out.{told}]"
    extract = _SPACE.sub(" ", message.content[: 2 * room]).strip()[:room]
    return f"[left out, it began: {extract}...{told}]"


def digest_size(message: ToolMessage) -> int:
    """About the tokens of `digest(message)`."""
    if message.summary:
        return 12 + min(len(message.summary), 3 * _LONGEST) // 4
    room = min(int(len(message.content) * _SHARE), _LONGEST)
    return 12 + (room // 4 if room >= _SHORTEST else 0)


_HEAD = 0.7
_LONGEST_TOKEN = 12
"""Characters per token that no ordinary text reaches: what is longer need not be counted to be known as too long."""


def cut_middle(counter: TokenCounter, text: str, limit: int, hint: str = "") -> str:
    """*text* if it has at most *limit* tokens, else its beginning and its end with a line between them, which ends in
    the *hint*.

    The work is bounded by *limit*, not by the length of the text.
    """
    if len(text) <= limit and text.isascii():
        return text
    most = limit * _LONGEST_TOKEN
    if len(text) <= most and counter.count(text) <= limit:
        return text
    room = max(limit - 16 - len(hint) // 3, 1)  # the line between them
    head = counter.cut(text[:most], max(int(room * _HEAD), 1))
    tail = counter.cut(text[-most:][::-1], room - int(room * _HEAD))[::-1]
    while tail and counter.count(tail) > room - int(room * _HEAD):
        tail = tail[len(tail) // 10 + 1 :]  # tokens read backwards may be fewer than forwards
    tail = tail[-(len(text) - len(head)) :] if len(head) + len(tail) > len(text) else tail
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out:,} characters left out ...]{hint}\n{tail}"


def recalled(record: Sequence[Message], edits: Iterable[Edit], handle: str) -> str | None:
    """What was cut, reduced, summarised or left out under *handle*; None: there is nothing of that name."""
    for message in reversed(record):
        if isinstance(message, ToolMessage) and handle_of(message) == handle:
            return message.content if message.whole is None else message.whole
    for edit in edits:
        if isinstance(edit, Summarise) and edit.handle == handle:
            return "\n\n".join(map(_spoken, record[edit.first : edit.end]))
    return None


def _spoken(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return f"result of {message.name}:\n{message.content if message.whole is None else message.whole}"
    if isinstance(message, AssistantMessage):
        calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
        return f"assistant:\n{message.text}{calls}"
    return f"{message.role}:\n{message.text}"
