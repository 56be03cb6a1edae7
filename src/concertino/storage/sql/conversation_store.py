"""The port `Conversations` on one connection."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...scope import AnyScope, Operator, Scope
from ..call_store import Consumer
from ..conversation_types import DueTurn, Feedback, QueuedTurn, QueueWhen, StoredConversation, StoredHistory, StoredTurn
from ..types import Erased
from . import conversations, turn_claims, turns
from .session import StoreConnection, WriteCall


class SqlConversations:
    """`Conversations` on one connection; `storage.base` documents the methods."""

    _connection: StoreConnection
    _last_owner = turn_claims.NOBODY
    """The agent and the tenant with which the last claim of queued turns has ended."""

    async def open_conversation(self, scope: Scope, conversation_id: str, agent: str) -> StoredConversation:
        """Return the conversation, created for *agent* if it is missing."""
        found = await self.conversation(scope, conversation_id)  # most exist, and reading costs less than a transaction
        if found is not None:
            return found
        return await self._connection.write(WriteCall(conversations.open_conversation, scope, conversation_id, agent))

    async def conversation(self, scope: Scope, conversation_id: str) -> StoredConversation | None:
        """Return one conversation, or None."""
        return await self._connection.run(conversations.select_conversation(scope, conversation_id))

    async def conversations(
        self, scope: AnyScope, *, limit: int = 50, before: str | None = None
    ) -> Sequence[StoredConversation]:
        """Return the conversations of *scope*, the last updated first."""
        return await self._connection.run(conversations.conversations, scope, limit, before)

    async def conversation_marks(self, scope: Operator, named: Sequence[tuple[Scope, str]]) -> Sequence[str | None]:
        """Return a mark of each conversation that changes with it."""
        return await self._connection.run(conversations.conversation_marks, scope, named)

    async def started_turns(
        self, scope: Scope, conversation_id: str, *, after: str | None = None, limit: int = 50
    ) -> Sequence[str]:
        """Return the ids of the turns that started after a turn, in the order of their start."""
        return await self._connection.run(turns.started_turns, scope, conversation_id, after, limit)

    async def turn(self, scope: Scope, conversation_id: str, run_id: str) -> StoredTurn:
        """Return one turn."""
        turn = await self._connection.run(conversations.select_turn(scope, conversation_id, run_id))
        if turn is not None:
            return turn
        return await self._connection.run(conversations.turn, scope, conversation_id, run_id)

    async def turns(
        self, scope: Scope, conversation_id: str, *, limit: int = 50, before: str | None = None
    ) -> Sequence[StoredTurn]:
        """Return the turns of the active branch, the newest first."""
        return await self._connection.run(conversations.turns, scope, conversation_id, limit, before)

    async def all_turns(self, scope: Scope, conversation_id: str) -> Sequence[StoredTurn]:
        """Return all turns of a conversation, also queued ones."""
        return await self._connection.run(conversations.all_turns, scope, conversation_id)

    async def history(self, scope: Scope, conversation_id: str, run_id: str, *, after: str = "") -> StoredHistory:
        """Return the messages and the context of the branch that ends with a turn."""
        return await self._connection.run(conversations.history, scope, conversation_id, run_id, after)

    async def queue_turn(
        self, scope: Scope, conversation_id: str, turn: QueuedTurn, *, when: QueueWhen = "busy"
    ) -> bool:
        """Queue *turn*, if the conversation is in the state *when*."""
        return await self._connection.write(turns.Queueing(scope, conversation_id, turn, when))

    async def steer_turn(self, scope: Scope, conversation_id: str, key: str, text: str) -> str | None:
        """Send a message to the turn in progress."""
        return await self._connection.write(WriteCall(turns.steer_turn, scope, conversation_id, key, text))

    async def withdraw_turn(self, scope: Scope, conversation_id: str, run_id: str) -> bool:
        """Remove a queued turn."""
        return await self._connection.write(WriteCall(turns.withdraw_turn, scope, conversation_id, run_id))

    async def claim_turns(
        self,
        scope: Operator,
        seconds: float,
        *,
        limit: int = 50,
        agents: Collection[str] | None = None,
        consumer: Consumer | None = None,
    ) -> Sequence[DueTurn]:
        """Close ended turns, and claim queued ones to start."""
        claim = turn_claims.ClaimingTurns(scope, seconds, limit, agents, consumer, self._last_owner)
        found = await self._connection.run(turn_claims.claim_turns, claim)
        self._last_owner = claim.last
        return found

    async def postpone_turn(self, scope: Scope, conversation_id: str, run_id: str, seconds: float) -> None:
        """Keep a queued turn from being due for *seconds*."""
        await self._connection.write(WriteCall(turns.postpone_turn, scope, conversation_id, run_id, seconds))

    async def select_leaf(self, scope: Scope, conversation_id: str, run_id: str, *, newest: bool = False) -> str:
        """Make a turn, or the newest turn below it, the active leaf."""
        return await self._connection.write(
            WriteCall(conversations.select_leaf, scope, conversation_id, run_id, newest=newest)
        )

    async def set_title(
        self,
        scope: Scope,
        conversation_id: str,
        title: str,
        *,
        replace: bool = True,
        keep_seconds: float | None = None,
    ) -> str:
        """Set the title, and return the title that counts."""
        call = conversations.set_title
        return await self._connection.write(
            WriteCall(call, scope, conversation_id, title, replace=replace, keep_seconds=keep_seconds)
        )

    async def rate_turn(
        self,
        scope: Scope,
        conversation_id: str,
        run_id: str,
        feedback: Feedback | None,
        *,
        keep_seconds: float | None = None,
    ) -> None:
        """Set or remove the feedback on a turn's answer."""
        arguments = (scope, conversation_id, run_id, feedback, keep_seconds)
        await self._connection.write(WriteCall(conversations.rate_turn, *arguments))

    async def search_turns(self, scope: AnyScope, text: str, *, limit: int = 20) -> Sequence[StoredTurn]:
        """Return the turns with all words of *text*, the best first."""
        return await self._connection.run(conversations.search_turns, scope, text, limit)

    async def delete_conversation(self, scope: Scope, conversation_id: str) -> Erased:
        """Erase a conversation and everything in it except the ledger."""
        return await self._connection.run(conversations.delete_conversation, scope, conversation_id)
