"""A run is parked while the server is slow: what was being written counts, and no claim remains."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from concertino import OPERATOR, AgentConfig, AnyScope, Chat, Resources, Runtime, Scope, delegate
from concertino.storage import PostgresStore, StoredRun
from concertino.testing import Answer, ScriptedModel, call

from .server import until_locked


class Watched(PostgresStore):
    """A store that tells when it is asked for a run."""

    asked: asyncio.Event | None = None

    async def run(self, scope: AnyScope, run_id: str) -> StoredRun | None:
        if self.asked is not None:
            self.asked.set()
        return await super().run(scope, run_id)


async def test_a_cancelled_append_of_a_sub_agent_is_waited_for(url: str, schema: str) -> None:
    """It counted as not written, so that the next entry was refused as if another process had the run."""
    with psycopg.connect(url) as other:

        async def lock() -> None:
            other.execute(f"SELECT 1 FROM {schema}.heads FOR UPDATE")

        class Child(AgentConfig[None]):
            name, prompt = "child", "You are the child."

        class Boss(AgentConfig[None]):
            name = "boss"
            tools: Any = (delegate(Child(), description="A child."),)

        model = ScriptedModel(call("child", query="?"), scripts={"You are the child": [Answer(text="a", midway=lock)]})
        async with await Watched.open(url, schema=schema, sessions=2) as store:
            runtime = Runtime([Boss()], Resources(store=store, models=lambda _: model))
            root = await runtime.start(Chat(model="any", message="go", scope=Scope(user="u")), "boss", run_id="r")
            await until_locked(url, other.info.backend_pid)
            store.asked = asyncio.Event()
            closing = asyncio.create_task(runtime.close())
            await store.asked.wait()
            await store.runs(OPERATOR, limit=1)  # by the only other session, after what was asked before
            other.rollback()
            await closing
            stored = await store.run(OPERATOR, root.id)
            assert stored is not None
            assert (stored.state, stored.owner) == ("running", "")
