"""Durable steps on PostgreSQL: their time, CPU, bytes and transactions, beside the system's own rows in bare SQL."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from benchmarks.common import SCRIPT, TALLY, Call, Script, Turn
from benchmarks.durable import SIZE, Build, fetch
from benchmarks.workloads import Figures, check, repeat

_WINDOW = 20
"""Steps at the start and at the end of the long run, whose bytes are compared."""


class _Watched(Script):
    """A script that reads the position of the server's log when turns begin."""

    def __init__(self, turns: tuple[Turn, ...], marks: frozenset[int], connection: psycopg.Connection) -> None:
        super().__init__(turns, marks=marks)
        self._connection = connection
        self.log: dict[int, int] = {}
        """Bytes of the log when a turn began, by turn."""

    async def next(self, messages: int) -> Turn:
        """Return the next turn."""
        if self.position in self.marks:
            self.log[self.position] = logged(self._connection)
        return await super().next(messages)


async def postgres(build: Build, *, url: str, steps: int, long: int, at_most: int, seconds: float) -> Figures:
    """Measure runs of *steps* calls with a result of 1 kB, and the log that a run of *long* steps writes."""
    system = build(fetch)
    await system.open(url)
    connection = psycopg.connect(url, autocommit=True)
    try:
        await _run(system, Script(_turns(2)))
        rows = _BareRows(connection) if _is_ours(connection) else None
        walls, cpus, servers, floors, usage = [], [], [], [], "exact"
        transactions = 0

        async def once() -> None:
            nonlocal usage, transactions
            script, before = Script(_turns(steps)), written(connection)
            gc.collect()
            server = server_cpu(connection)
            wall, cpu = time.perf_counter(), time.process_time()
            found = await _run(system, script)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            servers.append(server_cpu(connection) - server)
            transactions = written(connection) - before
            usage = found if found == "LOST" else usage
            if rows is not None:
                floors.append(rows.write(transactions))

        await repeat(once, at_most, seconds)
        marks = frozenset({1, 1 + _WINDOW, long - _WINDOW, long})
        script = _Watched(_turns(long), marks, connection)
        await _run(system, script)
    finally:
        connection.close()
        await system.close()
    figures: Figures = {
        "ms": statistics.median(walls) / steps * 1e3,
        "cpu_ms": statistics.median(cpus) / steps * 1e3,
        "server_ms": statistics.mean(servers) / steps * 1e3,
        "transactions": transactions / steps,
        "early_kb": (script.log[1 + _WINDOW] - script.log[1]) / _WINDOW / 1e3,
        "late_kb": (script.log[long] - script.log[long - _WINDOW]) / _WINDOW / 1e3,
        "usage": usage,
    }
    if floors:
        figures |= {"rows_ms": statistics.median(floors) / steps * 1e3}
        figures |= {"to_rows": statistics.median(wall / floor for wall, floor in zip(walls, floors, strict=True))}
    return figures


def _turns(steps: int) -> tuple[Turn, ...]:
    calls = (Call(f"call_{number}", "fetch", f'{{"n": {SIZE}}}') for number in range(steps))
    return (*(Turn(calls=(call,)) for call in calls), Turn(deltas=("done",)))


async def _run(system: Any, script: Script) -> str:
    SCRIPT.set(script)
    executions = TALLY.executions
    outcome = await system.run()
    return check(script, outcome, TALLY.executions - executions, all_shown=False)


def logged(connection: psycopg.Connection) -> int:
    """Return the bytes of the server's log."""
    return _number(connection, "SELECT pg_current_wal_insert_lsn() - '0/0'")


def written(connection: psycopg.Connection) -> int:
    """Return the number of transactions that have written anything."""
    return _number(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")


def server_cpu(connection: psycopg.Connection) -> float:
    """Return the CPU seconds of the server's processes so far; 0.0 on a system without `/proc`."""
    ticks = 0
    for (pid,) in connection.execute("SELECT pid FROM pg_stat_activity").fetchall():
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _number(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def _is_ours(connection: psycopg.Connection) -> bool:
    return _number(connection, "SELECT count(*) FROM pg_namespace WHERE nspname = 'concertino'") == 1


class _BareRows:
    """Copies of our tables, to which the rows of each run are written once more by as few statements as possible."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        connection.execute("CREATE SCHEMA bare")
        found = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'concertino'")
        self._tables = [table for (table,) in found]
        for table in self._tables:
            names = {"copy": sql.Identifier("bare", table), "table": sql.Identifier("concertino", table)}
            connection.execute(sql.SQL("CREATE TABLE {copy} (LIKE {table} INCLUDING ALL)").format(**names))
        self._seen = dict.fromkeys(self._tables, 0)
        self.write(1)

    def write(self, transactions: int) -> float:
        """Write the rows that are new since the last call in that many *transactions*; return the seconds."""
        rows = [row for table in self._tables for row in self._fresh(table)]
        size = max(-(-len(rows) // transactions), 1)
        connection, begun = self._connection, time.perf_counter()
        for first in range(0, len(rows), size):
            with connection.pipeline(), connection.transaction():
                for statement, values in rows[first : first + size]:
                    connection.execute(statement, values, prepare=True)
                connection.execute("UPDATE bare.heads SET entries = entries + 1 WHERE run = 1", prepare=True)
        return time.perf_counter() - begun

    def _fresh(self, table: str) -> list[tuple[sql.Composed, tuple[Any, ...]]]:
        """Return the rows that transactions since the last call have written."""
        names = {"table": sql.Identifier("concertino", table), "copy": sql.Identifier("bare", table)}
        select = sql.SQL("SELECT * FROM {table} WHERE xmin::text::bigint > %s").format(**names)
        cursor = self._connection.execute(select, (self._seen[table],))
        rows = cursor.fetchall()
        highest = sql.SQL("SELECT coalesce(max(xmin::text::bigint), 0) FROM {table}").format(**names)
        row = self._connection.execute(highest).fetchone()
        assert row is not None
        self._seen[table] = max(self._seen[table], row[0])
        insert = sql.SQL("INSERT INTO {copy} OVERRIDING SYSTEM VALUE VALUES ({values}) ON CONFLICT DO NOTHING")
        values = sql.SQL(", ").join(sql.Placeholder() * len(cursor.description or ()))
        return [(insert.format(values=values, **names), each) for each in rows]


WORKLOADS: dict[str, Callable[..., Awaitable[Figures]]] = {"postgres": postgres}
