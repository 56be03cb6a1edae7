"""Words: how text is cut into them, and in which form two of them are the same."""

from __future__ import annotations

import re
from functools import lru_cache


def listed(text: str) -> frozenset[str]:
    """The words of *text* as a set."""
    return frozenset(text.split())


WORD = re.compile(r"\d+(?:[.,]\d+)+(?!\w)|\w+(?:['\u2019.-]\w+)*")
"""A word, a number, or a dotted name such as `os.path.join`."""
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_HUMP = re.compile(r"[a-z\d][A-Z]|[A-Z]{2,}[a-z]{2,}")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_BRITISH = re.compile(r"(?<=[a-z]{4})is(e|es|ed|ing)$")
_KEEP_MENT = listed("argument comment document element environment experiment implement moment segment statement")
_ODD = {
    "began": "begin", "begun": "begin", "built": "build", "caught": "catch", "children": "child", "chosen": "choose",
    "data": "data", "did": "do", "found": "find", "gave": "give", "given": "give", "held": "hold", "indices": "index",
    "kept": "keep", "left": "leave", "lost": "lose", "made": "make", "paid": "pay", "people": "person", "ran": "run",
    "raise": "raise", "said": "say", "sent": "send", "series": "series", "spent": "spend", "taken": "take",
    "threw": "throw", "thrown": "throw", "took": "take", "told": "tell", "went": "go", "wrote": "write",
    "written": "write", "class": "class", "this": "this", "its": "its", "has": "has", "was": "was", "does": "do",
    "news": "news", "lens": "lens", "during": "during", "string": "string", "thing": "thing", "need": "need",
    "speed": "speed", "feed": "feed", "seed": "seed", "embed": "embed", "exceed": "exceed", "proceed": "proceed",
    "analyses": "analysis", "fed": "feed", "led": "lead",
}  # fmt: skip

STOPWORDS = listed(
    """
    a about above after again against all also although am among an and another any anybody anyone
    anything are aren't around as at away back be became because become becomes been before behind
    being below beside besides between beyond both but by can can't cannot could couldn't did didn't
    do does doesn't doing don't done down during each either else ever every everyone everything
    except few for from further had hadn't has hasn't have haven't having he her here hers herself
    him himself his how how's however i i'd i'll i'm i've if in indeed instead into is isn't it it's
    its itself just least less let let's like likely lot lots many may maybe me might mine more most
    mostly much must my myself neither no nobody none nor not nothing now of off often oh ok okay on
    once one ones only onto or other others otherwise our ours ourselves out over own per perhaps
    please quite rather really same shall she should shouldn't since so some somebody someone
    something still such than that that's the their theirs them themselves then there there's
    therefore these they they're this those though through thus till to together too toward towards
    under unless until up upon us versus very via vs was wasn't we we'd we'll we're we've were
    weren't what what's whatever when where whereas wherever whether which while who who's whoever
    whole whom whose why will with within without won't would wouldn't yes yet you you'd you'll
    you're you've your yours yourself aber als auch auf aus bei bin bis das dass dem den der des die
    ein eine einem einen einer eines er es für hat ich im ist kann mit nach nicht oder sich sie sind
    und vom von wann warum war was wer werden wie wir wird zu zum zur au aux avec ce ces comment
    dans de des du elle en est et il je la le les leur mais ne nous ou où par pas pour pourquoi
    quand que quel quelle qui se ses son sont sur un une vous como con cuando cual del el ella es
    esta los las lo para pero por porque que quien se si sin su sus una uno y
    """
)
"""Words that say nothing about a subject: English, and the commonest of German, French and Spanish."""

WEAK = listed(
    """
    able actual behave behavior behaviour automatically gracefully efficiently manually reliably actually
    allow answer anyway
    apply approach ask available avoid bad basic best better bring call care case certain choose
    clear come common compare compared correct correctly depend describe detail difference different
    differ do easily easy enable ensure entire example exact exactly exist explain fact find follow
    following general generally get give go going good guarantee handle handling happen have help
    idea important instead involve keep kind know learn list look main make matter mean meaning
    mention need new normal normally number offer overview particular particularly people person
    piece point possible practice prefer prevent problem proper properly provide purpose put python
    question quick quickly real reason recommend recommended regard relate require right safe safely
    same say see serve set several should show simple simply situation solve sort special specific
    standard start step suitable summarise summarize suppose sure take talk tell thing think time
    topic try turn typical typically understand usage use useful user usual usually various want way
    when work wrong
    """
)
"""Words that a question is asked with rather than what it is about."""


def _undoubled(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouszl" else word


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def _without_ending(word: str) -> str:
    if word.endswith("bility") and len(word) > 8:
        return word[:-5] + "le"
    for ending, least in (
        ("ization", 3),
        ("isation", 3),
        ("ational", 4),
        ("ation", 4),
        ("ating", 4),
        ("ator", 4),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= least:
            return word[: -len(ending)] + ("iz" if ending in ("ization", "isation") else "")
    if word.endswith("ment") and len(word) > 6 and word not in _KEEP_MENT:
        return _without_final(word[:-4])
    for ending, least in (("ated", 4), ("ate", 4), ("ion", 4), ("ing", 3), ("ed", 3), ("ly", 4)):
        if word.endswith(ending) and len(word) - len(ending) >= least:
            return word[: -len(ending)]
    return word


def _without_final(word: str) -> str:
    if word.endswith("e") and len(word) > 3:
        return word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The form that `cancel`, `cancels`, `cancelled` and `cancellation` share; rough, and the same every time."""
    word = word.casefold().replace("\u2019", "'").removesuffix("'s").strip("_'")
    if len(word) > 60:
        return word
    if "-" in word:
        before, _, last = word.rpartition("-")
        return f"{before}-{stem(last)}"
    if word in _ODD:
        return _without_final(_ODD[word])
    if not word.isascii() or not word.isalpha() or len(word) < 4:
        return word.lstrip("0") or word if word.isdigit() else word
    singular = _without_plural(_BRITISH.sub(r"iz\1", word))
    if singular in _ODD:
        return _without_final(_ODD[singular])
    found = _without_final(_undoubled(_without_ending(singular)))
    return found[:-1] if found.endswith("ll") and len(found) > 4 else found


def is_identifier(word: str) -> bool:
    """Whether a word is a name from a program: dotted, with an underscore, or with a hump."""
    if "-" in word:
        return False
    return bool("_" in word.strip("_") or word.startswith("__") or _HUMP.search(word) or _is_dotted(word))


def _is_dotted(word: str) -> bool:
    parts = word.split(".")
    return len(parts) > 1 and all(len(part) > 1 and not part[0].isdigit() for part in parts)


def joined_form(word: str) -> str:
    """`SHA-256` as programs write it, `sha256`; empty for a word without a hyphen in it."""
    return word.replace("-", "").casefold() if "-" in word.strip("-") else ""


@lru_cache(maxsize=65_536)
def parts(word: str) -> tuple[str, ...]:
    """The stems of the words that a name is made of; none for an ordinary word."""
    pieces = [piece for piece in re.split(r"[._-]", word) if piece]
    found: list[str] = []
    for piece in pieces:
        humps = _CAMEL_PART.findall(piece) if _HUMP.search(piece) else [piece]
        found += humps
    return tuple(stem(piece) for piece in found) if len(found) > 1 else ()


@lru_cache(maxsize=65_536)
def forms(word: str) -> tuple[str, ...]:
    """All forms under which a word can be met: its stem, and for a name its parts and its pieces between dots."""
    if word[0].isdigit() and not word.isalnum():
        return (word.replace(",", ""),)
    if _UNSPACED.search(word):
        return tuple(word[i : i + 2] for i in range(len(word) - 1)) or (word,)
    pieces = [piece for piece in re.split(r"[.-]", word) if piece][:8] if "." in word or "-" in word else []
    paths = [".".join(pieces[:end]) for end in range(2, len(pieces))] if "." in word else []
    return tuple(dict.fromkeys([stem(word), *(stem(piece) for piece in (*pieces, *paths)), *parts(word)]))


def stems(text: str) -> list[str]:
    """All forms of all words of *text*, in order."""
    return [form for word in WORD.findall(text) for form in forms(word)]


def is_content(word: str) -> bool:
    """Whether a word can say what a text is about."""
    plain = word.casefold().replace("\u2019", "'")
    return plain not in STOPWORDS and (len(plain) > 1 or not plain.isascii() or plain.isdigit())
