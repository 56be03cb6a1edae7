"""Data analysis over a real SQLite database: what a query may read, and that it can do nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concertino import AgentConfig, Chat, Scope, ToolContext, ToolOrchestrator, ToolRegistry
from concertino.errors import ConfigurationError, ToolError
from concertino.testing import ScriptedModel, call
from concertino.tools.builtin import data_analysis
from concertino.tools.sql import SqliteTables

WORDS = (
    *(
        "SELECT",
        "*",
        "FROM",
        "sales",
        "secrets",
        "totals",
        "sqlite_schema",
        "sqlite_temp_schema",
        "WHERE",
        "word",
        "item",
    ),
    *(
        "UNION",
        "ALL",
        "WITH",
        "a",
        "AS",
        "(",
        ")",
        ",",
        "DROP",
        "DELETE",
        "INSERT",
        "UPDATE",
        "SET",
        "ATTACH",
        "PRAGMA",
    ),
    *("main", "temp", ".", "1", "'x'", ";", "JOIN", "INTO", "VALUES", "EXPLAIN", "LIMIT", "="),
)
"""Words that queries are made of."""
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of a shop, with a table of secrets and a view."""
    path = tmp_path_factory.mktemp("data") / "shop's.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "CREATE TABLE sales(item TEXT, cents INT); CREATE TABLE secrets(word TEXT);"
            "CREATE VIEW totals AS SELECT item, sum(cents) AS cents FROM sales GROUP BY item;"
            "INSERT INTO secrets VALUES ('swordfish');"
            "INSERT INTO sales VALUES ('tea', 350), ('tea', 400), ('jam', 500);"
        )
    return path


async def analysed(tool: Any, sql: str, **chat: Any) -> Any:
    """Return the message of one call."""
    with ScriptedModel(call("data_analysis", sql=sql), "done") as model:
        result = await ToolOrchestrator(Chat("x", model=model, **chat), AgentConfig(), ToolRegistry([tool])).run()
    return result.messages[2]


async def test_a_query_over_the_tables(database: Path) -> None:
    """The model sees the schema in the description, and reads columns and rows."""
    tool = data_analysis(SqliteTables(database))
    assert "sales(item TEXT, cents INT)\nsecrets(word TEXT)\ntotals(item TEXT, cents)" in tool.description
    message = await analysed(tool, "SELECT item, sum(cents) / 100.0 AS euros FROM sales GROUP BY item ORDER BY 2 DESC")
    assert message.content == '{"columns": ["item", "euros"], "rows": [["tea", 7.5], ["jam", 5.0]]}'
    assert "sales(item TEXT, cents INT)" in (await analysed(tool, " ")).content


async def test_the_tables_of_one_user(database: Path, tmp_path: Path) -> None:
    """A function chooses the database by scope; the model asks for its schema."""
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE visits(day TEXT)")
    paths = {"ann": database, "bob": other}

    def tables(context: ToolContext) -> SqliteTables:
        return SqliteTables(paths[context.scope.user or ""])

    tool = data_analysis(tables)
    assert "sales" not in tool.description
    assert "sales(" in (await analysed(tool, "", scope=Scope("acme", "ann"))).content
    assert (await analysed(tool, "", scope=Scope("acme", "bob"))).content == "visits(day TEXT)"
    assert (await analysed(tool, "SELECT * FROM sales", scope=Scope("acme", "bob"))).is_error


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE sales",
        "DELETE FROM sales",
        "INSERT INTO sales VALUES ('x', 1)",
        "CREATE TEMP TABLE t(a)",
        "CREATE VIRTUAL TABLE t USING fts5(a)",
        "ATTACH '/tmp/x.db' AS x",
        "DETACH main",
        "VACUUM INTO '/tmp/copy.db'",
        "PRAGMA query_only = OFF",
        "PRAGMA table_info(sales)",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('/tmp/x.so')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/tmp/x', 'y')",
        "SELECT fts3_tokenizer('simple')",
        "BEGIN",
        "SAVEPOINT a",
        "REINDEX",
        "ANALYZE",
        "SELECT 1; DELETE FROM sales",
        "",
        "not sql",
        "SELECT '\0'",
        "SELECT '\ud800'",
        "SELECT " + "1+" * 10_000 + "1",
        "SELECT zeroblob(1000000000)",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT format('%.*c', 1000000000, 'x')",
    ],
)
def test_nothing_but_reading_is_possible(database: Path, sql: str) -> None:
    """Writing, other files, settings and extensions are refused with a text for the model."""
    before = hashlib.sha256(database.read_bytes()).digest()
    try:
        answer = asyncio.run(SqliteTables(database).query(sql))
    except ToolError:
        pass
    else:
        assert not answer.rows, f"{sql!r:.80} returned rows"
    assert hashlib.sha256(database.read_bytes()).digest() == before
    assert [path.name for path in database.parent.iterdir()] == [database.name]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(WORDS),
        max_size=12,
    )
)
def test_no_query_reveals_another_table(database: Path, words: list[str]) -> None:
    """With *only*, nothing of another table arrives, and the file does not change."""
    tables = SqliteTables(database, only=["sales", "totals"])
    before = database.read_bytes()
    try:
        answer = asyncio.run(tables.query(" ".join(words)))
    except ToolError as error:
        assert "swordfish" not in str(error)
    else:
        assert "swordfish" not in str(answer.rows)
        assert "secrets" not in str(answer.rows)
    assert database.read_bytes() == before


async def test_only_some_tables(database: Path) -> None:
    """A named view may read tables that are not named; the schema shows what may be read."""
    tables = SqliteTables(database, only=["Totals"])
    assert tables.schema() == "totals(item TEXT, cents)"
    assert (await tables.query("SELECT cents FROM totals WHERE item = 'tea'")).rows == [[750]]
    assert (await tables.query("WITH t AS (SELECT * FROM totals) SELECT count(*) FROM t")).rows == [[2]]
    for refused in ("SELECT * FROM sales", "SELECT * FROM secrets", "SELECT sql FROM sqlite_schema"):
        with pytest.raises(ToolError, match=r"refused|no such table"):
            await tables.query(refused)
    with pytest.raises(ConfigurationError, match="no table or view 'prices'"):
        SqliteTables(database, only=["prices"])


@pytest.mark.parametrize(
    "sql",
    [
        "WITH totals AS (SELECT word FROM secrets) SELECT * FROM totals",
        'WITH "Totals"(w) AS MATERIALIZED (SELECT word FROM main.secrets) SELECT w FROM "totals"',
        "WITH totals AS (SELECT sql FROM sqlite_schema) SELECT * FROM totals",
        "SELECT * FROM (SELECT word FROM secrets) AS totals",
        "WITH totals AS (SELECT item, cents FROM sales) SELECT * FROM totals",
        "EXPLAIN SELECT * FROM secrets",
        "; SELECT * FROM secrets",
        "QUERY PLAN SELECT * FROM secrets",
        "SELECT item FROM totals WHERE (SELECT count(*) FROM secrets) > 0",
        "SELECT * FROM json_each('[1]')",
    ],
)
async def test_a_query_cannot_borrow_the_name_of_a_view(database: Path, sql: str) -> None:
    """A part of a query that is named like a view has no more rights than the query."""
    with pytest.raises(ToolError):
        await SqliteTables(database, only=["totals"]).query(sql)


async def test_common_table_expressions_over_some_tables(database: Path) -> None:
    """They may have any name, even that of a table, and be recursive."""
    tables = SqliteTables(database, only=["sales"])
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT count(*) FROM n"
    assert (await tables.query(numbers)).rows == [[4]]
    own = "WITH sales AS (SELECT cents FROM main.sales WHERE item = 'tea') SELECT sum(cents) FROM sales"
    assert (await tables.query(own)).rows == [[750]]


async def test_numbers_that_json_cannot_represent_are_text(database: Path) -> None:
    """An infinite number is no JSON value."""
    assert (await SqliteTables(database).query("SELECT 1e999, -1e999")).rows == [["inf", "-inf"]]


async def test_a_large_sort_stays_off_the_disk_and_within_its_memory(database: Path) -> None:
    """What SQLite itself does not limit, the limits of the worker process do."""
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) "
    with pytest.raises(ToolError, match=r"too much|out of memory"):
        await SqliteTables(database).query(many + "SELECT zeroblob(200000) || i FROM n ORDER BY 1")


async def test_rows_and_size_are_limited(database: Path) -> None:
    """The model learns that there is more."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    answer = await SqliteTables(database, rows=3).query(numbers)
    assert (answer.rows, answer.more) == ([[1], [2], [3]], True)
    long = await SqliteTables(database).query("SELECT hex(zeroblob(45000)) FROM sales")
    assert (len(long.rows), long.more) == (1, True)
    assert (await SqliteTables(database).query("SELECT x'00ff', NULL")).rows == [["<2 bytes>", None]]
    content = (await analysed(data_analysis(SqliteTables(database, rows=1)), "SELECT item FROM sales")).content
    assert '"more": "only the first 1 rows are shown"' in content


async def test_an_endless_query_ends_at_its_limit_and_with_its_call(database: Path) -> None:
    """The time limit ends it; so does cancelling, which ends its process."""
    with pytest.raises(ToolError, match=r"within 0\.05 s"):
        await SqliteTables(database, seconds=0.05).query(ENDLESS)
    task = asyncio.create_task(SqliteTables(database, seconds=600).query(ENDLESS))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await SqliteTables(database).query("SELECT 1")).rows == [[1]]


def test_a_missing_database_is_refused(tmp_path: Path) -> None:
    """The file is not created."""
    with pytest.raises(ConfigurationError, match="cannot read the database"):
        SqliteTables(tmp_path / "no.db")
    assert not list(tmp_path.iterdir())
