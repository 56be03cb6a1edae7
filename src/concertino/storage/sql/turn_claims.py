"""Claims on queued turns that are due, and the end of turns: ended ones are closed and indexed."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import zip_longest
from typing import Any, TypeVar

from ...errors import DamagedDataError, StorageError
from ...scope import Operator
from ...text import index_terms
from ..call_store import Consumer
from ..codec import WithoutContents, decode_message
from ..conversation_types import DueTurn, QueuedTurn
from .schedule import check_operator, is_consumer, named_agents
from .sealing import seal
from .session import Row, Session
from .statements import most
from .turns import joined, queued_input

log = logging.getLogger("concertino")

T = TypeVar("T")

Owner = tuple[str, str]
"""An agent and a tenant, which have queues."""
NOBODY: Owner = ("", "")
_LONGEST_INDEXED = 100_000
"""Characters of a turn that a search finds."""


class ClaimingTurns:
    """Claims queued turns that are due."""

    def __init__(
        self,
        scope: Operator,
        seconds: float,
        limit: int,
        agents: Collection[str] | None,
        consumer: Consumer | None,
        last: Owner,
    ) -> None:
        check_operator(scope)
        self.seconds, self.limit = seconds, max(limit, 0)
        self.consumer = consumer
        self.bound = {"agents": named_agents(agents), "consumer": consumer.owner if consumer else ""}
        self.last = last
        """The owner with which the claim before has ended, and then this one."""
        self.ended = True
        """Whether turns may have ended that are not closed yet."""

    def __call__(self, connection: Session) -> Sequence[DueTurn]:
        """Claim turns that are due: each owner has an equal share, and the first ones what is left.

        Only the claim of a consumer is a transaction. The inputs are read after it: no row stays locked meanwhile.
        """
        with nullcontext() if self.consumer is None else connection.transaction():
            numbers = self._numbers(connection)
        if not numbers:
            return ()
        rows = connection.execute(connection.queries["claimed_turns"], (json.dumps(numbers),)).fetchall()
        found = {row["number"]: to_due(row) for row in rows}
        return tuple([found[number] for number in numbers if number in found])  # one may have been withdrawn

    def _numbers(self, connection: Session) -> Sequence[int]:
        """Claim turns, and return their numbers."""
        now = connection.now()
        if self.consumer is not None and not is_consumer(connection, self.consumer, now):
            return ()
        bound: dict[str, Any] = {**self.bound, "now": now, "until": now + self.seconds}
        owners = [*map(tuple, connection.execute(connection.queries["owners_of_due_turns"], bound).fetchall())]
        if not owners or not self.limit:
            return ()
        ordered = _in_turn(owners, self.limit, self.last)
        numbers, self.last = _taken(connection, ordered, most(self.limit), bound)
        return numbers


def claim_turns(connection: Session, claim: ClaimingTurns) -> Sequence[DueTurn]:
    """Close the turns whose runs have ended, and claim queued ones."""
    if connection.read_only:
        return ()
    close_turns(connection)
    return claim(connection)


def close_turns(connection: Session) -> None:
    """Close the turns whose runs have ended, and index them. Raises `StorageError` if a key store fails: try again."""
    sql = connection.queries
    if not (found := connection.execute(sql["turns_to_close"]).fetchall()):
        return
    _get_keys(connection, found)
    known = {row[0] for row in found}
    with connection.transaction():
        for number, conversation, run in connection.execute(sql["turns_to_close"]).fetchall():
            if number not in known:
                continue  # it has ended meanwhile, and its keys may be missing
            connection.execute(sql["close_turn"], (number,))
            try:
                _index(connection, number, conversation, run)
            except (DamagedDataError, ValueError) as error:
                log.warning("a closed turn is not indexed: %s", type(error).__name__)


def _get_keys(connection: Session, ended: Sequence[Row]) -> None:
    """Get the keys of *ended* turns, so that no row is locked while a key store is asked."""
    if connection.sealer is None:
        return
    connection.sealer.prepare([("conversation", conversation) for _, conversation, _ in ended])
    for _, _, run in ended:
        with suppress(DamagedDataError):
            connection.execute(connection.queries["words_of_turn"], (run,)).fetchall()  # the session opens them


def _in_turn(owners: list[Owner], limit: int, last: Owner) -> list[Owner]:
    """Return *owners* in the order of their turns: the longest due first, or if not all get one, those after *last*."""
    if len(owners) <= limit:
        return owners
    return sorted(owners, key=lambda owner: (owner <= last, owner))


def _taken(
    connection: Session, owners: list[Owner], limit: int, bound: Mapping[str, object]
) -> tuple[list[int], Owner]:
    """Claim at most *limit* due turns. Leave out those of other processes.

    Return their numbers, and the last owner. Each owner has an equal share: none waits for the queues of another. What
    is left goes to owners with more turns, so that fewer than *limit* are all that is due.
    """
    last, share, left = NOBODY, -(-limit // len(owners)), limit

    def take(owner: Owner, many: int) -> list[int]:
        nonlocal left
        one = {**bound, "agent": owner[0], "tenant": owner[1], "limit": min(many, left)}
        taken = [row[0] for row in connection.execute(connection.queries["take_due_turns"], one).fetchall()]
        left -= len(taken)
        return sorted(taken)

    shares: dict[Owner, list[int]] = {}
    for owner in owners:
        if left > 0:
            shares[last := owner] = take(owner, share)
    rest: list[list[int]] = []
    for owner, taken in shares.items():
        if left > 0 and len(taken) == share:
            rest.append(take(owner, left))
    return interleaved(shares.values()) + interleaved(rest), last


def interleaved(queues: Iterable[Sequence[T]]) -> list[T]:
    """Return the first of each queue, then the second of each, and so on."""
    return [each for row in zip_longest(*queues) for each in row if each is not None]


def to_due(row: Row) -> DueTurn:
    """Return the turn of a row of the statement `claimed_turns`."""
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
    text, used = _text_and_tools([row[1] for row in rows if row[1]])
    if words := index_terms(text[:_LONGEST_INDEXED]):
        sealed = seal(connection, f" {' '.join(words)} ", "conversation", conversation)
        connection.execute(sql["add_turn_words"], (number, sealed.encode("utf-8", "surrogatepass")))
    if used:
        connection.lock("lock_conversation", {"conversation": conversation})
        head = connection.execute(sql["head_of_conversation"], (conversation,)).fetchone()
        connection.execute(sql["set_tools"], (joined(head["tools"], used), conversation))


def _text_and_tools(bodies: Iterable[str | bytes]) -> tuple[str, list[str]]:
    """Return the text of messages, and the tools that were used. Raises `DamagedDataError`, also for newer formats."""
    texts, used = [], []
    try:
        for body in bodies:
            message = decode_message(body if isinstance(body, str) else body.decode(), WithoutContents())
            if message.role == "tool":
                used.append(str(message.name))
            elif message.role != "system":
                texts.append(message.text)
        return "\n".join(texts), used
    except (AttributeError, StorageError, TypeError, ValueError) as error:
        raise DamagedDataError(f"a stored message cannot be read: {error!r}") from error
