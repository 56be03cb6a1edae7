"""Headings that are lines of punctuation under (and over) a line of text, as in reStructuredText and `.txt`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_<>!$%&,/;?@\\|])\1{2,}\s*$")
_MAX_HEADING = 200


def is_underline(line: str) -> bool:
    """Whether a line is one punctuation character, repeated."""
    return bool(_UNDERLINE.match(line))


def heading_at(lines: Sequence[str], index: int) -> tuple[str, int] | None:
    """The heading that begins at *index* and the number of lines that it takes, or None."""
    line = lines[index]
    following = lines[index + 1] if index + 1 < len(lines) else ""
    if is_underline(line):
        under = lines[index + 2] if index + 2 < len(lines) else ""
        if following.strip() and not is_underline(following) and under.rstrip() == line.rstrip():
            return following.strip(), 3
        return None
    if line[:1].isspace() or not line.strip() or not is_underline(following) or len(line) > _MAX_HEADING:
        return None
    # A short underline is an accident of the author; three characters under a long line are a rule, no heading.
    return (line.strip(), 2) if len(following.rstrip()) >= min(len(line.rstrip()) - 2, 40) else None
