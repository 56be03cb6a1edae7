"""Claims of due work by several processes: `python -m benchmarks.fleet.claims URL WORK LIMIT` is one of them."""

from __future__ import annotations

import asyncio
import json
import queue as queues
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
from tests.faults.proxy import proxy_to

from concertino import OPERATOR
from concertino.storage import PostgresStore
from concertino.storage.process import process_owner

_LEASE = 3600.0
_SECONDS = 4.0
"""How long each process claims. The queue is not emptied: its last rows are few, and locked by others."""
_BARE = """
    WITH chosen AS (
        SELECT number FROM bare_jobs WHERE due <= 1 ORDER BY due, number LIMIT %s FOR UPDATE SKIP LOCKED
    )
    UPDATE bare_jobs AS j SET due = 2, owner = %s FROM chosen WHERE j.number = chosen.number RETURNING j.number
"""
"""Claims by as little SQL as possible."""
_DUE = {
    "trees": """
        UPDATE concertino.heads SET owner = '', process = '', lease = 0, tries = 0, ready_at = 1 WHERE ending IS NULL;
        VACUUM ANALYZE concertino.heads
    """,
    "turns": "UPDATE concertino.turns SET not_before = 1 WHERE due; VACUUM ANALYZE concertino.turns",
    "bare": "UPDATE bare_jobs SET due = 1, owner = ''; VACUUM ANALYZE bare_jobs",
}
"""Makes all work due again."""


def queue(url: str, many: int) -> None:
    """Add *many* idle conversations with a queued turn each, and as many rows for the bare claims."""
    with psycopg.connect(url, options="-c search_path=concertino,public") as connection:
        connection.execute(
            """
            WITH added AS (
                INSERT INTO conversations (scope_key, conversation_key, id, tenant, user_id, agent, created)
                SELECT 'q', sha256(n::text::bytea), 'queue-' || n, 'shop', 'user', 'clerk', 1
                FROM generate_series(1, %s) AS n RETURNING number
            ), headed AS (
                INSERT INTO conversation_heads (conversation, modes, tools, updated)
                SELECT number, '[]', '[]', 1 FROM added
            )
            INSERT INTO turns (conversation, run_id, state, anchored, first, mode, created, not_before)
            SELECT number, 'queued-' || number, 'queued', false, false, '', 1, 0 FROM added
            """,
            (many,),
        )
        connection.execute(
            "CREATE TABLE public.bare_jobs (number BIGINT PRIMARY KEY, due BIGINT, owner TEXT, body TEXT)"
        )
        connection.execute(
            "INSERT INTO public.bare_jobs SELECT n, 2, '', repeat('x', 200) FROM generate_series(1, %s) AS n", (many,)
        )
        connection.execute("CREATE INDEX bare_due ON public.bare_jobs (due, number)")


@contextmanager
def distant(url: str, delay: float) -> Iterator[str]:
    """Yield *url*, or one that reaches the same server *delay* seconds later, as over a network."""
    if not delay:
        yield url
        return
    server = urlsplit(url)
    ports, ended = queues.SimpleQueue[int](), threading.Event()

    async def forward() -> None:
        async with proxy_to(server.port or 5432) as proxy:
            proxy.delay = delay
            ports.put(proxy.port)
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(forward(),))
    thread.start()
    try:
        yield url.replace(f":{server.port}/", f":{ports.get()}/")
    finally:
        ended.set()
        thread.join()


def claims(url: str, work: str, workers: int, limit: int, reached: str) -> float:
    """Return the claims per second of this number of *workers*, each of which claims *limit* at a time at *reached*."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in _DUE[work].split(";"):
            connection.execute(statement.encode())
    command = [sys.executable, "-m", "benchmarks.fleet.claims", reached, work, str(limit)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(workers)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return float(sum(json.loads(process.communicate()[0]) for process in processes))


def _at_start() -> None:
    """Wait until all workers are ready."""
    print(flush=True)
    sys.stdin.readline()


async def _claim(url: str, work: str, limit: int) -> float:
    """Claim for a while. Return the claims per second."""
    async with await PostgresStore.open(url) as store:

        async def trees() -> Sequence[object]:
            return await store.claim_due(OPERATOR, process_owner(), _LEASE, limit=limit, agents=["clerk"])

        async def turns() -> Sequence[object]:
            return await store.claim_turns(OPERATOR, _LEASE, limit=limit, agents=["clerk"])

        claim: Callable[[], Awaitable[Sequence[object]]] = trees if work == "trees" else turns
        await store.due(OPERATOR, agents=["clerk"], owner="other")
        _at_start()
        begin, count = time.monotonic(), 0
        while (passed := time.monotonic() - begin) < _SECONDS and (claimed := await claim()):
            count += len(claimed)
        return count / passed


def _claim_bare(url: str, limit: int) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT 1")
        _at_start()
        begin, count = time.monotonic(), 0
        while (passed := time.monotonic() - begin) < _SECONDS and (
            claimed := connection.execute(_BARE, (limit, "worker"), prepare=True).fetchall()
        ):
            count += len(claimed)
        return count / passed


if __name__ == "__main__":
    _url, _work, _limit = sys.argv[1:]
    print(
        json.dumps(_claim_bare(_url, int(_limit)) if _work == "bare" else asyncio.run(_claim(_url, _work, int(_limit))))
    )
