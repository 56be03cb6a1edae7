"""Cutting what is too long: the head and the tail stay, and what is left out is said."""

from __future__ import annotations

from .port import TokenCounter

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
