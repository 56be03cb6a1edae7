"""A server with all protocols in a process of its own: `python -m tests.clients.program DATABASE PAUSE`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from concertino import SqliteStore
from concertino.testing import conformance

from .app import runtime_on, served


async def main(path: Path) -> None:
    async with await SqliteStore.open(path) as store, served(runtime_on(store)) as address:
        print(address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    conformance.PAUSE = float(sys.argv[2])
    asyncio.run(main(Path(sys.argv[1])))
