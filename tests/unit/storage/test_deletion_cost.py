"""Deleting a conversation costs what it has, whatever else the store has."""

from __future__ import annotations

import sqlite3

from concertino import OPERATOR, MemoryStore, Scope
from concertino.messages import UserMessage
from concertino.storage import TurnStart
from concertino.testing.store_suite import SCOPE, start_tree, whole


async def closed(store: MemoryStore, conversation_id: str, scope: Scope = SCOPE) -> None:
    """Create a conversation with a turn that a search finds."""
    await store.open_conversation(scope, conversation_id, "supervisor")
    run_id = f"{scope.user}-{conversation_id}"
    tree = await start_tree(
        store, run_id, turn=TurnStart(parent=""), conversation_id=conversation_id, scope=scope, seconds=60.0
    )
    await tree.append("model_answered", messages=[whole(UserMessage("What becomes of my order?"))])
    await tree.end()


async def cost(others: int) -> tuple[int, int, int]:
    """Return the statements, changed rows and steps of SQLite for a deletion next to *others*."""
    async with MemoryStore() as store:
        for number in range(others):
            await closed(store, f"c{number}")
            await closed(store, f"c{number}", Scope("o1", "u2"))
        await closed(store, "last")
        await store.claim_turns(OPERATOR, 1.0)
        assert len(await store.search_turns(SCOPE, "order", limit=100)) == others + 1
        connection: sqlite3.Connection = await store._connection.run(lambda connection: connection)
        statements: list[str] = []
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        connection.set_trace_callback(statements.append)
        connection.set_progress_handler(step, 1)
        before = connection.total_changes
        await store.delete_conversation(SCOPE, "last")
        connection.set_trace_callback(None)
        connection.set_progress_handler(None, 1)
        assert len(await store.search_turns(SCOPE, "order", limit=100)) == others
        return len(statements), connection.total_changes - before, steps


async def test_a_deletion_costs_the_same_next_to_many_conversations() -> None:
    few, many = await cost(2), await cost(40)
    assert many[:2] == few[:2]
    assert many[2] < 1.1 * few[2], "every statement finds its rows by an index"
