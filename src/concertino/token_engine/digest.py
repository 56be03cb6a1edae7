"""What stands for a result that is no longer sent: the tool's own words or an extract, and how to recall the whole."""

from __future__ import annotations

import hashlib
import re

from ..messages import Message, ToolMessage

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
