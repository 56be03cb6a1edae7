"""Conversations: the tree of turns, what is shown of it, the history of a branch, search, and erasure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...errors import ConversationError, UnknownConversationError
from ...scope import AnyScope, Operator, Scope
from ...text import query_terms
from ..codec import decode_json, encode_json, storable
from ..conversation_types import Feedback, StoredConversation, StoredHistory, StoredTurn
from ..types import Erased
from .erasure import end_trees, forget_content, forget_conversations
from .reader import branch_messages, texts_of
from .rows import hash_key, scope_key, scope_row
from .schedule import check_operator
from .sealing import discard_runs, seal
from .search import relevance
from .select import Select
from .session import Row, Session
from .statements import most, scoped
from .turns import conversation_number, locked_conversation, queued_input, turn_number

_SHOWN = {"queued": "queued", "running": "running", "suspended": "waiting"}
_OF_TURNS = {
    "number": "t.number = :number",
    "numbers": "t.number IN (SELECT CAST(value AS bigint) FROM json_each(:numbers))",
    "conversation": "t.conversation = :conversation AND t.state <> 'steered'",
}
_ONE_TURN = """
    t.run_id = :run_id AND t.state <> 'steered' AND c.conversation_key = :conversation_key AND c.id = :id
    AND /*reached c*/
"""
_DELETED = "its conversation was deleted"
_MOST_SEARCHED = 10_000
"""Turns that one search reads, the newest: about 0.1 s, in which the store does nothing else."""


def open_conversation(connection: Session, scope: Scope, conversation_id: str, agent: str) -> StoredConversation:
    """Return the conversation, created if it is missing."""
    sql, now = connection.queries, connection.now()
    try:
        conversation_number(connection, scope, conversation_id)
    except UnknownConversationError:
        bound = {**scope_row(scope), "conversation_key": hash_key(conversation_id), "id": conversation_id}
        number = connection.execute(sql["add_conversation"], {**bound, "agent": agent, "now": now}).lastrowid
        connection.execute(sql["add_conversation_head"], (number, now))
    found = select_conversation(scope, conversation_id)(connection)
    assert found is not None
    return found


def select_conversation(scope: Scope, conversation_id: str) -> Select[StoredConversation | None]:
    """Select one conversation, or None."""
    bound = {"conversation_key": hash_key(conversation_id), "id": conversation_id, "limit": 1}
    condition = "c.conversation_key = :conversation_key AND c.id = :id"
    return Select(
        "conversations", scope, bound, lambda rows: _to_conversation(rows[0]) if rows else None, conditions=condition
    )


def conversations(
    connection: Session, scope: AnyScope, limit: int, before: str | None
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
    return Select("conversations", scope, bound, lambda rows: tuple(map(_to_conversation, rows)), conditions=condition)(
        connection
    )


def _to_conversation(row: Row) -> StoredConversation:
    return StoredConversation(
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


def conversation_marks(connection: Session, scope: Operator, named: Sequence[tuple[Scope, str]]) -> list[str | None]:
    """Return a mark of each conversation, by its owner and id, that changes with it; None if it does not exist."""
    check_operator(scope)
    found: list[str | None] = []
    with connection.reading():
        for owner, conversation_id in named:
            sql, bound = scoped(connection, "conversation_mark", owner)
            bound |= {"conversation_key": hash_key(conversation_id), "id": conversation_id}
            row = connection.execute(sql, bound).fetchone()
            found.append(None if row is None else repr(tuple(row)))
    return found


# -- turns -------------------------------------------------------------------------------------------------------------


def turns(
    connection: Session, scope: Scope, conversation_id: str, limit: int, before: str | None
) -> tuple[StoredTurn, ...]:
    """Return the turns of the active branch, the newest first; with *before*, those before that turn."""
    sql = connection.queries
    with connection.reading():
        number = conversation_number(connection, scope, conversation_id)
        if before is None:
            last = connection.execute(sql["head_of_conversation"], (number,)).fetchone()["leaf"]
        else:
            turn_number(connection, number, before)
            last = connection.execute(sql["turn_number"], (number, before)).fetchone()["parent"]
        if last is None or limit <= 0:
            return ()
        path = [row[0] for row in connection.execute(sql["branch"], {"turn": last, "limit": most(limit)}).fetchall()]
        found = _turns(connection, "numbers", json.dumps(path))
    return tuple(found[each] for each in path)


def all_turns(connection: Session, scope: Scope, conversation_id: str) -> tuple[StoredTurn, ...]:
    """Return all turns of a conversation, also queued ones, in the order of their creation."""
    with connection.reading():
        number = conversation_number(connection, scope, conversation_id)
        return tuple(_turns(connection, "conversation", number).values())


def turn(connection: Session, scope: Scope, conversation_id: str, run_id: str) -> StoredTurn:
    """Return one turn. Raises `UnknownTurnError`."""
    with connection.reading():
        number = turn_number(connection, conversation_number(connection, scope, conversation_id), run_id)
        return _turns(connection, "number", number)[number]


def select_turn(scope: Scope, conversation_id: str, run_id: str) -> Select[StoredTurn | None]:
    """Select what `turn` returns, or None."""
    bound = {"conversation_key": hash_key(conversation_id), "id": conversation_id, "run_id": run_id}
    return Select("turns", scope, bound, lambda rows: _to_turn(rows[0]) if rows else None, conditions=_ONE_TURN)


def _turns(connection: Session, wanted: str, value: int | str) -> dict[int, StoredTurn]:
    sql = connection.queries["turns"].replace("/*conditions*/", _OF_TURNS[wanted])
    return {row["number"]: _to_turn(row) for row in connection.execute(sql, {wanted: value}).fetchall()}


def _to_turn(row: Row) -> StoredTurn:
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


def select_leaf(connection: Session, scope: Scope, conversation_id: str, run_id: str, *, newest: bool) -> str:
    """Make a turn the active leaf, or with *newest* the newest turn below it. Return the leaf's run id."""
    sql = connection.queries
    conversation = locked_conversation(connection, scope, conversation_id)
    number = turn_number(connection, conversation, run_id)
    row = connection.execute(sql["turn_number"], (conversation, run_id)).fetchone()
    if row["state"] == "queued":
        raise ConversationError(f"turn {run_id} is queued: withdraw it, or wait for its start")
    if newest:
        number = connection.execute(sql["newest_leaf"], {"turn": number, "conversation": conversation}).fetchone()[0]
    connection.execute(sql["set_leaf"], (number, conversation))
    return str(connection.execute("SELECT run_id FROM turns WHERE number = ?", (number,)).fetchone()[0])


def history(connection: Session, scope: Scope, conversation_id: str, run_id: str, after: str) -> StoredHistory:
    """Return the messages of the branch that ends with the turn *run_id*, and the context that it recorded last."""
    sql, bound = scoped(connection, "turn_of_conversation", scope)
    bound |= {"conversation_key": hash_key(conversation_id), "id": conversation_id, "run_id": run_id}
    with connection.reading():
        if connection.execute(sql, bound).fetchone() is None:  # what is missing, the turn or its conversation?
            turn_number(connection, conversation_number(connection, scope, conversation_id), run_id)
        messages, lasting, met = branch_messages(connection, run_id, after)
        context, texts = _context(connection, run_id, scope_key(scope.key))
    return StoredHistory(
        messages=tuple(messages), after=after if met else "", lasting=lasting, context=context, texts=texts
    )


def _context(connection: Session, run_id: str, owner: bytes) -> tuple[list[Any] | None, dict[str, str]]:
    found = connection.execute(connection.queries["last_end"], (run_id,)).fetchone()
    context = None if found is None or found[0] is None else decode_json(found[0], dict).get("context")
    if context is None:
        return None, {}
    names = {*context[0], *context[1]}
    texts = texts_of(connection, names, owner)
    if len(texts) < len(names):
        return None, {}  # one was erased: the next run begins with the whole history
    return context, texts


# -- what people add ---------------------------------------------------------------------------------------------------


def set_title(
    connection: Session,
    scope: Scope,
    conversation_id: str,
    title: str,
    *,
    replace: bool,
    keep_seconds: float | None,
) -> str:
    """Set the title, unless there is one and *replace* is False. Return the title that counts."""
    sql = connection.queries
    conversation = locked_conversation(connection, scope, conversation_id)
    found = connection.execute(sql["title"], (conversation,)).fetchone()
    if found is not None and not replace:
        return str(found[0])
    connection.execute(sql["blank_title"], (conversation,))
    body = seal(connection, storable(title), "conversation", conversation)
    connection.execute(
        sql["add_conversation_text"], (conversation, None, "title", body, _end(connection, keep_seconds))
    )
    return title


def rate_turn(
    connection: Session,
    scope: Scope,
    conversation_id: str,
    run_id: str,
    feedback: Feedback | None,
    keep_seconds: float | None,
) -> None:
    """Replace the feedback on a turn's answer, or remove it. Raises `UnknownTurnError`."""
    sql = connection.queries
    conversation = locked_conversation(connection, scope, conversation_id)
    number = turn_number(connection, conversation, run_id)
    connection.execute(sql["blank_texts_of_turn"], (number, "feedback"))
    if feedback is not None:
        body = encode_json({"rating": feedback.rating, "text": storable(feedback.text)})
        body = seal(connection, body, "conversation", conversation)
        connection.execute(
            sql["add_conversation_text"], (conversation, number, "feedback", body, _end(connection, keep_seconds))
        )


def _end(connection: Session, keep_seconds: float | None) -> float | None:
    """Return when a text is erased that may be kept for *keep_seconds*."""
    return None if keep_seconds is None else connection.now() + keep_seconds


def search_turns(connection: Session, scope: AnyScope, text: str, limit: int) -> tuple[StoredTurn, ...]:
    """Return the closed turns of *scope* with all words of *text*, the best first; only the newest turns are read."""
    words = query_terms(storable(text))
    if not words:
        return ()
    with connection.reading():
        numbers = _found(connection, scope, " ".join(words), most(limit))
        found = _turns(connection, "numbers", json.dumps(numbers)) if numbers else {}
    return tuple(found[number] for number in numbers)


def _found(connection: Session, scope: AnyScope, wanted: str, limit: int) -> list[int]:
    """Return the numbers of the turns that have the words *wanted*, the best first."""
    if connection.sealer is None:
        sql, bound = scoped(connection, "search_turns", scope)
        bound |= {"wanted": wanted, "limit": limit, "most": _MOST_SEARCHED}
        return [row[0] for row in connection.execute(sql, bound).fetchall()]
    sql, bound = scoped(connection, "words_of_turns", scope)
    rows = connection.execute(sql, {**bound, "most": _MOST_SEARCHED}).fetchall()
    texts = [(number, words.decode("utf-8", "surrogatepass")) for number, words in rows]
    connection.sealer.fetch_for(text for _, text in texts)
    scores = ((relevance(connection.sealer.open(text).encode(), wanted), number) for number, text in texts)
    best = sorted(((score, number) for score, number in scores if score is not None), reverse=True)
    return [number for _, number in best[:limit]]


# -- erasure -----------------------------------------------------------------------------------------------------------


def delete_conversation(connection: Session, scope: Scope, conversation_id: str) -> Erased:
    """Erase a conversation with all its runs, which are ended first. The ledger stays, with the user's name."""
    sql = connection.queries
    bound = {**scope_row(scope), "conversation_key": hash_key(conversation_id), "id": conversation_id}
    of_conversation = scoped(connection, "runs_of_conversation", scope)[0]
    with connection.transaction():
        number = locked_conversation(connection, scope, conversation_id)
        connection.lock("lock_trees_of_conversation", {"conversation": number})
        runs = connection.execute(of_conversation, bound).fetchall()
        roots = {row["root"]: row["erase_after"] for row in runs if not row["ended"] and row["root"] == row["number"]}
        end_trees(connection, roots.items(), _DELETED)
        discard_runs(connection, [row["number"] for row in runs])
        for row in runs:
            forget_content(connection, row["number"])
            connection.execute(sql["forget_run_of_conversation"], {"run": row["number"]})
        connection.execute(scoped(connection, "forget_texts_of_conversation", scope)[0], bound)
        connection.execute(sql["forget_rules_of_conversation"], bound)
        forget_conversations(connection, [number])
    connection.checkpoint()
    return Erased(runs=len(runs), memories=0)
