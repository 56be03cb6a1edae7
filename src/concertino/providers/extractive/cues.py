"""Cues: by what a sentence shows that it answers a question of a certain kind, and how well it can be quoted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .questions import Kind


def _compiled(patterns: Mapping[Kind, str]) -> dict[Kind, re.Pattern[str]]:
    return {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in patterns.items()}


_DATE = (
    r"\b(?:1[89]|20)\d\d\b|\b(?:january|february|march|april|may|june|july|august|september|october|november"
    r"|december)\b"
    r"|\b\d+(?:\.\d+)? (?:business |calendar )?(?:second|minute|hour|day|week|month|year)s?\b"
)
_CUES: dict[Kind, re.Pattern[str]] = _compiled({
        "difference": r"\b(?:unlike|whereas|while|instead|rather than|differs?|different|differences?"
                      r"|in contrast|compared"
                      r"|but|however|only|both|similar|same|equivalent|more|less|stronger|safety|prefer\w*)\b",
        "why": r"\b(?:because|so that|in order to|since|therefore|thus|hence|due to|reasons?|motivat\w+"
               r"|rationale|purpose"
               r"|avoids?|prevents?|allows?|makes? it|problems?|confus\w+|ambigu\w+|too|useful|benefits?"
               r"|advantages?)\b",
        "when": _DATE + r"|\b(?:since|until|before|after|when|once|as soon as)\b"
                      r"|^(?:created|date|effective|deadline|python-version)\b",
        "who": r"^(?:author|owner|contact|sponsor|bdfl-delegate)s?:|\b(?:by|author|authors|wrote|proposed"
               r"|created|contact|department|team)\b|(?<=[a-z,] )[A-Z][a-z]+ [A-Z][a-z]+",
        "limits": r"\b(?:not|cannot|can't|only|limit\w*|maximum|at most|must|never|deprecated|unsupported"
                  r"|warning|caveat\w*"
                  r"|however|unless|except|restrict\w*|unsafe|insecure|up to)\b|n't\b",
        "amount": r"[$€£¥]\s?\d|\d\s?%|\b\d[\d,.]*\b|\b(?:one|two|three|four|five|six|seven|eight|nine|ten"
                  r"|no limit|unlimited)\b",
        "how": r"\b(?:use|using|call|calling|calls|pass|passing|by|create|set|via|with|example|allows?|lets?"
               r"|enables?|to|can be|returns?|run"
               r"|returned|steps?|click|select|go to|submit|contact|ensure|must|should)\b",
        "list": r"\b(?:following|include|includes|including|such as|supports?|either|are|options?|types?|kinds?"
                r"|available)\b",
        "yesno": r"\b(?:can|cannot|can't|may|must|not|only|allowed|supported|is|are|required|always|never|will"
                 r"|safe)\b|n't\b",
        "definition": r"\b(?:is|are|was|provides?|represents?|returns?|implements?|defines?|describes?"
                      r"|refers? to|means"
                      r"|allows?|lets|contains?|proposes?|introduces?|specif(?:y|ies)|consists?|offers?)\b",
})  # fmt: skip
_HEADINGS: dict[Kind, re.Pattern[str]] = _compiled({
        "why": r"\b(?:rationale|motivation|why|reason\w*|background|purpose|benefits?|justification|problem)\b",
        "definition": r"\b(?:abstract|introduction|overview|summary|definition|description|about|what)\b",
        "about": r"\b(?:abstract|introduction|overview|summary|description|about)\b",
        "how": r"\b(?:how|usage|examples?|tutorial|guide|steps?|procedures?|instructions?|process|getting)\b",
        "limits": r"\b(?:limit\w*|caveats?|restrictions?|warnings?|drawbacks?|eligibility|exclusions?|notes?)\b",
        "when": r"\b(?:history|timeline|schedule|timing|deadlines?|status|when)\b",
        "amount": r"\b(?:fees?|limits?|rates?|pricing|costs?|amounts?|apr|apy)\b",
        "difference": r"\b(?:differences?|comparison|versus|vs|alternatives?)\b",
        "list": r"\b(?:types?|options?|list|supported|available|kinds?)\b",
})  # fmt: skip
_POINTS_BACK = re.compile(
    r"(?:this|these|those|they|them|it|its|he|she|such|however|therefore|thus|hence|otherwise|also|but|and|or"
    r"|so|then"
    r"|instead|likewise|similarly|as part of th(?:is|at)|in this case|in that case|in such|for example|for instance"
    r"|as a result|the former"
    r"|the latter|in addition|additionally|moreover|furthermore|note that this|again|similar to this|the above"
    r"|both|here"
    r"|consequently|finally|conversely|nevertheless|meanwhile|second(?:ly)?|third(?:ly)?|next|yes|no|that|nor"
    r"|yet|still|on the other hand|the (?:same|above|resulting)|the \w+ (?:is|are) then|such an?)\b"
    r"(?!\s+(?:pep|module|package|function|class|method|document|section|is raised|account|card|procedure"
    r"|policy|guide|"
    r"context manager|exception|proposal|library|specification|article|error|attribute|command)\b)",
    re.IGNORECASE,
)
_PROOFS: dict[Kind, re.Pattern[str]] = {
    "who": re.compile(
        r"^(?i:author|owner|contact|sponsor|bdfl-delegate|pep-delegate)s?:|(?<=[\w,;(] )[A-Z][a-z]+ (?:van "
        r"|de )?[A-Z][a-z]+"
        r"|\b(?i:customers?|agents?|users?|developers?|authors?|team|department|council|committee|manager)\b"
    ),
    "when": re.compile(_DATE, re.IGNORECASE),
    "amount": _CUES["amount"],
    "limits": _CUES["limits"],
    "difference": re.compile(
        r"\b(?:unlike|whereas|while|instead|rather|differ\w*|in contrast|compared|however|but|more|less|both"
        r"|similar\w*"
        r"|replaces?|alternative|equivalent|except|stronger|than)\b",
        re.IGNORECASE,
    ),
}
_FIELDS: dict[Kind, re.Pattern[str]] = _compiled({
    "who": r"(?:author|owner|contact|proposer|maintainer)s?: ",
    "when": r"(?:created|date|effective(?: date)?|deadline|released?|published): ",
})  # fmt: skip
_ASIDE = re.compile(
    r"\b(?:reject|alternativ|open (?:issue|question)|deferred|discussion|reference|copyright|acknowledg"
    r"|footnote|changelog"
    r"|revision|withdrawn|future|possible extension|example)\w*",
    re.IGNORECASE,
)
_SELF = re.compile(
    r"(?:this|these|the following) (?:pep|module|package|function|class|method|document|guide|proposal|library"
    r"|policy"
    r"|procedure|account|card|article|specification|section|exception|command|attribute)\b",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"https?://|^(?:title|pep|type|discussions-to):|^\[\d+\]|\bsee also\b|^(?:see|copyright|note to|todo|xxx"
    r"|fixme|last[- ]modified|post-history|resolution|content-type|version:|"
    r"example|examples|usage|signature|for more (?:information|details))\b|@\w+\.\w|\"{3}|\b\w+ = \w"
    r"|^the following [^:]*$|^\W*$|\bmailing list\b|\ball rights reserved\b|\bset this to\b|^_\w+ |^to use, simply"
    r"|%\([a-z]+\)|(?:%\w .*){3}",
    re.IGNORECASE,
)
_CODEISH = re.compile(r"[{}=<>|\\;]|\(\)|>>>|::|->|[\[\](),]")
_ENDS_WELL = re.compile(r"[.!?。\uff01\uff1f:][\"'”\u2019)\]]*$")
_ASKS = re.compile(r"\?[\"'”\u2019)\]]*$")


def kind_bonus(kind: Kind, text: str, heading: str) -> float:
    """How much a sentence, under its heading, looks like an answer of this kind: up to 1, a field made for it 2."""
    cue, under = _CUES.get(kind), _HEADINGS.get(kind)
    if kind in _FIELDS and _FIELDS[kind].match(text):
        return 2.0
    bonus = 0.6 if cue and cue.search(text) else 0.0
    return bonus + (0.4 if under and under.search(heading) else 0.0)


def heads_answer(kind: Kind, heading: str) -> bool:
    """Whether what stands under this heading answers questions of this kind about the page's subject."""
    under = _HEADINGS.get(kind)
    return bool(under and under.search(heading)) and (kind not in ("definition", "about") or len(heading.split()) < 4)


def proves(kind: Kind, text: str) -> bool:
    """Whether a sentence holds what a question of this kind asks for: a person, a time, a number. Others ask less."""
    proof = _PROOFS.get(kind)
    return proof is None or bool(proof.search(text))


def is_aside(heading: str) -> bool:
    """Whether what stands under this heading is not what the document holds to be so."""
    return bool(_ASIDE.search(heading))


def says_what(text: str) -> bool:
    """Whether a sentence says what something is or does."""
    return bool(_CUES["definition"].search(text))


def points_back(text: str) -> bool:
    """Whether a sentence leans on the one before it."""
    return bool(_POINTS_BACK.match(text)) and not _SELF.match(text)


def speaks_of_itself(text: str) -> bool:
    """Whether a sentence says what its own document or section is, as in `This module provides`."""
    return bool(_SELF.match(text))


def quality(text: str, *, item: bool) -> float:
    """From 0 to 1: how well a sentence can be read on its own."""
    words = len(text.split())
    if words < 3 and not (item and words == 2) and text.isascii():
        return 0.15
    score = 1.0
    if words < 5 and text.isascii() and not (item and ": " in text):
        score *= 0.7
    if words > 45 or len(text) > 420:
        score *= 0.75 if len(text) < 700 else 0.3
    if _NOISE.search(text):
        score *= 0.4
    if len(_CODEISH.findall(text)) > 2 + len(text) / 25:
        score *= 0.4
    if not item and not _ENDS_WELL.search(text):
        score *= 0.75
    if _ASKS.search(text):
        score *= 0.4
    if text[0].islower() and not re.match(r"[a-z_]\w*[._(]", text) and not item:
        score *= 0.6
    return score
