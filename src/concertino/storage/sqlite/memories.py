"""Memories: texts that users want remembered, and their index of words."""

from __future__ import annotations

import hashlib
import sqlite3

from ...text import index_terms, query_terms
from ..codec import memory_id, storable
from ..types import Memory
from .rows import hash_key, to_memory
from .statements import clock, queries


def remember(connection: sqlite3.Connection, owner: str, text: str) -> Memory:
    """Store *text* for *owner* unless it exists, and return it."""
    text = storable(text)
    key = memory_id(owner, text)
    found = " ".join(index_terms(text))
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
    wanted = query_terms(storable(query))
    # Words have letters and digits only, so none of them is FTS5 syntax.
    either = " OR ".join(f'"{word}"' for word in wanted)
    match = f"owner_key : {_owner_word(owner)} AND words : ({either})"
    bound = {"owner": owner, "owner_key": hash_key(owner), "limit": max(limit, 0), "match": match}
    name = "find_memories" if wanted else "newest_memories"
    return tuple(to_memory(row) for row in connection.execute(queries()[name], bound).fetchall())


def _owner_word(owner: str) -> str:
    """Return *owner* as one word of the index, whatever characters it has."""
    return "o" + hashlib.sha256(owner.encode()).hexdigest()
