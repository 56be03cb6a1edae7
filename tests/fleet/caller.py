"""A process that calls a model behind the rate limit of a key: DATABASE FOLDER USER REQUESTS ALLOWED."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from concertino import AgentConfig, Chat, Resources, Retry, Scope, SharedRateLimit, ToolOrchestrator
from concertino.testing import LimitedModel
from concertino.wiring import open_store

RATE = 1_200
"""Requests a minute: 20 a second, and 120 at once."""
WINDOW = 3.0
"""Seconds in which the provider allows so many requests."""


async def main(database: str, folder: str, user: str, requests: str, allowed: str) -> None:
    """Print a line, wait for one, and make the requests."""
    store = await open_store(database)
    limit = SharedRateLimit(store, "key", requests_per_minute=RATE)
    model = LimitedModel(Path(folder) / "requests", int(allowed), WINDOW, user=user)
    resources = Resources(rate_limits={"limited": limit}, retry=Retry(attempts=20, longest=60.0))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

    async def ask() -> None:
        chat = Chat("Go.", model=model, scope=Scope(tenant=user))
        await ToolOrchestrator(chat, AgentConfig(), resources=resources).run()

    await asyncio.gather(*(ask() for _ in range(int(requests))))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
