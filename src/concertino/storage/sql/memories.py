"""Memories: texts that users want remembered, and their index of words."""

from __future__ import annotations

import hashlib

from ...errors import StorageError
from ...scope import Scope
from ...text import index_terms, query_terms
from ..codec import encode_json, memory_id, storable
from ..types import Memory
from .rows import to_memory
from .sealing import seal
from .search import bm25
from .session import Session
from .statements import most, scoped

_MOST_SEARCHED = 10_000
"""Memories that one search reads where no index has their words, the newest."""


def remember(connection: Session, scope: Scope, text: str) -> Memory:
    """Store *text* for the user of *scope* unless it exists, and return it."""
    if not scope.user:
        raise StorageError("a scope without a user has no memories: name the user whose memory it is")
    text = storable(text)
    key = memory_id(scope.key, text)
    sql, sealer = connection.queries, connection.sealer
    if sealer is not None:
        sealer.prepare([("user", scope.key)])
        key = sealer.tag(key, "user", scope.key)
    find, bound = scoped(connection, "memory", scope)
    row = connection.execute(find, {**bound, "id": key}).fetchone()
    if row is not None:
        return to_memory(row)
    created = connection.now()
    sealed = seal(connection, text, "user", scope.key)
    number = connection.execute(sql["add_memory"], {**bound, "id": key, "text": sealed, "created": created}).lastrowid
    if sealer is None:
        connection.execute(sql["add_memory_words"], (number, _scope_word(scope), " ".join(index_terms(text))))
    return Memory(id=key, text=text, created=created)


def recall(connection: Session, scope: Scope, query: str, limit: int) -> tuple[Memory, ...]:
    """Return the memories of *scope* that match *query* best, or the newest if it has no word."""
    wanted = query_terms(storable(query))
    if wanted and connection.sealer is not None:
        return _found(connection, scope, wanted, limit)
    # Words have letters and digits only, so none of them is FTS5 syntax.
    either = " OR ".join(f'"{word}"' for word in wanted)
    match = f"scope : {_scope_word(scope)} AND words : ({either})"
    sql, bound = scoped(connection, "find_memories" if wanted else "newest_memories", scope)
    bound |= {"limit": most(limit), "match": match, "wanted": encode_json(wanted)}
    return tuple(to_memory(row) for row in connection.execute(sql, bound).fetchall())


def _found(connection: Session, scope: Scope, wanted: list[str], limit: int) -> tuple[Memory, ...]:
    """Return the memories with words of *wanted*, the best first, where no index has their words."""
    sql, bound = scoped(connection, "newest_memories", scope)
    memories = [to_memory(row) for row in connection.execute(sql, {**bound, "limit": _MOST_SEARCHED}).fetchall()]
    scores = bm25([f" {' '.join(index_terms(memory.text))} " for memory in memories], wanted)
    ranked = sorted(zip(scores, memories, strict=True), key=lambda each: -each[0])
    return tuple(memory for score, memory in ranked[: most(limit)] if score > 0)


def _scope_word(scope: Scope) -> str:
    """Return *scope* as one word of the index, whatever characters it has."""
    return "s" + hashlib.sha256(scope.key.encode()).hexdigest()
