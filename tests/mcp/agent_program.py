"""`python agent_program.py DATABASE [MODE]`: agents for one MCP client over standard input and output.

With the mode `die`, the process kills itself as its agent waits; with `go`, the agent need not wait.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from concertino import Resources, Runtime, SqliteStore
from concertino.server.mcp import AgentServer
from concertino.testing import ScriptedModel, call
from tests.mcp.agent_kit import ANN, Desk, flow


async def main(database: Path, mode: str) -> None:
    desk = Desk()
    script: dict[str, list[Any]] = {"die": [call("wait")], "go": ["Over."], "wait": [call("wait")]}
    model = ScriptedModel(*script.get(mode, [call("order", item="tea"), "Ordered."]))
    if mode == "go":
        desk.release.set()
    async with (
        await SqliteStore.open(database) as store,
        Runtime([desk, flow()], Resources(model=model, store=store), sweep=0.05) as runtime,
    ):
        server = AgentServer(runtime)
        serving = asyncio.create_task(server.serve_stdio(ANN))
        if mode == "die":
            await desk.started.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        await serving


asyncio.run(main(Path(sys.argv[1]), "".join(sys.argv[2:])))
