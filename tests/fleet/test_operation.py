"""What docs/fleet.md tells an operator: a backup of a database whose keys are elsewhere, and what to watch."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from concertino import OPERATOR, AgentConfig, Ask, Chat, Resources, RunContext, Runtime, Scope, ToolCall, tool
from concertino.errors import ConfigurationError
from concertino.runtime import ConversationTurn
from concertino.storage import KeyFile, PostgresStore
from concertino.testing import ScriptedModel, call
from tests.postgres.server import Server, programs

pytestmark = pytest.mark.postgres
CARLA, BOB = Scope(user="carla"), Scope(user="bob")
REFUNDS: list[str] = []


@tool(effect="once")
async def refund() -> str:
    """Refund an order."""
    REFUNDS.append("refund")
    return "refunded"


class Desk(AgentConfig[None]):
    name = "desk"
    tools = (refund,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, object]) -> Ask:
        return Ask()


class Clerk(AgentConfig[None]):
    name = "clerk"


@asynccontextmanager
async def desk(url: str, keys: Path, model: ScriptedModel) -> AsyncIterator[Runtime]:
    """Open a process on a database with keys."""
    async with (
        await PostgresStore.open(url, keys=KeyFile(keys, b"m" * 32)) as store,
        Runtime([Desk()], Resources(store=store, model=model, models=lambda _: model)) as runtime,
    ):
        yield runtime


async def run(program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL's."""
    process = await asyncio.create_subprocess_exec(programs() / program, *arguments)
    assert await process.wait() == 0


async def sent(runtime: Runtime, scope: Scope, name: str, text: str) -> ConversationTurn:
    """Send a message, and return its turn when it has ended or waits for an answer."""
    turn = await (await runtime.conversation(scope, name, agent="desk")).send(text)
    async for _ in turn.events(until="suspended"):
        pass
    return turn


async def test_a_restored_backup_goes_on_and_shows_nothing_that_was_erased(server: Server, tmp_path: Path) -> None:
    REFUNDS.clear()
    url, other, keys, dump = server.database(), server.database(), tmp_path / "keys.db", tmp_path / "chat.dump"
    async with desk(url, keys, ScriptedModel("a blue heron", "a grey heron", call("refund"))) as runtime:
        blue = await sent(runtime, CARLA, "birds", "Which bird?")
        grey = await sent(runtime, BOB, "bob's birds", "Which bird?")
        waiting = await sent(runtime, CARLA, "orders", "Refund it.")
        await run("pg_dump", "--format=custom", f"--file={dump}", url)
        await (await runtime.conversation(BOB, "bob's birds")).delete()

    await run("pg_restore", "--exit-on-error", f"--dbname={other}", str(dump))
    with pytest.raises(ConfigurationError, match="encrypted with the keys of another"):
        await PostgresStore.open(other)
    async with desk(other, keys, ScriptedModel("It is refunded.")) as runtime:
        birds = await runtime.conversation(CARLA, "birds")
        assert [(turn.run_id, turn.answer) for turn in await birds.turns()] == [(blue.id, "a blue heron")]
        assert [each.message.text for each in await runtime.store.messages(CARLA, blue.id)] == [
            "Which bird?",
            "a blue heron",
        ]
        (wait,) = await runtime.approvals(CARLA)
        await runtime.approve(CARLA, wait.key)
        turn = await (await runtime.conversation(CARLA, "orders")).turn(waiting.id)
        assert [event async for _, event in turn.events()][-1].result.text == "It is refunded."
        assert REFUNDS == ["refund"]
        erased = await (await runtime.conversation(BOB, "bob's birds")).export()
        assert [(turn["id"], turn["message"], turn["answer"], turn["messages"]) for turn in erased["turns"]] == [
            (grey.id, "", "", [])
        ]
    assert b"grey heron" not in dump.read_bytes()


async def test_an_old_process_resumes_a_run_with_fields_of_a_newer_version(server: Server, tmp_path: Path) -> None:
    REFUNDS.clear()
    url, keys = server.database(), tmp_path / "keys.db"
    async with desk(url, keys, ScriptedModel(call("refund"))) as runtime:
        waiting = await sent(runtime, CARLA, "orders", "Refund it.")
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE concertino.journal SET body = (body::jsonb || '{\"newer\": 1}')::text")
    async with desk(url, keys, ScriptedModel("It is refunded.")) as runtime:
        (wait,) = await runtime.approvals(CARLA)
        await runtime.approve(CARLA, wait.key)
        turn = await (await runtime.conversation(CARLA, "orders")).turn(waiting.id)
        assert [event async for _, event in turn.events()][-1].result.text == "It is refunded."
    assert REFUNDS == ["refund"]


def examples() -> list[str]:
    """Return the SQL of the page."""
    page = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")
    return re.findall(r"```sql\n(.*?)```", page, re.DOTALL)


async def test_the_queries_to_watch_are_valid(server: Server) -> None:
    url = server.database()
    await (await PostgresStore.open(url)).close()
    with psycopg.connect(url) as connection:
        found = [connection.execute(each.encode()).fetchall() for each in examples()[0].split(";")[:-1]]
    assert found == [[(0,)], [(0,)], [], [(0,)], [(0,)]]


async def test_the_query_of_the_usage_has_the_sums_of_the_ledger(server: Server) -> None:
    url, model = server.database(), ScriptedModel(*["hello"] * 5)
    async with (
        await PostgresStore.open(url) as store,
        Runtime([Desk(), Clerk()], Resources(store=store, model=model)) as runtime,
    ):
        for tenant, agent in (("acme", "desk"), ("acme", "desk"), ("acme", "clerk"), ("globex", "desk")):
            run = await runtime.start(Chat("hi", scope=Scope(tenant, "u")), agent)
            await run.result()
        sums = await store.usage_sums(OPERATOR, ["tenant", "agent", "day"])
    with psycopg.connect(url) as connection:
        rows = connection.execute(examples()[1].encode()).fetchall()
    assert sorted(
        (tenant, agent, str(day), attempts, prompt, cached, completion, dollars)
        for tenant, agent, day, attempts, prompt, cached, completion, dollars in rows
    ) == sorted(
        (*each.by, each.attempts, each.tokens.prompt, each.tokens.cached, each.tokens.completion, each.cost)
        for each in sums
    )
    assert sum(row[3] for row in rows) == 4
    assert {row[:2] for row in rows} == {("acme", "desk"), ("acme", "clerk"), ("globex", "desk")}
