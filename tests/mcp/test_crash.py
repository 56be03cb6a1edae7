"""A question of a server survives the process, and another one answers it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from concertino import Resources, Runtime, SqliteStore
from concertino.testing import ScriptedModel
from concertino.tools.mcp import McpToolbox

from .conftest import ANN, agent, friendly
from .test_servers import results

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
async def test_a_question_survives_a_kill_and_is_answered_elsewhere(tmp_path: Path) -> None:
    database, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "tests.mcp.program", str(database), str(ledger)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", *sys.path])},
        stdout=subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not ledger.exists()
    async with McpToolbox(friendly()) as box:
        store = await SqliteStore.open(database)
        async with Runtime([agent(box)], Resources(model=ScriptedModel("Done.")), store=store, sweep=0.02) as runtime:
            (wait,) = await store.waits(ANN, open=True)
            await runtime.resolve(ANN, wait.key, {"amount": 7})
            result = await (await runtime.resume(ANN, printed.decode().strip())).result()
        await store.close()
    assert results(result.messages) == ["paid 7"]
    assert ledger.read_text() == "7\n"
