"""Messages about the runs of a fleet, through a real NATS server, against the rows of the store."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from nats.aio.client import Client

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Chat,
    MemoryStore,
    Receipt,
    Resources,
    Retry,
    RunContext,
    Runtime,
    Scope,
    Tokens,
    ToolCall,
    UsageRecord,
    delegate,
    tool,
)
from concertino.errors import ConfigurationError, OverloadedError, UnknownModelError
from concertino.providers import Model
from concertino.runtime import Fleet, LocalBell, NatsBell, publication
from concertino.storage import PostgresStore, Store
from concertino.testing import Answer, ScriptedModel, call

from ..faults.proxy import proxy_to
from ..runtime.kit import state
from .nats_server import NatsServer
from .test_fleet import joined

pytestmark = pytest.mark.postgres
CARLA, BOB = Scope(tenant="acme", user="carla"), Scope(tenant='> *."\n☃', user="bob\u0000")
TOKENS = ("prompt", "completion", "cached", "cache_write", "cache_write_1h", "reasoning")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a loaded machine send all messages."""
    monkeypatch.setattr(publication, "PATIENCE", 300.0)


@tool(effect="once")
async def refund() -> str:
    """Refund an order."""
    return "refunded"


class Researcher(AgentConfig[None]):
    name = "researcher"
    prompt = "You research."


class Lead(AgentConfig[None]):
    name = "lead"
    tools = (delegate(Researcher(), description="Looks things up."),)


class Clerk(AgentConfig[None]):
    name = "clerk"
    tools = (refund,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask()


def price(provider: str, model: str, tokens: Tokens, receipt: Receipt | None) -> tuple[Decimal | None, str]:
    return Decimal(tokens.total) / 1_000_000, "test"


class Follower:
    """A subscriber to the messages of all runs."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []
        self.raw: list[str] = []

    async def ended(self, *run_ids: str) -> None:
        """Wait until the ends of these runs were published."""
        await state(lambda: {each["run"] for each in self.tasks} >= {*run_ids})

    def numbers(self, run_id: str) -> list[int]:
        """Return the numbers of a run's entries in the order of their arrival."""
        return [each["entry"] for each in self.steps if each["run"] == run_id]

    def phases(self, run_id: str) -> list[str]:
        return [each["phase"] for each in self.steps if each["run"] == run_id]

    def records(self) -> list[dict[str, Any]]:
        """Return the usage of all steps, with the run and the number of the entry."""
        return [
            {"run": step["run"], "agent_path": step["agent_path"], "entry": step["entry"], **each}
            for step in self.steps
            for each in step["usage"]
        ]


@asynccontextmanager
async def follower(server: NatsServer) -> AsyncIterator[Follower]:
    found, client = Follower(), Client()

    async def heard(message: Any) -> None:
        kind = message.subject.rpartition(".")[2]
        if kind != "chunk":
            found.raw.append(message.data.decode())
            {"step": found.steps, "task": found.tasks}[kind].append(json.loads(message.data))

    await client.connect(server.url)
    await client.subscribe("evt.agent.>", cb=heard)  # one subscription keeps the order of its messages
    await client.flush()
    try:
        yield found
    finally:
        await client.close()


@asynccontextmanager
async def worker(
    url: str, store: Store, model: ScriptedModel, models: Callable[[str], Model] | None = None
) -> AsyncIterator[Runtime]:
    """Open a process that publishes what it stores."""
    resources = Resources(store=store, models=models or (lambda _: model), model=model)
    async with NatsBell(url) as bell:
        fleet = Fleet(bell=bell, targets={}, takes=["worker_generic"], publishes=True)
        async with joined(Runtime([Lead(), Clerk(), Researcher()], resources), fleet) as runtime:
            yield runtime


def script() -> ScriptedModel:
    """Return a model for one run with two sub-agents. One attempt fails half way, and one reports no usage."""
    broken = Answer(text="half of it", error=OverloadedError("busy"))
    return ScriptedModel(
        call("researcher", query="When?"),
        Answer(calls=(call("researcher", query="Where?"),), tokens=None),
        "In 1815.",
        scripts={"You research": [broken, "In 1815.", "Here."]},
    )


def row(record: UsageRecord, entry: int | None = None) -> dict[str, Any]:
    """Return a record of the store in the form of a message."""
    tokens = {name: getattr(record.tokens, name) for name in TOKENS}
    more = {"provider": record.provider, "model": record.model, "source": record.source, "entry": entry}
    cost = None if record.cost is None else str(record.cost)
    return {"id": record.id, "run": record.run_id, "agent_path": record.agent_path, "cost": cost, **more, **tokens}


async def rows(store: Store, *root_ids: str) -> list[dict[str, Any]]:
    """Return the usage of trees, from the journals of their runs."""
    found = []
    for root_id in root_ids:
        for run in await store.runs(OPERATOR, root_id=root_id):
            journal = await store.load(OPERATOR, run.start.run_id)
            assert journal is not None
            found += [row(record, entry.seq) for entry in journal.entries for record in entry.usage]
    return found


def by_id(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda each: each["id"])


async def check(store: Store, seen: Follower, *root_ids: str) -> None:
    """Check that the messages tell what the store has: no more, no less, and at the same numbers."""
    assert by_id(seen.records()) == by_id(await rows(store, *root_ids))
    for root_id in root_ids:
        for run in await store.runs(OPERATOR, root_id=root_id):
            assert seen.numbers(run.start.run_id) == list(range(run.entries))
        (task,) = [each for each in seen.tasks if each["run"] == root_id]
        bill = await store.usage(OPERATOR, root_id)
        known = [each for each in bill if each.source != "unknown"]
        sums = {name: sum(getattr(each.tokens, name) for each in known) for name in TOKENS}
        assert {name: task["usage"][name] for name in TOKENS} == sums
        assert task["usage"]["attempts"] == len(bill)
        assert task["usage"]["unknown"] == len(bill) - len(known)
        assert seen.phases(root_id)[task["entry"]] == "ended"


class Page(dict[str, Any]):
    """The example of the page, and its query."""

    def __init__(self) -> None:
        text = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")
        section = text.partition("### Follow the usage of a fleet\n")[2]
        exec(section.partition("```python\n")[2].partition("```")[0], self)
        self.query = section.partition("```sql\n")[2].partition("```")[0]


def runs_of(seen: Follower, scope: Scope) -> set[str]:
    return {each["run"] for each in seen.steps if each["tenant"] == scope.tenant}


async def test_the_messages_of_two_trees_add_up_to_their_rows(nats: NatsServer, url: str, schema: str) -> None:
    """With sub-agents, a failed attempt and an estimated one, in two runs at the same time."""
    models = {f"scripted:{name}": script() for name in ("one", "two")}
    page = Page()
    costs = page["Costs"]()
    async with (
        await PostgresStore.open(url, schema=schema) as store,
        follower(nats) as seen,
        NatsBell(nats.url) as bell,
    ):
        subscriber = await page["follow"](nats.url, costs)
        resources = Resources(store=store, models=models.__getitem__, retry=Retry(first=0.0, restart=True), price=price)
        fleet = Fleet(bell=bell, targets={}, takes=["worker_generic"], publishes=True)
        async with joined(Runtime([Lead()], resources), fleet) as runtime:
            runs = await asyncio.gather(
                *(
                    runtime.start(Chat("When and where?", model=name, scope=scope), "lead")
                    for name, scope in zip(models, (CARLA, BOB), strict=True)
                )
            )
            results = [await run.result() for run in runs]
            assert [result.status for result in results] == ["completed"] * 2
            await seen.ended(*(run.id for run in runs))
            await check(store, seen, *(run.id for run in runs))
            assert Counter(each["agent_path"] for each in seen.records()) == {
                "lead": 6,
                "lead/researcher-1": 4,
                "lead/researcher-2": 2,
            }
            assert {each["source"] for each in seen.records()} == {"measured", "estimated", "unknown"}
            told = {(each["root"], each["tenant"], each["user"], each["agent"]) for each in seen.steps}
            assert told == {
                (run.id, scope.tenant, scope.user, agent)
                for run, scope in zip(runs, (CARLA, BOB), strict=True)
                for agent in ("lead", "researcher")
            }
            assert [each["status"] for each in seen.tasks] == ["completed"] * 2
            assert runtime.counts.lost_messages == 0
            await state(lambda: sum(map(len, costs.entries.values())) == len(seen.steps))
        await subscriber.close()
    with psycopg.connect(url) as connection:
        found = connection.execute(page.query.replace("concertino.", f"{schema}.").encode()).fetchall()
    assert {(run, entry): tuple(sums) for run, entry, *sums in found} == {
        (each["run"], each["entry"]): (
            len(each["usage"]),
            sum(record["prompt"] for record in each["usage"]),
            sum(record["completion"] for record in each["usage"]),
            sum(Decimal(record["cost"]) for record in each["usage"] if record["cost"] is not None) or None,
        )
        for each in seen.steps
        if each["usage"]
    }
    for scope in (CARLA, BOB):
        cost = costs.of_tenant[scope.tenant]
        assert cost == sum(each[-1] or 0 for each in found if each[0] in runs_of(seen, scope)) > 0


async def test_a_run_that_another_process_continues_is_published_without_a_gap(nats: NatsServer) -> None:
    store, asked = MemoryStore(), asyncio.Event()

    async def hang() -> None:
        asked.set()
        await asyncio.Event().wait()

    async with follower(nats) as seen:
        model = ScriptedModel(call("researcher", query="When?"), scripts={"You research": [Answer(before=hang)]})
        async with worker(nats.url, store, model) as runtime:
            run = await runtime.start(Chat("When?", scope=CARLA, conversation_id="c"), "lead")
            await asked.wait()
        assert seen.phases(run.id)[-1] != "ended", "the process has left, and all its messages have arrived"
        model = ScriptedModel("It was in 1815.", scripts={"You research": ["In 1815."]})
        async with worker(nats.url, store, model) as runtime:
            await seen.ended(run.id)
            await check(store, seen, run.id)
    assert "resumed" in seen.phases(run.id)
    assert {(each["conversation"], each["agent"]) for each in seen.steps} == {("c", "lead"), ("c", "researcher")}


async def test_runs_that_end_without_their_agent_are_published(nats: NatsServer) -> None:
    """A stopped run that waits for an approval, and the first entries of a fork."""
    store, model = MemoryStore(), ScriptedModel(call("refund"), "Hello.", "Hello again.")
    async with follower(nats) as seen, worker(nats.url, store, model) as runtime:
        run = await runtime.start(Chat("Refund it.", scope=CARLA), "clerk")
        await run.result()
        await run.recorded()
        await runtime.stop(CARLA, run.id)
        await seen.ended(run.id)
        await check(store, seen, run.id)
        assert seen.tasks[0]["status"] == "cancelled"
        first = await runtime.start(Chat("Hello!", scope=CARLA), "clerk")
        await first.result()
        fork = await runtime.fork(CARLA, first.id, 1)
        await fork.result()
        await seen.ended(first.id, fork.id)
        await check(store, seen, run.id, first.id, fork.id)


async def test_a_turn_that_can_never_start_is_published(nats: NatsServer) -> None:
    store, model = MemoryStore(), ScriptedModel()

    def gone(name: str) -> ScriptedModel:
        raise UnknownModelError(f"unknown model {name!r}")

    resources = Resources(store=store, model=model, models=lambda _: model)
    async with joined(Runtime([Clerk()], resources), Fleet(bell=LocalBell(), targets={})) as web:
        conversation = await web.conversation(CARLA, "c", agent="clerk")
        turn = await conversation.send(Chat("Hello!", model="scripted:gone"))
    async with follower(nats) as seen, worker(nats.url, store, model, models=gone):
        await seen.ended(turn.id)
    assert seen.phases(turn.id) == ["started", "ended"]
    assert [(each["status"], each["usage"]["attempts"], each["usage"]["cost"]) for each in seen.tasks] == [
        ("failed", 0, "0")
    ]


async def test_a_server_that_cannot_be_reached_costs_messages_only(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages wait for the server, up to a limit. The following ones are lost, and their numbers are missing."""
    monkeypatch.setattr(publication, "BUFFER", 6)
    store, model = MemoryStore(), ScriptedModel("One.", "Two.", "Three.")
    async with follower(nats) as seen, proxy_to(nats.port) as proxy:
        proxy.frozen = True
        async with worker(f"nats://127.0.0.1:{proxy.port}", store, model) as runtime:
            first = await runtime.start(Chat("Hello!", scope=CARLA), "lead")
            await first.result()
            second = await runtime.start(Chat("Hello!", scope=CARLA), "lead")
            assert (await second.result()).text == "Two."
            assert runtime.counts.lost_messages == 2, "each run has four entries"
            proxy.frozen = False
            await state(lambda: len(seen.steps) == 6)
            third = await runtime.start(Chat("Hello!", scope=CARLA), "lead")
            await seen.ended(first.id, third.id)
        assert runtime.counts.lost_messages == 2
    runs = [run.id for run in (first, second, third)]
    assert [seen.numbers(run_id) for run_id in runs] == [[0, 1, 2, 3], [0, 1], [0, 1, 2, 3]]
    assert len(await rows(store, *runs)) == 3


async def test_messages_that_no_server_takes_are_given_up_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(publication, "PATIENCE", 0.0)
    async with worker(NatsServer().url, MemoryStore(), ScriptedModel("Hello.")) as runtime:
        run = await runtime.start(Chat("Hello!"), "lead")
        await run.result()
    assert runtime.counts.lost_messages == 4
    assert "messages about runs are lost: the server did not take them in time" in caplog.text


async def test_any_name_is_published_as_valid_json(nats: NatsServer) -> None:
    class Hostile(AgentConfig[None]):
        name = 'x"}.> *☃'

    model = ScriptedModel("Hello.", name='m"☃,')
    async with follower(nats) as seen, NatsBell(nats.url) as bell:
        resources = Resources(store=MemoryStore(), models=lambda _: model, model=model)
        runtime = Runtime([Hostile()], resources)
        async with joined(runtime, Fleet(bell=bell, targets={}, takes=["worker_generic"], publishes=True)):
            run = await runtime.start(Chat("Hello!", scope=BOB), Hostile(), run_id="a.* >\n☃")
            await run.result()
            await seen.ended(run.id)
            assert by_id(seen.records()) == by_id(await rows(runtime.store, run.id))
    assert {(each["tenant"], each["user"]) for each in (*seen.steps, *seen.tasks)} == {(BOB.tenant, BOB.user)}
    assert {each["agent"] for each in seen.steps} == {Hostile.name}
    assert {each["model"] for each in seen.records()} == {model.name}
    assert "Hello" not in "".join(seen.raw), "messages have no content"


async def test_a_message_that_is_too_large_for_the_server_is_lost(tmp_path: Path) -> None:
    (tmp_path / "nats.conf").write_text("max_payload: 1500")
    server, model = NatsServer(), ScriptedModel("Hello.", name="m" * 1500)
    server.start("-c", str(tmp_path / "nats.conf"))
    try:
        async with follower(server) as seen, worker(server.url, MemoryStore(), model) as runtime:
            run = await runtime.start(Chat("Hello!"), "lead")
            await run.result()
            await seen.ended(run.id)
            assert seen.numbers(run.id) == [0, 1, 3], "the usage does not fit"
            assert runtime.counts.lost_messages == 1
    finally:
        server.stop()


def test_messages_need_nats() -> None:
    with pytest.raises(ConfigurationError, match="LocalBell carries no messages; use NatsBell"):
        Fleet(bell=LocalBell(), targets={}, publishes=True)
