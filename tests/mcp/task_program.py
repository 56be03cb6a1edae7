"""`python task_program.py DATABASE FOLDER`: a run whose server runs a call as a task; the server kills the process."""

import asyncio
import sys
from pathlib import Path

from concertino import Chat, Resources, Runtime, SqliteStore
from concertino.testing import ScriptedModel, call
from concertino.tools.mcp import McpToolbox
from tests.mcp.conftest import ANN, agent
from tests.mcp.test_tasks import kettle


async def main(database: Path, folder: Path) -> None:
    async with McpToolbox(kettle(folder)) as box:
        model = ScriptedModel(call("kettle_brew", pot="blue"))
        store = await SqliteStore.open(database)
        async with Runtime([agent(box)], Resources(model=model), store=store, sweep=0.02) as runtime:
            live = await runtime.start(Chat("Go.", scope=ANN), "assistant")
            print(live.id, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
