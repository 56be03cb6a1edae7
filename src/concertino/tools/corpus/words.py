"""Words: what a text is found by beside its plain words, and what a question asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_CAMEL = re.compile(r"\b(?:[A-Z]?[a-z0-9]+|[A-Z]{2,}(?=[A-Z][a-z]))[A-Z][A-Za-z0-9]*\b")
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_HYPHENATED = re.compile(r"\b[A-Za-z]{2,}(?:-[A-Za-z]{2,}){1,2}\b")
# Scripts that put no blanks between words: the tokenizer takes a whole run of them for one word.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002fa1f]+"
)
_WORD = re.compile(r"[^\W_]+(?:[._\-'\u2019:/]+[^\W_]+)*")
_PIECE = re.compile(r"[^\W_]+")
_MAX_TERMS = 32
_GLUE = frozenset(["a", "an", "and", "or", "the"])

_COMMON = """
a about above after again all also am an and any are as at be because been before being below
between both but by can cannot could did do does doing down during each few for from further get
give had has have having he her here hers him his how i if in into is it its itself just like make
may me might more most much must my myself need no nor not now of off on once one only or other our
ours out over own please same shall she should so some such tell than that the their theirs them
then there these they this those through to too under until up upon us use used using very was way
we were what when where whether which while who whom whose why will with would you your yours
explain describe difference different s t re ve ll d m
"""
STOPWORDS = frozenset(_COMMON.split())


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that a question asks for, with the phrases any of which answers it."""

    phrases: tuple[str, ...]
    titles: tuple[str, ...] = ()
    """Phrases that answer it in a title only: elsewhere they are so rare that they would outweigh the rest."""

    @property
    def expression(self) -> str:
        """In FTS5's syntax. Every phrase is quoted, so that nothing in a question is read as an operator."""
        anywhere = [phrase if phrase.endswith("*") else f'"{phrase}"' for phrase in self.phrases]
        return "(" + " OR ".join([*anywhere, *(f'title : "{phrase}"' for phrase in self.titles)]) + ")"


def camel_parts(word: str) -> list[str]:
    """`TaskGroup` in its parts; nothing for a word that has only one."""
    parts = _CAMEL_PART.findall(word)
    return [part.lower() for part in parts] if len(parts) > 1 else []


def bigrams(run: str) -> list[str]:
    """Each two neighbouring characters of a run without blanks."""
    return [run[i : i + 2] for i in range(len(run) - 1)]


def hidden_words(text: str) -> str:
    """What the tokenizer does not see in *text*: parts of camelCase names, joined compounds, pairs of characters."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(_CAMEL.findall(text)):
        if parts := camel_parts(word):
            found[" ".join(parts)] = None
    for compound in dict.fromkeys(_HYPHENATED.findall(text)):
        found[compound.replace("-", "")] = None
    for run in _UNSPACED.findall(text):
        found.update(dict.fromkeys(bigrams(run)))
    return " ".join(found)


def _unspaced_terms(run: str) -> Iterator[Term]:
    if len(run) == 1:
        # The star makes it the first character of a pair.
        yield Term((run, f'"{run}"*'))
    for pair in bigrams(run):
        yield Term((pair,))


def _word_terms(word: str) -> Iterator[Term]:
    """The terms of a word; a compound such as `asyncio.TaskGroup` or `sub-command` is asked for by its parts."""
    pieces = _PIECE.findall(word)
    if len(pieces) == 2 and "-" in word:
        yield Term((" ".join(pieces), "".join(pieces)))
        return
    for piece in pieces:
        parts = camel_parts(piece)
        yield Term((piece.lower(), " ".join(parts))) if parts else Term((piece.lower(),))


def clean(query: str) -> str:
    """A query that SQLite takes: without NUL and without halves of surrogate pairs."""
    return query.replace("\x00", " ").encode("utf-8", "ignore").decode()


def _apart(query: str) -> str:
    """Runs without blanks set off by blanks, so that they do not stick to Latin words beside them."""
    return _UNSPACED.sub(lambda run: f" {run[0]} ", query)


def terms(query: str) -> list[Term]:
    """What a question asks for, each thing once; stop words count only where there is nothing else."""
    important: dict[Term, None] = {}
    common: dict[Term, None] = {}
    for word in _words(query):
        if _UNSPACED.fullmatch(word):
            important.update(dict.fromkeys(_unspaced_terms(word)))
        else:
            target = common if word.lower() in STOPWORDS else important
            target.update(dict.fromkeys(_word_terms(word)))
    return _joined(list(important or common)[:_MAX_TERMS])


def _words(query: str) -> list[str]:
    """The words of a question as they were written, without the ends of contractions and possessives."""
    found = _WORD.findall(_apart(clean(query)).replace("\u2019", "'"))
    return [re.sub(r"(?i)'(?:s|t|re|ve|ll|d|m)$", "", word) for word in found]


def _joined(found: list[Term]) -> list[Term]:
    """Neighbours may stand as one word, too: `task groups` for `TaskGroup`, `data classes` for `dataclass`."""
    extra: list[list[str]] = [[] for _ in found]
    for index, (one, other) in enumerate(pairwise(found)):
        first, second = one.phrases[0], other.phrases[0]
        if min(len(first), len(second)) > 2 and (first + second).isascii() and (first + second).isalpha():
            extra[index].append(first + second)
            extra[index + 1].append(first + second)
    return [Term(term.phrases, tuple(more)) for term, more in zip(found, extra, strict=True)]


def phrases(query: str) -> list[str]:
    """Each two neighbouring words of a question: together they say more than apart.

    Most stop words count here, as in `with statement`; articles and conjunctions do not.
    """
    pieces = [piece.lower() for word in _words(query)[:_MAX_TERMS] for piece in _PIECE.findall(word)]
    pairs = (
        f"{one} {other}"
        for one, other in pairwise(pieces)
        if not ({one, other} & _GLUE or (one in STOPWORDS and other in STOPWORDS))
    )
    return list(dict.fromkeys(pairs))


def names_in(query: str) -> list[str]:
    """The names that a question may be about, by what was written: the whole, then two to four words in a row.

    All in lower case, as `keys` writes them.
    """
    words = normal(clean(query)).split()[:40]
    runs = [" ".join(words[i : i + n]) for n in (4, 3, 2) for i in range(len(words) - n + 1)]
    single = [word for word in words if re.search(r"[._]", word)]
    single += [word.lower() for word in _PIECE.findall(query) if camel_parts(word) and word.lower() in words]
    return list(dict.fromkeys([*single, *runs]))


def normal(name: str) -> str:
    """A name in the form in which names are compared."""
    return " ".join(re.findall(r"[^\W]+(?:[.\-]\w+)*", name.lower().replace("()", "")))


def keys(location: str, title: str) -> Sequence[str]:
    """The names by which someone may ask for a document: its title, the parts of it, its file's or dotted name."""
    stem = re.sub(r"\.(?:md|markdown|rst|txt|html?)$", "", location.rpartition("/")[2])
    found = [location, title, stem, *re.split(r":\s|\s[\u2013\u2014-]\s|\s\(", title)]
    if re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)+", location):
        parts = location.split(".")
        found += [".".join(parts[i:]) for i in range(1, len(parts))]
    return list(dict.fromkeys(key for name in found if (key := normal(name))))


def anchor_keys(heading: str) -> Sequence[str]:
    """The names of a heading that is a signature, such as `TaskGroup.create_task(coro)`."""
    match = re.match(r"(?:(?:async )?def |class )?([A-Za-z_]\w*(?:\.\w+)*)(\(?)", heading)
    if not match or not (match[2] or "." in match[1] or "_" in match[1]):
        return ()
    return (normal(match[1]),)
