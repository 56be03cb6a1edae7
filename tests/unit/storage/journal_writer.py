"""One run that grows, and processes that write: what the tests of failures are made of."""

from __future__ import annotations

import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

from concertino import Scope
from concertino.messages import UserMessage
from concertino.storage.sqlite import SqliteStore
from concertino.storage.types import Claim, Entry, EntryMessage, RunStart
from concertino.usage import Tokens, UsageRecord


async def begin(store: SqliteStore, run_id: str, owner: str = "me") -> None:
    """Start a root, claimed by *owner* for an hour."""
    start = RunStart(
        run_id=run_id,
        root_id=run_id,
        parent_id=None,
        parent_call=None,
        agent="a",
        agent_path="a",
        conversation_id="c",
        scope=Scope("o", "u"),
        task="",
        started=0.0,
    )
    claimed = claim(run_id, owner)
    await store.begin(start, Entry(run_id=run_id, seq=0, claim=claimed, kind="started"), claimed)


def claim(run_id: str, owner: str = "me") -> Claim:
    return Claim(root_id=run_id, scope=Scope("o", "u"), epoch=1, owner=owner, seconds=3600.0)


def entry(run_id: str, number: int, text: str = "x", tokens: int | None = None) -> Entry:
    """The entry *number*, from 1: two messages, something held, and a usage record."""
    usage = UsageRecord(
        id=f"{run_id}/{number}",
        run_id=run_id,
        agent_path="a",
        provider="p",
        model="m",
        tokens=Tokens(number if tokens is None else tokens),
        cost=Decimal("0.1"),
    )
    said = [UserMessage(f"{number}{half}{text}") for half in "ab"]
    messages = [EntryMessage(message=message, keep=message) for message in said]
    more = {"messages": messages, "usage": [usage], "content": {"n": number}}
    return Entry(run_id=run_id, seq=number, claim=claim(run_id), kind="model_answered", **more)  # type: ignore[arg-type]


WRITER = """
import asyncio, sys
sys.path[:0] = sys.argv[2:3]
from journal_writer import begin, entry
from concertino import Scope
from concertino.storage.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(sys.argv[1])
    await begin(store, "r1")
    for number in range(1, int(sys.argv[3]) + 1):
        await store.append(entry("r1", number))
        print(number, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def writer(path: Path, code: str = WRITER, *, most: int = 1_000_000) -> subprocess.Popen[str]:
    """Start another process that appends at most *most* entries to run r1, and stays until it is killed."""
    command = [sys.executable, "-c", code, str(path), str(Path(__file__).parent), str(most)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_after(process: subprocess.Popen[str], acknowledged: int) -> int:
    """Kill a writing process after so many of its appends; the number of the last that it acknowledged."""
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    return max(int(line) for line in said if line.endswith("\n"))
