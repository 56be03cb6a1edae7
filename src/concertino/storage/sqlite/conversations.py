"""Conversations: the tree of turns, what is shown of it, the history of a branch, search, and erasure."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from ...errors import ConversationError, UnknownConversationError
from ...scope import AnyScope, Operator, Scope
from ...text import query_terms
from ..codec import decode_json, encode_json, storable
from ..conversation_types import Feedback, StoredConversation, StoredHistory, StoredTurn
from ..types import Erased
from .connection import checkpoint, reading, transaction
from .erasure import end_trees, forget_content, forget_conversations
from .reader import branch_messages, text_of
from .rows import hash_key, scope_key, scope_row
from .schedule import check_operator
from .statements import clock, most, queries, scoped
from .turns import conversation_number, queued_input, turn_number

_SHOWN = {"queued": "queued", "running": "running", "suspended": "waiting"}
_DELETED = "its conversation was deleted"
_MOST_SEARCHED = 10_000
"""Turns that one search reads, the newest: about 0.1 s, in which the store does nothing else."""


def open_conversation(
    connection: sqlite3.Connection, scope: Scope, conversation_id: str, agent: str
) -> StoredConversation:
    """Return the conversation, created if it is missing."""
    sql, now = queries(), clock()
    try:
        conversation_number(connection, scope, conversation_id)
    except UnknownConversationError:
        bound = {**scope_row(scope), "conversation_key": hash_key(conversation_id), "id": conversation_id}
        number = connection.execute(sql["add_conversation"], {**bound, "agent": agent, "now": now}).lastrowid
        connection.execute(sql["add_conversation_head"], (number, now))
    found = conversation(connection, scope, conversation_id)
    assert found is not None
    return found


def conversation(connection: sqlite3.Connection, scope: Scope, conversation_id: str) -> StoredConversation | None:
    """Return one conversation, or None."""
    bound = {"conversation_key": hash_key(conversation_id), "id": conversation_id, "limit": 1}
    rows = _conversations(connection, scope, "c.conversation_key = :conversation_key AND c.id = :id", bound)
    return rows[0] if rows else None


def conversations(
    connection: sqlite3.Connection, scope: AnyScope, limit: int, before: str | None
) -> tuple[StoredConversation, ...]:
    """Return the conversations of *scope*, the last updated first; with *before*, those after it in this order."""
    bound: dict[str, Any] = {"limit": most(limit)}
    condition = "true"
    if before is not None:
        number = conversation_number(connection, scope, before)
        bound |= {"before": number}
        condition += (
            " AND (h.updated, c.number) < "
            "((SELECT updated FROM conversation_heads WHERE conversation = :before), :before)"
        )
    return _conversations(connection, scope, condition, bound)


def _conversations(
    connection: sqlite3.Connection, scope: AnyScope, condition: str, bound: dict[str, Any]
) -> tuple[StoredConversation, ...]:
    sql, reader = scoped("conversations", scope)
    sql, bound = sql.replace("/*conditions*/", condition), {**reader, **bound}
    return tuple(
        StoredConversation(
            id=row["id"],
            tenant=row["tenant"],
            user=row["user_id"],
            agent=row["agent"],
            created=row["created"],
            updated=row["updated"],
            title=row["title"],
            leaf=row["leaf"],
            busy=row["busy"],
            modes=tuple(json.loads(row["modes"])),
            tools=tuple(json.loads(row["tools"])),
        )
        for row in connection.execute(sql, bound).fetchall()
    )


def conversation_marks(
    connection: sqlite3.Connection, scope: Operator, named: Sequence[tuple[Scope, str]]
) -> list[str | None]:
    """Return a mark of each conversation, by its owner and id, that changes with it; None if it does not exist."""
    check_operator(scope)
    found: list[str | None] = []
    with reading(connection):
        for owner, conversation_id in named:
            sql, bound = scoped("conversation_mark", owner)
            bound |= {"conversation_key": hash_key(conversation_id), "id": conversation_id}
            row = connection.execute(sql, bound).fetchone()
            found.append(None if row is None else repr(tuple(row)))
    return found


# -- turns -------------------------------------------------------------------------------------------------------------


def turns(
    connection: sqlite3.Connection, scope: Scope, conversation_id: str, limit: int, before: str | None
) -> tuple[StoredTurn, ...]:
    """Return the turns of the active branch, the newest first; with *before*, those before that turn."""
    sql = queries()
    with reading(connection):
        number = conversation_number(connection, scope, conversation_id)
        if before is None:
            last = connection.execute(sql["head_of_conversation"], (number,)).fetchone()["leaf"]
        else:
            turn_number(connection, number, before)
            last = connection.execute(sql["turn_number"], (number, before)).fetchone()["parent"]
        if last is None or limit <= 0:
            return ()
        path = [row[0] for row in connection.execute(sql["branch"], {"turn": last, "limit": most(limit)}).fetchall()]
        found = _turns(connection, f"t.number IN ({', '.join(map(str, path))})")
    return tuple(found[each] for each in path)


def all_turns(connection: sqlite3.Connection, scope: Scope, conversation_id: str) -> tuple[StoredTurn, ...]:
    """Return all turns of a conversation, also queued ones, in the order of their creation."""
    with reading(connection):
        number = conversation_number(connection, scope, conversation_id)
        return tuple(_turns(connection, f"t.conversation = {number} AND t.state <> 'steered'").values())


def turn(connection: sqlite3.Connection, scope: Scope, conversation_id: str, run_id: str) -> StoredTurn:
    """Return one turn. Raises `UnknownTurnError`."""
    with reading(connection):
        number = turn_number(connection, conversation_number(connection, scope, conversation_id), run_id)
        return _turns(connection, f"t.number = {number}")[number]


def _turns(connection: sqlite3.Connection, condition: str) -> dict[int, StoredTurn]:
    sql = queries()["turns"].replace("/*conditions*/", condition)
    return {row["number"]: _to_turn(row) for row in connection.execute(sql).fetchall()}


def _to_turn(row: sqlite3.Row) -> StoredTurn:
    queued = queued_input(row) if row["stage"] == "queued" else None
    feedback = decode_json(row["feedback"], dict) if row["feedback"] else None
    state = "queued" if row["stage"] == "queued" else row["state"]
    return StoredTurn(
        run_id=row["run_id"],
        conversation_id=row["conversation_id"],
        parent=row["parent_id"],
        state=_SHOWN.get(state, state),  # type: ignore[arg-type]  # as the run's state is stored
        message=row["task"] if queued is None else str(queued.get("message", "")),
        answer=row["answer"] or "",
        error=row["error"],
        created=row["created"],
        mode=row["mode"],
        feedback=None if feedback is None else Feedback(**feedback),
        siblings=tuple(json.loads(row["siblings"])),
        input=queued,
    )


def select_leaf(
    connection: sqlite3.Connection, scope: Scope, conversation_id: str, run_id: str, *, newest: bool
) -> str:
    """Make a turn the active leaf, or with *newest* the newest turn below it. Return the leaf's run id."""
    sql = queries()
    conversation = conversation_number(connection, scope, conversation_id)
    number = turn_number(connection, conversation, run_id)
    row = connection.execute(sql["turn_number"], (conversation, run_id)).fetchone()
    if row["state"] == "queued":
        raise ConversationError(f"turn {run_id} is queued: withdraw it, or wait for its start")
    if newest:
        number = connection.execute(sql["newest_leaf"], {"turn": number, "conversation": conversation}).fetchone()[0]
    connection.execute(sql["set_leaf"], (number, conversation))
    return str(connection.execute("SELECT run_id FROM turns WHERE number = ?", (number,)).fetchone()[0])


def history(
    connection: sqlite3.Connection, scope: Scope, conversation_id: str, run_id: str, after: str
) -> StoredHistory:
    """Return the messages of the branch that ends with the turn *run_id*, and the context that it recorded last."""
    with reading(connection):
        turn_number(connection, conversation_number(connection, scope, conversation_id), run_id)
        messages, lasting, met = branch_messages(connection, run_id, after)
        context, texts = _context(connection, run_id, scope_key(scope.key))
    return StoredHistory(
        messages=tuple(messages), after=after if met else "", lasting=lasting, context=context, texts=texts
    )


def _context(connection: sqlite3.Connection, run_id: str, owner: bytes) -> tuple[list[Any] | None, dict[str, str]]:
    found = connection.execute(queries()["last_end"], (run_id,)).fetchone()
    context = None if found is None or found[0] is None else decode_json(found[0], dict).get("context")
    if context is None:
        return None, {}
    texts: dict[str, str] = {}
    for name in (*context[0], *context[1]):
        body = text_of(connection, name, owner)
        if body is None:
            return None, {}  # erased: the next run begins with the whole history
        texts[name] = body
    return context, texts


# -- what people add ---------------------------------------------------------------------------------------------------


def set_title(
    connection: sqlite3.Connection,
    scope: Scope,
    conversation_id: str,
    title: str,
    *,
    replace: bool,
    keep_seconds: float | None,
) -> str:
    """Set the title, unless there is one and *replace* is False. Return the title that counts."""
    sql = queries()
    conversation = conversation_number(connection, scope, conversation_id)
    found = connection.execute(sql["title"], (conversation,)).fetchone()
    if found is not None and not replace:
        return str(found[0])
    connection.execute(sql["blank_title"], (conversation,))
    connection.execute(sql["add_conversation_text"], (conversation, None, "title", storable(title), _end(keep_seconds)))
    return title


def rate_turn(
    connection: sqlite3.Connection,
    scope: Scope,
    conversation_id: str,
    run_id: str,
    feedback: Feedback | None,
    keep_seconds: float | None,
) -> None:
    """Replace the feedback on a turn's answer, or remove it. Raises `UnknownTurnError`."""
    sql = queries()
    conversation = conversation_number(connection, scope, conversation_id)
    number = turn_number(connection, conversation, run_id)
    connection.execute(sql["blank_texts_of_turn"], (number, "feedback"))
    if feedback is not None:
        body = encode_json({"rating": feedback.rating, "text": storable(feedback.text)})
        connection.execute(sql["add_conversation_text"], (conversation, number, "feedback", body, _end(keep_seconds)))


def _end(keep_seconds: float | None) -> float | None:
    """Return when a text is erased that may be kept for *keep_seconds*."""
    return None if keep_seconds is None else clock() + keep_seconds


def search_turns(connection: sqlite3.Connection, scope: AnyScope, text: str, limit: int) -> tuple[StoredTurn, ...]:
    """Return the closed turns of *scope* with all words of *text*, the best first; only the newest turns are read."""
    words = query_terms(storable(text))
    if not words:
        return ()
    with reading(connection):
        sql, bound = scoped("search_turns", scope)
        bound |= {"wanted": " ".join(words), "limit": most(limit), "most": _MOST_SEARCHED}
        rows = connection.execute(sql, bound).fetchall()
        numbers = [row[0] for row in rows]
        found = _turns(connection, f"t.number IN ({', '.join(map(str, numbers))})")
    return tuple(found[number] for number in numbers)


# -- erasure -----------------------------------------------------------------------------------------------------------


def delete_conversation(connection: sqlite3.Connection, scope: Scope, conversation_id: str) -> Erased:
    """Erase a conversation with all its runs, which are ended first. The ledger stays, with the user's name."""
    sql = queries()
    bound = {**scope_row(scope), "conversation_key": hash_key(conversation_id), "id": conversation_id}
    of_conversation = scoped("runs_of_conversation", scope)[0]
    with transaction(connection):
        conversation_number(connection, scope, conversation_id)
        runs = connection.execute(of_conversation, bound).fetchall()
        roots = {row["root"]: row["erase_after"] for row in runs if not row["ended"] and row["root"] == row["number"]}
        end_trees(connection, roots.items(), _DELETED)
        for row in runs:
            forget_content(connection, row["number"])
            connection.execute(sql["forget_run_of_conversation"], {"run": row["number"]})
        connection.execute(scoped("forget_texts_of_conversation", scope)[0], bound)
        connection.execute(sql["forget_rules_of_conversation"], bound)
        forget_conversations(connection, [conversation_number(connection, scope, conversation_id)])
    checkpoint(connection)
    return Erased(runs=len(runs), memories=0)
