"""The frequent writes take one round trip each. The ceilings only fall."""

from __future__ import annotations

from typing import Any

from concertino import AgentConfig, Chat, Resources, Scope, ToolOrchestrator, tool
from concertino.storage import PostgresStore
from concertino.testing import ScriptedModel, call
from concertino.testing.store_suite.kit import SCOPE
from concertino.testing.store_suite.store_conversations import claimed_turns, queued

from .trips import counted_trips

STEP = 2
"""Round trips of a step with one tool call: the request, and the answer."""
RUN = 4
"""Round trips of a run without tools: start, request, answer, end."""
CLAIM = 5
"""Round trips of a claim of queued turns of one tenant: time, ended turns, tenants with due turns, claim, contents."""


@tool(effect="idempotent")
async def look(n: int) -> str:
    """Look up a number."""
    return f"found {n}" * 100


class Desk(AgentConfig):
    name = "desk"
    tools = (look,)


async def trips_of(store: Any, steps: int, **more: Any) -> int:
    """Return the round trips of a run with *steps* calls of a tool."""
    model = ScriptedModel(*(call("look", n=n) for n in range(steps)), "done")
    with counted_trips() as trips:
        chat = Chat(model=model, message="x", scope=Scope("t", "u"), **more)
        result = await ToolOrchestrator(chat, Desk(), resources=Resources(store=store)).run()
    assert result.status == "completed"
    return len(trips)


async def test_each_append_is_one_round_trip(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        await trips_of(store, 1)
        assert await trips_of(store, 0) == RUN
        assert await trips_of(store, 5) == RUN + 5 * STEP


async def test_a_claim_of_many_queued_turns_takes_as_many_round_trips_as_one(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        for number in range(9):
            await store.open_conversation(SCOPE, f"c{number}", "desk")
            await store.queue_turn(SCOPE, f"c{number}", queued(f"q{number}"), when="always")
        with counted_trips() as one:
            assert await claimed_turns(store, limit=1) == ["q0"]
        with counted_trips() as many:
            assert await claimed_turns(store, limit=8) == [f"q{number}" for number in range(1, 9)]
    assert len(many) == len(one) == CLAIM
