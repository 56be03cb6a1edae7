"""What a statement reads and writes does not grow with the store, or with the run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from concertino.storage import PostgresStore
from concertino.storage.postgres.dialect import numbered, queries
from concertino.storage.sql.statements import limited
from concertino.testing.store_suite.kit import operation, record, start_tree, whole

from .server import Server


@pytest.fixture
def quiet() -> Iterator[str]:
    """The URL of a server that writes nothing to its log but what a statement needs."""
    made = Server()
    try:
        made.start(fsync="off", full_page_writes="off", autovacuum="off", checkpoint_timeout="1h")
        yield made.url("postgres")
    finally:
        made.close()


async def test_a_step_writes_as_much_to_the_log_late_as_early(quiet: str) -> None:
    async with await PostgresStore.open(quiet) as store:
        tree = await start_tree(store)
        with psycopg.connect(quiet, autocommit=True) as connection:

            def position() -> int:
                found = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
                assert found is not None
                return int(found[0])

            written = {0: position()}
            for step in range(1, 421):
                asked, called = f"{step}.model", f"{step}.call"
                await tree.append("model_requested", content={"a": 1}, operations=[operation(asked)])
                answer, used = [whole("some text " * 40), whole("a result")], [record(step)]
                await tree.append(
                    "model_answered", messages=answer, usage=used, operations=[operation(called)], closed=[asked]
                )
                written[step] = position()
    early, late = (written[step + 40] - written[step] for step in (20, 380))
    assert abs(late - early) < early // 10


@pytest.mark.parametrize("name", ["forget_answerer", "forget_sender"])
async def test_an_erasure_finds_what_a_user_has_answered(url: str, schema: str, name: str) -> None:
    """Without a scan: the index is used wherever one can be."""
    async with await PostgresStore.open(url, schema=schema):
        pass
    with psycopg.connect(url, options=f"-c search_path={schema} -c enable_seqscan=off", autocommit=True) as connection:
        sql, names = numbered(limited(queries()[name], "Scope"))
        bound = {"user": "u", "tenant": "t"}
        rows = psycopg.RawCursor(connection).execute(f"EXPLAIN {sql}", [bound[each] for each in names]).fetchall()
        plan = "".join(row[0] for row in rows)
    assert re.search(r"\b(answers|commands)_by\b", plan)
    assert "Seq Scan on answers" not in plan
    assert "Seq Scan on commands" not in plan
