"""Claims of due runs by several processes: `python -m benchmarks.fleet.claims URL BEGIN LIMIT` is one of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

import psycopg

from concertino import OPERATOR
from concertino.storage import PostgresStore
from concertino.storage.process import process_owner

_LEASE = 3600.0


def claims(url: str, workers: int, limit: int) -> float:
    """Return the claims per second of this number of *workers*, each of which claims *limit* runs at a time."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("""
            UPDATE concertino.heads SET owner = '', process = '', lease = 0, tries = 0, ready_at = 1
            WHERE ending IS NULL
        """)
        connection.execute("VACUUM concertino.heads")
    begin = time.time() + 2 + workers / 2
    command = [sys.executable, "-m", "benchmarks.fleet.claims", url, str(begin), str(limit)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
    found = [json.loads(process.communicate()[0]) for process in processes]
    assert all(begun <= begin + 0.5 for begun, _, _ in found), "a worker began late"
    return float(sum(count for _, _, count in found) / (max(end for _, end, _ in found) - begin))


async def _claim(url: str, begin: float, limit: int) -> tuple[float, float, int]:
    """Claim until nothing is due. Return when it began and ended, and the number of claims."""
    async with await PostgresStore.open(url) as store:
        await store.due(OPERATOR, agents=["clerk"], owner="nobody")
        ready = time.time()
        await asyncio.sleep(max(0.0, begin - ready))
        count = 0
        while claimed := await store.claim_due(OPERATOR, process_owner(), _LEASE, limit=limit, agents=["clerk"]):
            count += len(claimed)
        return ready, time.time(), count


if __name__ == "__main__":
    _url, _begin, _limit = sys.argv[1:]
    print(json.dumps(asyncio.run(_claim(_url, float(_begin), int(_limit)))))
