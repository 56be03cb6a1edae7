"""A process is killed in the middle of a run, and another one continues the run when the lease has ended."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Chat, Resources, Runtime, Scope, tool
from concertino.messages import ToolMessage
from concertino.storage import PostgresStore
from concertino.testing import ScriptedModel, call

STEPS = 12
LEASE = 0.5
EFFECTS = Path("effects")


@tool(effect="once")
def pay(n: int) -> str:
    """Pay."""
    with EFFECTS.open("a") as file:
        file.write(f"{n}\n")
    return f"paid {n}"


def paid() -> list[str]:
    return EFFECTS.read_text().splitlines() if EFFECTS.exists() else []


class Clerk(AgentConfig):
    name = "clerk"
    tools = (pay,)


def answer(request: Any) -> Any:
    done = sum(isinstance(message, ToolMessage) for message in request.messages)
    return call("pay", n=done) if done < STEPS else "done"


def runtime_of(store: Any) -> Runtime:
    model = ScriptedModel(*[answer] * 100)
    return Runtime([Clerk()], Resources(store=store, models=lambda _: model), lease=LEASE, sweep=0.1)


async def first_process(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store, runtime_of(store) as runtime:
        run = await runtime.start(Chat(model="any", message="pay", scope=Scope(user="u")), "clerk", run_id="r1")
        await run.result()


def killed(url: str, schema: str, after: int) -> None:
    """Run the first process until it has paid *after* times, and kill it."""
    run = f"asyncio.run(first_process({url!r}, {schema!r}))"
    program = f"import asyncio; from tests.postgres.test_kill import first_process; {run}"
    environment = {"PYTHONPATH": ":".join([str(Path(__file__).parents[2]), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as process:
        while len(paid()) < after:
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("seed", range(4))
async def test_a_killed_process_is_replaced(
    url: str, schema: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with await PostgresStore.open(url, schema=schema) as store:
        await asyncio.to_thread(killed, url, schema, random.Random(seed).randrange(1, STEPS))
        async with runtime_of(store):
            while (run := await store.run(OPERATOR, "r1")) is None or run.end is None:  # noqa: ASYNC110 - others end it
                await asyncio.sleep(0.02)
        assert run.end.status == "completed", run.end.error
        found = paid()
        assert len(found) == len(set(found)), "a once tool ran twice"
        messages = [stored.message for stored in await store.messages(OPERATOR, "r1")]
        results = [message for message in messages if isinstance(message, ToolMessage)]
        assert len(results) == STEPS
        told = [message for message in results if message.content.startswith("paid")]
        assert len(told) >= STEPS - 1, "at most the call in progress is unknown"
        assert not await store.operations(OPERATOR, run_id="r1")
