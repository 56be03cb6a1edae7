"""On PostgreSQL, too, resuming a long run reads what its model is shown."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from concertino.storage import PostgresStore
from concertino.storage.postgres.dialect import numbered, queries
from concertino.storage.sql.statements import limited
from concertino.testing.store_suite.kit import record, start_tree, whole

from ..engine.long_runs import assert_flat, counted_reads, most_read


@pytest.mark.parametrize(
    "marks",
    [(300, 700), pytest.param((200, 2_000, 5_000), marks=pytest.mark.slow)],
)
async def test_resuming_reads_as_much_late_as_early(url: str, schema: str, marks: tuple[int, ...]) -> None:
    with counted_reads() as reads:
        async with await PostgresStore.open(url, schema=schema) as store:
            assert_flat(await most_read(store, store, reads, marks))


async def test_the_rest_of_a_run_is_not_looked_at(url: str, schema: str) -> None:
    """The scans of messages and usage find the rows that the queries return, and no others."""
    async with await PostgresStore.open(url, schema=schema) as store:
        tree = await start_tree(store)
        await tree.append("model_answered", messages=[whole("some text")], usage=[record(1)])
    snapshot = {"run": 1, "since": 19_991, "apart": "[2, 7]"}
    with psycopg.connect(url, options=f"-c search_path={schema} -c enable_seqscan=off", autocommit=True) as connection:
        for table in ("messages", "usage"):  # the same step 20,000 times
            connection.execute(f"""
                INSERT INTO {table} SELECT (jsonb_populate_record(
                    row, jsonb_build_object('number', n, 'booking', n, 'entry', n, 'id', n)
                )).* FROM {table} AS row, generate_series(2, 20_000) AS n
            """)
            connection.execute(f"ANALYZE {table}")
        assert looked_at(connection, "messages_from_snapshot", snapshot) == 2 + 10
        assert looked_at(connection, "usage", {"root_id": "r1", "after": 19_990}) == 10
        assert looked_at(connection, "usage", {"root_id": "r1", "after": -1}) == 20_000


def looked_at(connection: psycopg.Connection[Any], name: str, bound: dict[str, Any]) -> int:
    """Return how many rows of messages or usage a query looks at."""
    sql, names = numbered(limited(queries()[name], "Operator"))
    cursor = psycopg.RawCursor(connection)
    explained = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", [bound[each] for each in names]).fetchall()
    nodes, rows = [explained[0][0][0]["Plan"]], 0
    for node in nodes:
        nodes += node.get("Plans", ())
        if node.get("Relation Name") in ("messages", "usage"):
            each = node["Actual Rows"] + sum(
                node.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck")
            )
            rows += round(each * node["Actual Loops"])
    return rows
