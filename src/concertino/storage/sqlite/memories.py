"""Memories: texts that users want remembered, and their index of words."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import unicodedata
from itertools import pairwise

from ..codec import memory_id, storable
from ..types import Memory
from .rows import to_memory
from .statements import clock, hash_key, queries


def remember(connection: sqlite3.Connection, owner: str, text: str) -> Memory:
    """Store *text* for *owner* unless it exists, and return it."""
    text = storable(text)
    key = memory_id(owner, text)
    found = " ".join(words(text))
    sql = queries()
    row = connection.execute(sql["memory"], (key, owner)).fetchone()
    if row is not None:
        return to_memory(row)
    created = clock()
    number = connection.execute(sql["add_memory"], (key, hash_key(owner), owner, text, created, "{}")).lastrowid
    connection.execute(sql["add_memory_words"], (number, _owner_word(owner), found))
    return Memory(id=key, text=text, created=created)


def recall(connection: sqlite3.Connection, owner: str, query: str, limit: int) -> tuple[Memory, ...]:
    """Return the memories of *owner* that match *query* best, or the newest if it has no word."""
    wanted = query_words(storable(query))
    # Words have letters and digits only, so none of them is FTS5 syntax.
    either = " OR ".join(f'"{word}"' for word in wanted)
    match = f"owner_key : {_owner_word(owner)} AND words : ({either})"
    bound = {"owner": owner, "owner_key": hash_key(owner), "limit": max(limit, 0), "match": match}
    name = "find_memories" if wanted else "newest_memories"
    return tuple(to_memory(row) for row in connection.execute(queries()[name], bound).fetchall())


def _owner_word(owner: str) -> str:
    """Return *owner* as one word of the index, whatever characters it has."""
    return "o" + hashlib.sha256(owner.encode()).hexdigest()


MAX_WORDS = 64
"""Limit per query; more words would match almost everything."""

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+)"
)


def words(text: str) -> list[str]:
    """Return the words of *text* to index, without case and accents.

    Scripts without spaces (Chinese, Japanese, Thai, ...) yield each character and each pair of neighbours.
    """
    found: list[str] = []
    for run, unspaced in _runs(text):
        found.extend(run if unspaced else [run])
        if unspaced:
            found.extend(_pairs(run))
    return found


def query_words(query: str) -> list[str]:
    """Return the distinct words to search, at most `MAX_WORDS`: for unspaced scripts the pairs, which match better."""
    found: dict[str, None] = {}
    for run, unspaced in _runs(query):
        found.update(dict.fromkeys(_pairs(run) if unspaced and len(run) > 1 else [run]))
        if len(found) >= MAX_WORDS:
            break
    return list(found)[:MAX_WORDS]


def _pairs(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)]


def _runs(text: str) -> list[tuple[str, bool]]:
    apart = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(char for char in apart if unicodedata.category(char) != "Mn")
    plain = unicodedata.normalize("NFC", bare)
    # With its one group, `split` puts the unspaced runs at odd positions.
    return [(run, n % 2 == 1) for word in _WORD.findall(plain) for n, run in enumerate(_UNSPACED.split(word)) if run]
