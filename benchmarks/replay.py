"""Speed of replays: python -m benchmarks.replay [RUNS]

The runs have three requests and four calls of 350 bytes each, in a SQLite file. Half of them are replayed with their
own agent and are equal; the others with a changed prompt, and their recorded answers continue. The goal is a minute for
10,000 runs; the CPU time depends less on what else the machine does.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from concertino import OPERATOR, AgentConfig, Chat, Resources, SqliteStore, ToolOrchestrator, tool
from concertino.evaluation import replay_run
from concertino.testing import ScriptedModel, call

STORED = 200


@tool(effect="read")
async def look(name: str) -> str:
    """Look up."""
    return f"{name} is seven " * 25


class Clerk(AgentConfig):
    """The agent of the runs."""

    name = "clerk"
    prompt = "You help customers."
    tools = (look,)


class Changed(Clerk):
    """The agent with another prompt."""

    prompt = "You help customers. Be brief."


async def measure(runs: int) -> None:
    """Store runs, replay *runs* of them, and print the time that they took."""
    with tempfile.TemporaryDirectory() as folder:
        async with await SqliteStore.open(Path(folder) / "runs.db") as store:
            ids = []
            for number in range(STORED):
                pair = [call("look", name="tea"), call("look", name="cup")]
                model = ScriptedModel(pair, pair, "Tea and cup are seven.")
                chat = Chat(f"Question {number}", model=model)
                ids.append((await ToolOrchestrator(chat, Clerk(), resources=Resources(store=store)).run()).run_id)
            agents, resources, states = (Clerk(), Changed()), Resources(), Counter[str]()
            cpu, clock = time.process_time(), time.perf_counter()
            for number in range(runs):
                journal = await store.load(OPERATOR, ids[number % STORED])
                assert journal is not None
                states[(await replay_run(journal, agents[number % 2], resources=resources)).state] += 1
            cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    assert states == {"equal": runs - runs // 2, "changed": runs // 2}
    print(f"{runs:,} runs: {clock:.1f} s, {cpu:.1f} s of CPU, {cpu / runs * 1000:.2f} ms of CPU each")


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
