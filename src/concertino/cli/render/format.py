"""Text, figures and times in the form that people read."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ...events import AttemptFailed, CacheMiss, ContextEdited, Notice, Steered
from ...waits import WaitKind

# C0 and C1 except tab and line feed: text from a page or a model must not move the cursor or set the window's title.
# Line separators, bidirectional controls, zero-width and other invisible characters as well: they could make the
# arguments of an approval read differently from what they are. Scripts and emoji need U+200C and U+200D between two of
# their own characters; elsewhere these are escaped, too.
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
"""Characters that control a terminal or are invisible."""
_SUBJECTS = ("query", "location", "title", "text", "message", "prompt")
"""Names of the arguments that describe a call best, in order of preference."""


def safe(text: str) -> str:
    """Return *text* with visible escapes for characters that control a terminal or are invisible, as `repr` does.

    All output passes through this function, except what `--raw` prints to a pipe.
    """
    return CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def one_line(text: str, limit: int = 0) -> str:
    """Return *text* as a single safe line, shortened to *limit* characters unless that is 0."""
    line = " ".join(safe(text).split())  # in this order: `split` drops separators that must be visible
    return line[: limit - 1].rstrip() + "…" if limit and len(line) > limit else line


def money(cost: Decimal | None) -> str:
    """Format an amount in US dollars; an unknown cost is never shown as zero."""
    if cost is None:
        return "cost unknown"
    if 0 < cost < Decimal("0.00005"):
        return "<$0.0001"
    return f"${cost:.2f}" if not cost or cost >= 1 else f"${cost:.4f}"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless it is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def tokens(count: int) -> str:
    """Format a number of tokens."""
    return counted(count, "token")


def seconds(elapsed: float) -> str:
    """Format a duration."""
    if elapsed < 60:
        return f"{elapsed:.1f} s"
    minutes, rest = divmod(int(elapsed), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def waits_for(kind: WaitKind) -> str:
    """Describe the answer that a call of this *kind* waits for."""
    return "waits for approval" if kind == "approval" else "waits for its result"


def moment(at: float) -> str:
    """Format a time in UTC to the second; usage by day uses the same time zone."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "?"


def iso(at: float | None) -> str | None:
    """Format a time for JSON."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def exact(cost: Decimal | None) -> str | None:
    """Format an amount for JSON, with all its digits."""
    return None if cost is None else format(cost, "f")


def readable(arguments: str) -> str:
    """Format a call's arguments in one line; JSON escapes of printable characters are decoded."""
    try:
        return one_line(json.dumps(json.loads(arguments), ensure_ascii=False))
    except (ValueError, RecursionError):
        return one_line(arguments)


def subject(arguments: str) -> str:
    """Return the argument that describes a call best, or "" if none does."""
    try:
        read: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(read, dict):
        return ""
    texts = {name: value for name, value in read.items() if isinstance(value, str)}
    name = next((name for name in _SUBJECTS if name in texts), next(iter(texts), ""))
    return one_line(texts.get(name, ""), 200)


def compaction(reduced: int, summarized: int, omitted: int, before: int, after: int) -> str:
    """Describe how the view of a conversation became shorter: the parts, and the tokens before and after."""
    made = (
        (reduced, "tool result", "shortened"),
        (summarized, "message", "summarized"),
        (omitted, "message", "omitted"),
    )
    parts = ", ".join(f"{counted(count, noun)} {verb}" for count, noun, verb in made if count)
    return f"{before:,} to {tokens(after)}" + (f" ({parts})" if parts else "")


def event_note(event: AttemptFailed | CacheMiss | ContextEdited | Notice | Steered) -> str:
    """Describe an event that is not part of a run's ordinary progress."""
    match event:
        case AttemptFailed():
            again = f"{event.next_model} in {seconds(event.seconds)}" if event.seconds else event.next_model
            return f"retry: {event.model} failed ({one_line(event.error, 160)}); next: {again}"
        case ContextEdited():
            counts = (event.reduced, event.summarized, event.left_out)
            return f"compaction: {compaction(*counts, event.before, event.after)}"
        case CacheMiss():
            return f"cache miss: {tokens(event.expected - event.cached)} not read from the cache ({event.reason})"
        case Steered():
            return f"steering message: {one_line(event.text)}"
        case Notice():
            return one_line(event.text)
