"""Where one sentence ends and the next begins."""

from __future__ import annotations

import re

_END = re.compile(
    r"[.!?…]{1,3}[\"'”\u2019)\]]{0,3}\s+(?=[\"'“(\[`$€£]*(?:[A-Z0-9_]|[a-z_]\w*[._(][\w)]|[^\x00-\x7f]))"
    r"|[。\uff01\uff1f]\s*"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|viz|resp|approx|al|a\.k\.a|w\.r\.t|incl|excl|no|nos|fig|figs|eq|sec|ch|vol|pp"
    r"|p|ed|eds"
    r"|dr|mr|mrs|ms|prof|st|jr|sr|inc|ltd|co|corp|dept|u\.s|u\.k|a\.m|p\.m|jan|feb|mar|apr|jun|jul|aug|sep|sept"
    r"|oct|nov"
    r"|dec)|(?<![\w.])[A-Z])\.[\"'”\u2019)\]]*\s+$",
    re.IGNORECASE,
)
_ALWAYS_END = re.compile(r"\b(?:etc|a\.m|p\.m|inc|ltd|no|al|ed|p|ch|co|st)\.[\"'”\u2019)\]]*\s+$", re.IGNORECASE)
_PIECE = re.compile(r"(?<=[.!?\]\n。])(?=\s)")
_LOWER_NEXT = re.compile(r"[\"'“(\[`$]*[A-Z]")


def split_sentences(text: str) -> list[str]:
    """The sentences of a paragraph, each exactly as it stands there."""
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        if _is_abbreviation(text, match):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def _is_abbreviation(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 12) : match.end()]
    if not _ABBREVIATION.search(before):
        return False
    # `etc.` and the like may end a sentence: they do where a capital follows.
    return not (_ALWAYS_END.search(before) and _LOWER_NEXT.match(text, match.end()))


def split_pieces(text: str) -> list[str]:
    """*text* in pieces to be streamed, about a sentence each; together they are the text."""
    return [piece for piece in _PIECE.split(text) if piece]
