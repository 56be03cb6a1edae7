"""Memories: texts that users want remembered, and their index of words."""

from __future__ import annotations

import hashlib

from ...errors import StorageError
from ...scope import Scope
from ...text import index_terms, query_terms
from ..codec import encode_json, memory_id, storable
from ..types import Memory
from .rows import to_memory
from .session import Session
from .statements import most, scoped


def remember(connection: Session, scope: Scope, text: str) -> Memory:
    """Store *text* for the user of *scope* unless it exists, and return it."""
    if not scope.user:
        raise StorageError("a scope without a user has no memories: name the user whose memory it is")
    text = storable(text)
    key = memory_id(scope.key, text)
    found = " ".join(index_terms(text))
    sql = connection.queries
    find, bound = scoped(connection, "memory", scope)
    row = connection.execute(find, {**bound, "id": key}).fetchone()
    if row is not None:
        return to_memory(row)
    created = connection.now()
    number = connection.execute(sql["add_memory"], {**bound, "id": key, "text": text, "created": created}).lastrowid
    connection.execute(sql["add_memory_words"], (number, _scope_word(scope), found))
    return Memory(id=key, text=text, created=created)


def recall(connection: Session, scope: Scope, query: str, limit: int) -> tuple[Memory, ...]:
    """Return the memories of *scope* that match *query* best, or the newest if it has no word."""
    wanted = query_terms(storable(query))
    # Words have letters and digits only, so none of them is FTS5 syntax.
    either = " OR ".join(f'"{word}"' for word in wanted)
    match = f"scope : {_scope_word(scope)} AND words : ({either})"
    sql, bound = scoped(connection, "find_memories" if wanted else "newest_memories", scope)
    bound |= {"limit": most(limit), "match": match, "wanted": encode_json(wanted)}
    return tuple(to_memory(row) for row in connection.execute(sql, bound).fetchall())


def _scope_word(scope: Scope) -> str:
    """Return *scope* as one word of the index, whatever characters it has."""
    return "s" + hashlib.sha256(scope.key.encode()).hexdigest()
