"""Turns of conversations: one starts at a time, and others wait in a queue."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ...errors import (
    ConversationBusyError,
    DamagedDataError,
    LeafMovedError,
    RunExistsError,
    TurnExistsError,
    UnknownConversationError,
    UnknownTurnError,
)
from ...scope import AnyScope, Scope
from ..codec import decode_json, encode_json
from ..conversation_types import QueuedTurn, QueueWhen
from ..types import RunStart, TurnStart
from .approvals import send
from .rows import hash_key
from .sealing import seal
from .session import Row, Session, Write
from .statements import most, scoped


def conversation_number(connection: Session, scope: AnyScope, conversation_id: str) -> int:
    """Return the number of a conversation of *scope*. Raises `UnknownConversationError`."""
    sql, bound = scoped(connection, "conversation_number", scope)
    bound |= {"conversation_key": hash_key(conversation_id), "id": conversation_id}
    found = connection.execute(sql, bound).fetchone()
    if found is None:
        raise UnknownConversationError(f"there is no conversation {conversation_id!r}: open it first, with an agent")
    return int(found[0])


def locked_conversation(connection: Session, scope: AnyScope, conversation_id: str) -> int:
    """Return the number of a conversation, which no other transaction changes until this one ends."""
    number = conversation_number(connection, scope, conversation_id)
    connection.lock("lock_conversation", {"conversation": number})
    return number


def turn_number(connection: Session, conversation: int, run_id: str) -> int:
    """Return the number of a turn. Raises `UnknownTurnError`."""
    found = connection.execute(connection.queries["turn_number"], (conversation, run_id)).fetchone()
    if found is None or found["state"] == "steered":
        raise UnknownTurnError(f"the conversation has no turn {run_id!r}: `turns()` lists those of the active branch")
    return int(found["number"])


def open_turn(connection: Session, run: int, start: RunStart, turn: TurnStart, now: float) -> None:
    """Record that *run* is the next turn of its conversation; inside the transaction that starts the run.

    Raises `TurnExistsError`, `ConversationBusyError`, `LeafMovedError`, `UnknownConversationError`, and
    `RunExistsError` if a queued turn was started or withdrawn meanwhile.
    """
    sql = connection.queries
    conversation = locked_conversation(connection, start.scope, start.conversation_id)
    head = connection.execute(sql["head_of_conversation"], (conversation,)).fetchone()
    if not turn.queued:
        _check_key(connection, conversation, turn.key)
    queued = connection.execute(sql["next_queued"], (conversation,)).fetchone()
    if head["busy"] and head["current"] is not None:
        raise _busy(start.conversation_id, head["current_id"])
    if queued is not None and queued["run_id"] != start.run_id:
        raise _busy(start.conversation_id, queued["run_id"])
    if turn.at_leaf and (head["leaf_id"] or "") != turn.parent:
        raise LeafMovedError(f"{turn.parent!r} is not the active leaf of conversation {start.conversation_id!r}")
    parent = turn_number(connection, conversation, turn.parent) if turn.parent else None
    bound = {"conversation": conversation, "run_id": start.run_id, "run": run, "parent": parent, "now": now}
    if turn.queued:
        found = connection.execute(sql["start_queued"], bound).fetchall()
        if not found:
            raise RunExistsError(f"the queued turn {start.run_id!r} was started or withdrawn meanwhile")
        number = found[0][0]
        connection.execute(sql["blank_texts_of_turn"], (number, "input"))
    else:
        bound |= {"state": "open", "anchored": False, "first": False, "submit_key": _key(turn.key), "mode": turn.mode}
        number = connection.execute(sql["add_turn"], bound).lastrowid
    modes = joined(head["modes"], [turn.mode])
    bound = {"turn": number, "modes": modes, "now": now, "conversation": conversation}
    connection.execute(sql["set_head_of_conversation"], bound)


def started_turns(
    connection: Session, scope: Scope, conversation_id: str, after: str | None, limit: int
) -> tuple[str, ...]:
    """Return the ids of the turns that started after a turn, or of the last one. Raises `UnknownTurnError`."""
    sql = connection.queries
    conversation = conversation_number(connection, scope, conversation_id)
    if after is None:
        found = connection.execute(sql["head_of_conversation"], (conversation,)).fetchone()["current_id"]
        return () if found is None else (found,)
    run = 0
    if after:
        turn_number(connection, conversation, after)
        run = connection.execute(sql["turn_number"], (conversation, after)).fetchone()["run"]
    bound = {"conversation": conversation, "run": run, "limit": most(limit)}
    return tuple([row[0] for row in connection.execute(sql["started_turns"], bound).fetchall()])


class Queueing(Write[bool]):
    """Queues a turn. Its result is False, and nothing is done, if the conversation is in another state than *when*."""

    def __init__(self, scope: Scope, conversation_id: str, turn: QueuedTurn, when: QueueWhen) -> None:
        self.scope, self.conversation_id, self.turn, self.when = scope, conversation_id, turn, when
        self.input = encode_json(turn.input)
        self.key = _key(turn.key)

    def work(self, connection: Session) -> bool:
        """Add the turn and its input."""
        sql, turn = connection.queries, self.turn
        conversation = locked_conversation(connection, self.scope, self.conversation_id)
        _check_key(connection, conversation, turn.key)
        head = connection.execute(sql["head_of_conversation"], (conversation,)).fetchone()
        waiting = connection.execute(sql["next_queued"], (conversation,)).fetchone() is not None
        busy = waiting or bool(head["busy"] and head["current"] is not None)
        if self.when != "always" and busy != (self.when == "busy"):
            return False
        parent = turn_number(connection, conversation, turn.parent) if turn.parent else None
        bound = {
            "conversation": conversation,
            "run_id": turn.run_id,
            "run": None,
            "state": "queued",
            "parent": parent,
            "anchored": turn.parent is not None,
            "first": turn.first,
            "submit_key": self.key,
            "mode": turn.mode,
            "now": connection.now(),
        }
        number = connection.execute(sql["add_turn"], bound).lastrowid
        body = seal(connection, self.input, "conversation", conversation)
        connection.execute(sql["add_conversation_text"], (conversation, number, "input", body, None))
        return True


def steer_turn(connection: Session, scope: Scope, conversation_id: str, key: str, text: str) -> str | None:
    """Send *text* to the turn in progress and return its run id; None if no turn is. Raises `TurnExistsError`."""
    sql = connection.queries
    conversation = locked_conversation(connection, scope, conversation_id)
    _check_key(connection, conversation, key)
    head = connection.execute(sql["head_of_conversation"], (conversation,)).fetchone()
    if head["current"] is None or not head["busy"]:
        return None
    run_id = str(head["current_id"])
    send(connection, scope, run_id, "steer", text)
    if key:
        submit_key = hash_key(key)
        bound = {
            "conversation": conversation,
            "run_id": f"{run_id}+{submit_key.hex()}",
            "run": None,
            "state": "steered",
            "parent": head["current"],
            "anchored": False,
            "first": False,
            "submit_key": submit_key,
            "mode": "",
            "now": connection.now(),
        }
        connection.execute(sql["add_turn"], bound)
    return run_id


def withdraw_turn(connection: Session, scope: Scope, conversation_id: str, run_id: str) -> bool:
    """Remove a queued turn. Return whether it was still queued. Raises `UnknownTurnError`."""
    conversation = locked_conversation(connection, scope, conversation_id)
    number = turn_number(connection, conversation, run_id)
    removed = connection.execute(connection.queries["withdraw_turn"], (number,)).rowcount > 0
    if removed:
        connection.execute(connection.queries["blank_texts_of_turn"], (number, "input"))
    return removed


def postpone_turn(connection: Session, scope: Scope, conversation_id: str, run_id: str, seconds: float) -> None:
    """Keep a queued turn from being due for *seconds*. Raises `UnknownTurnError`."""
    number = turn_number(connection, locked_conversation(connection, scope, conversation_id), run_id)
    connection.execute(connection.queries["postpone_turn"], {"turn": number, "until": connection.now() + seconds})


def queued_input(row: Row) -> dict[str, Any]:
    """Return the chat of a queued turn as JSON; {} if it is damaged, so that no other turn fails with it."""
    try:
        return decode_json(row["input"], dict)
    except DamagedDataError:
        return {}


def joined(known: str, names: Iterable[str]) -> str:
    """Return the JSON list *known* with those of *names* that it lacks."""
    return json.dumps(list(dict.fromkeys([*json.loads(known), *filter(None, names)])))


def _check_key(connection: Session, conversation: int, key: str) -> None:
    if key and (found := connection.execute(connection.queries["turn_of_key"], (conversation, _key(key))).fetchone()):
        run_id = found["run_id"].partition("+")[0]
        raise TurnExistsError(f"a message with the key {key!r} was sent before: it is turn {run_id}", run_id)


def _key(key: str) -> bytes | None:
    return hash_key(key) if key else None


def _busy(conversation_id: str, run_id: str) -> ConversationBusyError:
    return ConversationBusyError(
        f"conversation {conversation_id!r} is busy with turn {run_id}: wait for it, stop it, or choose another "
        "when_busy",
        run_id,
    )
