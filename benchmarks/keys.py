"""Cost of encrypted content: python -m benchmarks.keys URL

Appends the two entries of a step, with 1.5 kB of content, to stores in the PostgreSQL database at URL: one without keys
and one with a `KeyFile`, in turn, and prints the CPU time and the time of an append in each. The schemas stay.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from concertino.storage import KeyFile, PostgresStore
from concertino.testing.store_suite.kit import record, start_tree, whole

RUNS, STEPS = 40, 20
TEXT = "some content " * 100


async def run(store: PostgresStore, run_id: str) -> tuple[float, float, float]:
    """Append a run, and return the seconds of its start, and of an append on the clock and of CPU."""
    clock = time.perf_counter()
    tree = await start_tree(store, run_id)
    started = time.perf_counter()
    cpu = time.process_time()
    for step in range(STEPS):
        await tree.append("model_requested", content={"a": 1})
        shown, used = [whole(TEXT), whole("short")], [record(step, run_id)]
        await tree.append("model_answered", messages=shown, content={"calls": TEXT[:200]}, usage=used)
    appends = 2 * STEPS
    return started - clock, (time.perf_counter() - started) / appends, (time.process_time() - cpu) / appends


async def main(url: str) -> None:
    """Print the figures."""
    name = f"{time.time_ns():x}"
    with tempfile.TemporaryDirectory() as folder:
        stores = {
            "without keys": await PostgresStore.open(url, schema=f"plain_{name}"),
            "with keys": await PostgresStore.open(url, schema=f"keys_{name}", keys=KeyFile(Path(folder) / "keys.db")),
        }
        taken: dict[str, list[tuple[float, float, float]]] = {which: [] for which in stores}
        for number in range(RUNS):
            for which, store in stores.items():
                taken[which].append(await run(store, f"r{number}"))
        for which, store in stores.items():
            start, append, cpu = (1e3 * median(column) for column in zip(*taken[which], strict=True))
            print(f"{which:13} start {start:6.2f} ms, append {append:6.3f} ms, of this {cpu:.3f} ms of CPU")
            await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
