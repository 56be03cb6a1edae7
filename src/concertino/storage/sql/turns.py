"""Turns of conversations: one starts at a time, others wait in a queue, and ended ones are closed and indexed."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from itertools import zip_longest
from typing import Any

from ...errors import (
    ConversationBusyError,
    DamagedDataError,
    LeafMovedError,
    RunExistsError,
    StorageError,
    TurnExistsError,
    UnknownConversationError,
    UnknownTurnError,
)
from ...scope import AnyScope, Operator, Scope
from ...text import index_terms
from ..call_store import Consumer
from ..codec import WithoutContents, decode_json, decode_message, encode_json
from ..conversation_types import DueTurn, QueuedTurn, QueueWhen
from ..types import RunStart, TurnStart
from .approvals import send
from .rows import hash_key
from .schedule import check_operator, is_consumer, named_agents
from .sealing import seal
from .session import Row, Session
from .statements import most, scoped

log = logging.getLogger("concertino")

Owner = tuple[str, str]
"""An agent and a tenant, which have queues."""
NOBODY: Owner = ("", "")
_LONGEST_INDEXED = 100_000
"""Characters of a turn that a search finds."""


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
    modes = _joined(head["modes"], [turn.mode])
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


def queue_turn(connection: Session, scope: Scope, conversation_id: str, turn: QueuedTurn, when: QueueWhen) -> bool:
    """Queue *turn*. Return False, and do nothing, if the conversation is in another state than *when*."""
    sql = connection.queries
    conversation = locked_conversation(connection, scope, conversation_id)
    _check_key(connection, conversation, turn.key)
    head = connection.execute(sql["head_of_conversation"], (conversation,)).fetchone()
    waiting = connection.execute(sql["next_queued"], (conversation,)).fetchone() is not None
    busy = waiting or bool(head["busy"] and head["current"] is not None)
    if when != "always" and busy != (when == "busy"):
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
        "submit_key": _key(turn.key),
        "mode": turn.mode,
        "now": connection.now(),
    }
    number = connection.execute(sql["add_turn"], bound).lastrowid
    body = seal(connection, encode_json(turn.input), "conversation", conversation)
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


def claim_turns(
    connection: Session,
    scope: Operator,
    seconds: float,
    limit: int,
    agents: Collection[str] | None,
    consumer: Consumer | None,
    last: Owner,
) -> tuple[tuple[DueTurn, ...], Owner]:
    """Close the turns whose runs have ended, and take queued turns that are due, for *seconds*.

    Return the owner with which the claim has ended, too: *last* is that of the claim before.
    """
    check_operator(scope)
    if connection.read_only:
        return (), last
    sql, now = connection.queries, connection.now()
    _close_turns(connection)
    bound = {"now": now, "until": now + seconds, "consumer": consumer.owner if consumer else ""}
    asked = {**bound, "agents": named_agents(agents)}
    owners = connection.execute(sql["owners_of_due_turns"], asked).fetchall()
    if not owners or limit <= 0:
        return (), last  # the write lock is not needed
    # Without a consumer, each statement is a transaction: no other process waits for more than one.
    with nullcontext() if consumer is None else connection.transaction():
        if not is_consumer(connection, consumer, now):
            return (), last
        ordered = _in_turn([(agent, tenant) for agent, tenant in owners], limit, last)
        numbers, last = _taken(connection, ordered, most(limit), bound)
    rows = connection.execute(sql["claimed_turns"], (json.dumps(numbers),)).fetchall() if numbers else ()
    found = {row["number"]: _to_due(row) for row in rows}
    return tuple([found[number] for number in numbers if number in found]), last  # one may have been withdrawn


def _close_turns(connection: Session) -> None:
    """Close the turns whose runs have ended, and index them."""
    sql = connection.queries
    if connection.execute(sql["turns_to_close"]).fetchone() is not None:
        with connection.transaction():
            for number, conversation, run in connection.execute(sql["turns_to_close"]).fetchall():
                connection.execute(sql["close_turn"], (number,))
                try:
                    _index(connection, number, conversation, run)
                except (StorageError, ValueError) as error:
                    log.warning("a closed turn is not indexed: %s", type(error).__name__)


def _in_turn(owners: list[Owner], limit: int, last: Owner) -> list[Owner]:
    """Return *owners* in the order of their turns: the longest due first, or if not all get one, those after *last*."""
    if len(owners) <= limit:
        return owners
    return sorted(owners, key=lambda owner: (owner <= last, owner))


def _taken(
    connection: Session, owners: list[Owner], limit: int, bound: Mapping[str, object]
) -> tuple[list[int], Owner]:
    """Claim at most *limit* due turns. Leave out those of other processes.

    Return their numbers, and the last owner. Each owner has an equal share: none waits for the queues of another.
    """
    last = NOBODY
    queues: list[list[int]] = []
    share = -(-limit // len(owners))
    while owners and limit > 0:
        agent, tenant = last = owners.pop(0)
        one = {**bound, "agent": agent, "tenant": tenant, "limit": min(share, limit)}
        taken = [row[0] for row in connection.execute(connection.queries["take_due_turns"], one).fetchall()]
        queues.append(sorted(taken))
        limit -= len(taken)
    return [number for turns in zip_longest(*queues) for number in turns if number is not None], last


def queued_input(row: Row) -> dict[str, Any]:
    """Return the chat of a queued turn as JSON; {} if it is damaged, so that no other turn fails with it."""
    try:
        return decode_json(row["input"], dict)
    except DamagedDataError:
        return {}


def _to_due(row: Row) -> DueTurn:
    turn = QueuedTurn(
        run_id=row["run_id"],
        input=queued_input(row),
        parent=row["parent"] if row["anchored"] else None,
        mode=row["mode"],
    )
    return DueTurn(conversation_id=row["id"], tenant=row["tenant"], user=row["user_id"], agent=row["agent"], turn=turn)


def _index(connection: Session, number: int, conversation: int, run: int) -> None:
    """Index the words of a closed turn, and remember the tools that it has used. Raises if its messages are damaged."""
    sql = connection.queries
    rows = connection.execute(sql["words_of_turn"], (run,)).fetchall()
    bodies = [row[1] if isinstance(row[1], str) else row[1].decode() for row in rows]
    messages = [decode_message(body, WithoutContents()) for body in bodies if body]
    texts = [message.text for message in messages if message.role in ("user", "assistant")]
    if words := index_terms("\n".join(texts)[:_LONGEST_INDEXED]):
        sealed = seal(connection, f" {' '.join(words)} ", "conversation", conversation)
        connection.execute(sql["add_turn_words"], (number, sealed.encode("utf-8", "surrogatepass")))
    if used := [message.name for message in messages if message.role == "tool"]:
        connection.lock("lock_conversation", {"conversation": conversation})
        head = connection.execute(sql["head_of_conversation"], (conversation,)).fetchone()
        connection.execute(sql["set_tools"], (_joined(head["tools"], used), conversation))


def _joined(known: str, names: Iterable[str]) -> str:
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
