"""Wording: figures and texts as people read them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ...waits import WaitKind

# C0 and C1 but tab and line feed: a page that was read must not move the cursor or name the window.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TELLING = ("query", "location", "title", "text", "message", "prompt")
"""The arguments that say best what a call is about."""


def safe(text: str) -> str:
    """*text* without the characters that a terminal obeys."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = 0) -> str:
    """*text* in a line, cut at *limit* characters if there is one."""
    line = safe(" ".join(text.split()))
    return line[: limit - 1].rstrip() + "…" if limit and len(line) > limit else line


def money(cost: Decimal | None) -> str:
    """US dollars; what is not known is not called free."""
    if cost is None:
        return "cost unknown"
    if 0 < cost < Decimal("0.00005"):
        return "<$0.0001"
    return f"${cost:.2f}" if not cost or cost >= 1 else f"${cost:.4f}"


def counted(count: int, noun: str) -> str:
    """A count of things."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def tokens(count: int) -> str:
    """A count of tokens."""
    return counted(count, "token")


def seconds(elapsed: float) -> str:
    """A duration."""
    if elapsed < 60:
        return f"{elapsed:.1f} s"
    minutes, rest = divmod(int(elapsed), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def waits_for(kind: WaitKind) -> str:
    """What a call waits for."""
    return "waits for an approval" if kind == "approval" else "waits for its result"


def moment(at: float) -> str:
    """A time, to the second, in UTC: so are the days that usage is summed by."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "?"


def iso(at: float | None) -> str | None:
    """A time as JSON."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def exact(cost: Decimal | None) -> str | None:
    """A sum of money as JSON: all its digits."""
    return None if cost is None else format(cost, "f")


def readable(arguments: str) -> str:
    """A call's arguments in a line, with letters instead of escapes where they are JSON."""
    try:
        return one_line(json.dumps(json.loads(arguments), ensure_ascii=False))
    except (ValueError, RecursionError):
        return one_line(arguments)


def about(arguments: str) -> str:
    """What a call is about, from its arguments; "" if they do not tell."""
    try:
        read: Any = json.loads(arguments)
    except ValueError:
        return ""
    if not isinstance(read, dict):
        return ""
    texts = {name: value for name, value in read.items() if isinstance(value, str)}
    wanted = next((name for name in _TELLING if name in texts), next(iter(texts), ""))
    return one_line(texts.get(wanted, ""), 200)
