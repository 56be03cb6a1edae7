"""`python program.py DATABASE LEDGER`: a run whose server asks the user; the process kills itself while it waits."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from concertino import Chat, Resources, Runtime, SqliteStore
from concertino.testing import ScriptedModel, call
from concertino.tools.mcp import McpToolbox
from tests.mcp.conftest import ANN, agent, friendly


async def main(database: Path, ledger: Path) -> None:
    async with McpToolbox(friendly()) as box:
        model = ScriptedModel(call("own_pay", amount=5, file=str(ledger)))
        store = await SqliteStore.open(database)
        async with Runtime([agent(box)], Resources(model=model), store=store) as runtime:
            live = await runtime.start(Chat("Go.", scope=ANN), "assistant")
            assert (await live.result()).status == "suspended"
            print(live.id, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
